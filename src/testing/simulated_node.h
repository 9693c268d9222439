// A simulated process with a node: it is polled when something arrives and when its timers are due.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "atbus/node.hpp"
#include "node/node_access.h"
#include "node/node_platform.h"
#include "testing/simulated_network.h"

namespace atbus::detail {

class simulated_random final : public random_source {
 public:
  explicit simulated_random(std::uint64_t seed) : engine_(seed) {}
  void fill(std::span<std::byte> bytes) noexcept override {
    for (std::byte& one : bytes)
      one = static_cast<std::byte>(engine_());
  }

 private:
  std::mt19937_64 engine_;
};

// The network's clock, and ahead of it.
class simulated_clock final : public clock_source {
 public:
  explicit simulated_clock(const clock_source& of) : of_(of) {}
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override {
    return moment_after(of_.now(), ahead_);
  }
  void step(std::chrono::nanoseconds ahead) noexcept { ahead_ = moment_after(ahead_, ahead); }

 private:
  const clock_source& of_;
  std::chrono::nanoseconds ahead_{0};
};

class simulated_node {
 public:
  simulated_node(simulated_network& net, bus_id id, const node_options& options,
                 host_identity host);
  ~simulated_node();
  simulated_node(const simulated_node&) = delete;
  simulated_node& operator=(const simulated_node&) = delete;

  [[nodiscard]] node& user() noexcept { return *user_; }
  // Its program has moved the node there. It calls bring_back() before that place ends.
  void is_at(node& place) noexcept { user_ = &place; }
  void bring_back() noexcept {
    node_ = std::move(*user_);
    user_ = &node_;
  }
  // While it is open.
  [[nodiscard]] node_core& core() noexcept { return node_access::core(*user_); }
  [[nodiscard]] simulated_transport& channels() noexcept;
  // What a verb has queued leaves with the next poll: that comes soon.
  void wake();
  // Stops as SIGSTOP does it, until then.
  void stop_until(std::chrono::nanoseconds when);
  void step_clock(std::chrono::nanoseconds ahead);
  // Whether its program would have left run().
  [[nodiscard]] bool is_over() { return !user_->is_open() || node_access::is_over(*user_); }
  // Closes its node.
  void end() {
    if (before_end)
      std::exchange(before_end, nullptr)();
    user_->close();
  }
  // Whether a function of its node that polls or waits has not returned; this must live as long.
  [[nodiscard]] bool is_in_use() const noexcept;

  poll_limits limits{};
  std::uint64_t polls = 0;
  // Called once, if there is one.
  std::function<void()> before_end;
  // Polls the node in its place, if there is one.
  std::function<void(simulated_node&)> instead_of_poll;

 private:
  class platform;

  enum class reason : std::uint8_t { something_to_do, timer };
  void plan(std::chrono::nanoseconds when, reason why);
  void poll();
  void plan_next();

  simulated_network& net_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::chrono::nanoseconds planned_ = std::chrono::nanoseconds::max();
  // Moments for which the network was asked already, also those that nothing is planned for any more.
  std::vector<std::chrono::nanoseconds> comes_at_;
  std::chrono::nanoseconds stopped_until_{0};
  std::shared_ptr<platform> platform_;
  node node_;  // dials its parent at once
  node* user_ = &node_;
};

}  // namespace atbus::detail
