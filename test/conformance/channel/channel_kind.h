// What every kind of channel must do, written once: each test of this folder runs over every kind
// listed here.
#pragma once

#include <unistd.h>

#include "atbus/atbus.hpp"
#include "test.h"

namespace atbus {

struct channel_kind {
  const char* name;
  const char* scheme;
  bool stream = false;   // through sockets: nothing waits for a successor
  bool growing = false;  // the sender's buffer is allocated as it is needed
  const char* options = "";

  // An address that nothing else uses, to open a receiver at.
  [[nodiscard]] std::string fresh_address() const {
    static std::atomic<int> count{0};
    std::string at{scheme};
    if (stream && at.find("unix") == std::string::npos)
      return at + "0";
    return at + "conformance-" + std::to_string(getpid()) + "-" + std::to_string(++count) + options;
  }
  friend void PrintTo(const channel_kind& kind, std::ostream* out) { *out << kind.name; }
};

inline constexpr channel_kind lane_kinds[] = {{"mem", "mem://"}, {"shm", "shm://"}};
inline constexpr channel_kind channel_kinds[] = {
    {"mem", "mem://"},
    {"shm", "shm://"},
    {"ipv4", "ipv4://127.0.0.1:", true},
    {"ipv6", "ipv6://[::1]:", true},
    {"ipv6_growing", "ipv6://[::1]:", true, true},
    {"unix", "unix://@", true},
    {"unix_path", "unix:///tmp/atbus-", true},
    {"unix_without_shm", "unix://@", true, false, "?shm=false"},
};

// A receiver that is removed with its address at the end of the test.
class ChannelTest : public ::testing::TestWithParam<channel_kind> {
 protected:
  receiver open_receiver(const receiver_options& options = {}) {
    most_ = options.message_limit;
    auto opened = receiver::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    address = opened->address();
    return std::move(opened).value();
  }
  sender open_sender(sender_options options = {}) {
    if (GetParam().growing)
      options.buffer = send_buffer_kind::growing;
    if (options.message_limit == 0)
      options.message_limit = most_;  // a lane has it from its segment
    options.socket.send_buffer = options.socket.receive_buffer = 64 * 1024;  // full soon
    if (options.send_buffer_size == 0)
      options.send_buffer_size = 64 * 1024;
    if (options.send_buffer_number == 0)
      options.send_buffer_number = 512;
    auto opened = sender::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  // Polls until nothing comes any more, also of what the sender's kernel had no room for.
  static std::vector<std::string> drain(receiver& inbox, sender& out) {
    std::vector<std::string> texts;
    for (bool more = true; more;) {
      const bool left = out.flush() == errc::would_block;
      const auto some = drain(inbox);
      texts.insert(texts.end(), some.begin(), some.end());
      more = left || !some.empty();
    }
    return texts;
  }
  // Polls until nothing comes any more. A network delivers a moment after it was sent.
  static std::vector<std::string> drain(receiver& inbox) {
    std::vector<std::string> texts;
    const bool network = std::string_view{GetParam().scheme}.starts_with("ip");
    do {
      while (inbox.poll([&](bytes_view m) { texts.emplace_back(as_text(m)); }) != 0) {
      }
    } while (network && inbox.wait(5ms));
    return texts;
  }
  // Polls until `count` messages came or thirty seconds have passed.
  static std::vector<std::string> collect(receiver& inbox, std::size_t count) {
    std::vector<std::string> texts;
    const auto deadline = now() + 30s;
    while (texts.size() < count && now() < deadline) {
      if (inbox.poll([&](bytes_view m) { texts.emplace_back(as_text(m)); }) == 0) {
        (void)inbox.wait(deadline - now());
      }
    }
    return texts;
  }
  void TearDown() override {
    // Whatever the test did with its receivers, a last one takes the segment over and ends it.
    if (GetParam().stream)
      return;
    if (auto last = receiver::open(address))
      (void)last->remove();
  }

  std::string address = GetParam().fresh_address();

 private:
  std::uint64_t most_ = 0;  // bytes of a message at the receiver
};

inline std::string kind_name(const ::testing::TestParamInfo<channel_kind>& info) {
  return info.param.name;
}

}  // namespace atbus
