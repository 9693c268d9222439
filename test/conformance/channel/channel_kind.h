// What every kind of channel must do, written once: each test of this folder runs over every kind
// listed here.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/atbus.hpp"

namespace atbus {

using namespace std::chrono_literals;

struct channel_kind {
  const char* name;
  const char* scheme;

  // An address that nothing else uses.
  [[nodiscard]] std::string fresh_address() const {
    static std::atomic<int> count{0};
    return std::string{scheme} + "conformance-" + std::to_string(getpid()) + "-" +
           std::to_string(++count);
  }
  friend void PrintTo(const channel_kind& kind, std::ostream* out) { *out << kind.name; }
};

inline constexpr channel_kind channel_kinds[] = {{"mem", "mem://"}, {"shm", "shm://"}};

// A receiver that is removed with its address at the end of the test.
class ChannelTest : public testing::TestWithParam<channel_kind> {
 protected:
  receiver open_receiver(const receiver_options& options = {}) {
    auto opened = receiver::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  sender open_sender(const sender_options& options = {}) {
    auto opened = sender::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  // Polls until nothing comes any more.
  static std::vector<std::string> drain(receiver& inbox) {
    std::vector<std::string> texts;
    while (inbox.poll([&](bytes_view m) { texts.emplace_back(as_text(m)); }) != 0) {
    }
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
    if (auto last = receiver::open(address))
      (void)last->remove();
  }

  std::string address = GetParam().fresh_address();
};

inline std::string kind_name(const testing::TestParamInfo<channel_kind>& info) {
  return info.param.name;
}

}  // namespace atbus
