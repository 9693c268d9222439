// Sends messages when they are due, to one node.
//
// Errors are exceptions: std::runtime_error with the reason, for people. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "atbus/stop_signal.h"
#include "atbus/talk/talk.h"

namespace atbus::tool {

struct replay_target {
  bus_id id;
  own_node_options own;  // with the address of that node
};

class replayer {
 public:
  // Returns once that node is connected.
  explicit replayer(const replay_target& to);

  // Sleeps until then, as of atbus::now(). False: a signal has come first.
  bool wait_until(std::chrono::nanoseconds due, const stop_signal& signal);
  // Waits for room. False: a signal has come first.
  bool send(std::uint32_t type, bytes_view payload, std::chrono::nanoseconds due,
            const stop_signal& signal);
  // Waits until all that was sent has an outcome, at most 5 s.
  void finish();

  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  // By how much the latest message was late.
  [[nodiscard]] std::chrono::nanoseconds latest() const noexcept { return latest_; }
  [[nodiscard]] std::uint64_t undelivered() const noexcept { return undelivered_; }
  [[nodiscard]] const std::string& why_undelivered() const noexcept { return why_; }

 private:
  std::uint64_t sent_ = 0;
  std::uint64_t unpolled_ = 0;
  std::chrono::nanoseconds latest_{0};
  std::uint64_t undelivered_ = 0;
  std::string why_;
  std::string last_line_;
  const bus_id to_;
  node own_;  // ends before what its handlers write to
};

}  // namespace atbus::tool
