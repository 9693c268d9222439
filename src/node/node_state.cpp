#include "node/node_state.h"

#include <utility>

#include "atbus/core/clock.hpp"
#include "channel/loop_binding.h"
#include "channel/wait_deadline.h"

namespace atbus::detail {

class node_on_loop final : public loop_binding {
 public:
  explicit node_on_loop(node_state& of) : of_(of) {}

 private:
  static constexpr poll_limits per_turn{.messages = 1024, .time = std::chrono::milliseconds{2}};

  void before_wait() override {
    if (ended())
      return;
    if (of_.core_.is_closed())
      return retire();
    asleep_ = of_.core_.prepare_sleep() && !(asleep_ && woken_);
    if (asleep_)
      sleep(of_.core_.longest_sleep());
    else
      stay_awake();
  }

  void after_wait() override {
    if (ended() || (asleep_ && !woken_))
      return;
    if (asleep_)
      of_.core_.finish_sleep();
    asleep_ = woken_ = false;
    guarded([this] { of_.poll(per_turn); });
  }

  void close_channel() noexcept override {}

  node_state& of_;
  bool asleep_ = false;
};

class node_state::use {
 public:
  explicit use(node_state& of) noexcept : of_(of) { ++of_.in_use_; }
  ~use() {
    if (--of_.in_use_ == 0 && !of_.owned_)
      delete &of_;
  }
  use(const use&) = delete;
  use& operator=(const use&) = delete;

 private:
  node_state& of_;
};

node_state::node_state(bus_id id, const node_options& options, std::shared_ptr<node_ground> ground)
    : ground_(std::move(ground)),
      core_(id, options, ground_->environment()),
      drain_(options.drain()),
      spin_(ground_->spin()) {
  if (options.loop() == nullptr)
    return;
  auto* const bound = new node_on_loop(*this);
  if (const error bad = bound->start(options.loop(), core_.descriptor()); !bad) {
    bound->let_go();
    core_.fail(bad);
    return;
  }
  on_loop_ = bound;
}

node_state::~node_state() {
  if (on_loop_ != nullptr)
    on_loop_->let_go();
}

void node_state::release() noexcept {
  core_.close();
  owned_ = false;
  if (in_use_ == 0)
    delete this;
}

void node_state::rethrow() {
  if (on_loop_ != nullptr)
    on_loop_->rethrow();
}

std::size_t node_state::poll(const poll_limits& limits) {
  const use in_here{*this};
  return core_.poll(limits);
}

status node_state::wait(std::chrono::nanoseconds timeout) {
  if (core_.is_closed())
    return errc::closed;
  if (core_.dispatching())
    return errc::invalid_argument;
  const use in_here{*this};
  const wait_deadline deadline{core_.clock().now(), timeout, core_.clock()};
  status how = errc::timed_out;
  while (how == errc::timed_out) {
    if (!core_.prepare_sleep()) {
      how = {};
      break;
    }
    const std::chrono::nanoseconds longest = core_.longest_sleep();
    const std::int64_t left = deadline.left_ns(longest);
    const bool woken = ground_->sleep(std::chrono::nanoseconds{left});
    core_.finish_sleep();
    if (woken || (longest >= std::chrono::nanoseconds{0} && left >= longest.count()))
      how = {};
    else if (deadline.over())
      break;
  }
  return how;
}

bool node_state::is_over() {
  if (!stopping_)
    return false;
  if (!drained_by_)
    drained_by_ = core_.clock().now() + drain_;
  return core_.settled() || core_.clock().now() >= *drained_by_;
}

status node_state::run() {
  if (core_.is_closed())
    return errc::closed;
  if (!core_.fault())
    return core_.fault().code();
  if (core_.dispatching() || on_loop_ != nullptr)
    return errc::invalid_argument;
  const use in_here{*this};
  while (!core_.is_closed()) {
    if (is_over()) {
      stopping_ = false;
      drained_by_.reset();
      core_.flush();
      return {};
    }
    if (core_.poll({}) != 0 || core_.is_closed() || stopping_ != drained_by_.has_value())
      continue;
    const std::chrono::nanoseconds start = now();
    if (!spin_.spin(start, start + std::chrono::milliseconds{1},
                    [this] { return core_.poll({}) != 0 || core_.is_closed() || stopping_; }) &&
        !core_.is_closed())
      wait(stopping_ ? std::chrono::milliseconds{1} : std::chrono::nanoseconds{-1});
    spin_.learn(now() - start);
  }
  return errc::closed;
}

status node_state::shutdown(std::chrono::nanoseconds deadline) {
  if (core_.is_closed())
    return errc::closed;
  if (core_.dispatching())
    return errc::invalid_argument;
  const use in_here{*this};
  const wait_deadline until{core_.clock().now(), deadline, core_.clock()};
  const auto go_on = [&](std::chrono::nanoseconds step) {
    core_.poll({});
    if (!core_.is_closed())
      wait(step);
    return !core_.is_closed();
  };
  while (!core_.settled() && !until.over()) {
    if (!go_on(std::chrono::milliseconds{1}))
      return errc::closed;
  }
  const status how = core_.settled() ? status{} : status{errc::timed_out};
  core_.leave();
  const wait_deadline goodbye{core_.clock().now(), std::chrono::seconds{1}, core_.clock()};
  while (!core_.has_left() && !goodbye.over()) {
    if (!go_on(std::chrono::milliseconds{1}))
      return errc::closed;
  }
  core_.poll({});
  core_.close();
  return how;
}

}  // namespace atbus::detail
