// Streams between a receiver and senders of one test.
#pragma once

#include <unistd.h>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "shared_memory.h"
#include "stream_bytes.h"
#include "test.h"

namespace atbus {

using test::patience;

inline std::string_view as_string(const detail::byte_string& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Calls `step` until `done`, as long as patience lasts. True: done.
inline bool repeat_until(const std::function<bool()>& done, const std::function<void()>& step) {
  const auto deadline = now() + patience;
  while (!done()) {
    if (now() > deadline)
      return false;
    step();
  }
  return true;
}

// The parameter is the beginning of an address.
class Stream : public ::testing::TestWithParam<const char*> {
 protected:
  static std::string fresh_address(std::string_view scheme) {
    static std::atomic<int> count{0};
    if (!scheme.starts_with("unix"))
      return std::string{scheme} + "0";
    return std::string{scheme} + "stream-" + std::to_string(getpid()) + "-" +
           std::to_string(++count);
  }

  // At `address`, which says the port then.
  receiver open_receiver(const receiver_options& options = {}) {
    // Through the socket alone.
    if (address.starts_with("unix") && address.find("?") == std::string::npos)
      address += "?shm=0";
    auto opened = receiver::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    address = opened->address();
    return std::move(opened).value();
  }
  sender open_sender(const sender_options& options = {}) const {
    auto opened = sender::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  // Buffers of the kernel and the queue that are full soon.
  static sender_options narrow(sender_options options = {}) {
    options.socket.send_buffer = 16 * 1024;
    options.buffer = send_buffer_kind::growing;
    options.send_buffer_size = 64 * 1024;
    return options;
  }
  static receiver_options narrow_receiver(receiver_options options = {}) {
    options.socket.receive_buffer = 16 * 1024;
    return options;
  }

  static void take(receiver& inbox, std::vector<std::string>& texts) {
    if (inbox.poll([&](bytes_view m) { texts.emplace_back(as_text(m)); }) == 0)
      (void)inbox.wait(1ms);
  }
  // Until so many messages came; `out` may have some in its queue.
  static std::vector<std::string> collect(receiver& inbox, std::size_t count,
                                          sender* out = nullptr) {
    std::vector<std::string> texts;
    (void)repeat_until([&] { return texts.size() >= count; },
                       [&] {
                         if (out != nullptr)
                           (void)out->flush();
                         take(inbox, texts);
                       });
    return texts;
  }
  // Looks at the connection until the sender has seen that it is lost.
  static bool see_the_loss(sender& out) {
    return repeat_until([&] { return !out.receiver_alive(); }, [&] { out.finish_sleep(); });
  }

  std::string address = fresh_address(GetParam());
};

inline std::string stream_name(const ::testing::TestParamInfo<const char*>& tested) {
  const std::string_view scheme{tested.param};
  return std::string{scheme.substr(0, scheme.find(':'))} +
         (scheme.starts_with("unix:///") ? "_path" : "");
}

}  // namespace atbus
