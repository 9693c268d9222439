#include "node/node_state.h"

#include <utility>

#include "atbus/clock.hpp"
#include "channel/loop_binding.h"

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
    asleep_ = of_.prepare_sleep() && !(asleep_ && woken_);
    if (asleep_)
      sleep(of_.longest_sleep());
    else
      stay_awake();
  }

  void after_wait() override {
    if (ended() || (asleep_ && !woken_))
      return;
    if (asleep_)
      of_.finish_sleep();
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

node_state::node_state(bus_id id, const node_options& options,
                       std::shared_ptr<node_platform> platform)
    : platform_(std::move(platform)),
      core_(id, options, platform_->environment()),
      message_limit_(options.message_limit()),
      drain_(options.drain()),
      spin_(platform_->spin()) {
  if (platform_->has_reports() && !options.report_directory().empty() && core_.fault() &&
      !core_.is_client())
    reports_ = std::make_unique<report_publisher>(options.report_directory(), core_);
  if (options.loop() == nullptr)
    return;
  node_on_loop* bound = nullptr;
  {
    const fork_pause no_fork;
    bound = new node_on_loop(*this);
  }
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
  reports_.reset();
  threads_.close();
  owned_ = false;
  if (in_use_ == 0)
    delete this;
}

void node_state::rethrow() {
  if (on_loop_ != nullptr)
    on_loop_->rethrow();
}

bool node_state::failed() const noexcept {
  return on_loop_ != nullptr && on_loop_->failed();
}

result<sender> node_state::open_thread_lane() {
  if (!core_.fault())
    return core_.fault();
  if (core_.is_closed())
    return error{errc::closed};
  return threads_.open(core_.self(), message_limit_, core_.descriptor());
}

std::size_t node_state::poll(const poll_limits& limits) {
  if (core_.dispatching() || forks_so_far() != forks_before_)
    return 0;
  const use in_here{*this};
  if (before_poll_)
    before_poll_();
  unfinished_ = true;
  const std::size_t told = core_.poll(limits, room_for_others());
  // Afterwards: a message that finds no room now is woken by the event that makes room.
  if (threads_.pass_on(core_, limits.messages))
    core_.flush();
  if (reports_ != nullptr && !core_.is_closed())
    reports_->publish_if_due(core_);
  unfinished_ = false;
  return told;
}

void node_state::spawn(task<> what) {
  const use in_here{*this};  // the task may destroy the node
  start(std::move(what), core_.events().exception_sink());
  if (!core_.dispatching())
    core_.events().rethrow();
}

bool node_state::prepare_sleep() {
  if (unfinished_ || !core_.prepare_sleep())
    return false;
  if (threads_.prepare_sleep())
    return true;
  core_.finish_sleep();
  return false;
}

void node_state::finish_sleep() {
  core_.finish_sleep();
  threads_.finish_sleep();
}

std::chrono::nanoseconds node_state::longest_sleep() const noexcept {
  // Negative: for ever.
  const auto earlier = [](std::chrono::nanoseconds a, std::chrono::nanoseconds b) {
    return std::min(a, b) < std::chrono::nanoseconds{0} ? std::max(a, b) : std::min(a, b);
  };
  const auto below = earlier(core_.longest_sleep(), threads_.longest_sleep());
  return reports_ == nullptr ? below : earlier(below, reports_->longest_sleep(core_));
}

status node_state::usable() const noexcept {
  if (core_.is_closed())
    return errc::closed;
  return forks_so_far() == forks_before_ ? status{} : status{errc::used_after_fork};
}

status node_state::wait(std::chrono::nanoseconds timeout) {
  if (const status able = usable(); !able)
    return able;
  if (!core_.fault())
    return core_.fault().code();
  if (core_.dispatching())
    return errc::invalid_argument;
  const use in_here{*this};
  const std::chrono::nanoseconds start = now();
  const wait_deadline deadline{core_.clock().now(), timeout, &core_.clock()};
  status how;
  if (core_.has_lanes() || threads_.has_lanes()) {
    if (!spin_at_lanes(start, deadline))
      how = sleep(deadline, [](std::chrono::nanoseconds) { return false; });
  } else {
    how = sleep(deadline, [&](std::chrono::nanoseconds longest) {
      return spin_.spin(start, wait_deadline{start, longest}.at(),
                        [this] { return platform_->sleep(std::chrono::nanoseconds{0}); });
    });
  }
  // A time that was over sooner says nothing.
  if (const auto waited = now() - start; how || waited > platform_->spin())
    spin_.learn(waited);
  return how;
}

bool node_state::spin_at_lanes(std::chrono::nanoseconds start, const wait_deadline& deadline) {
  constexpr unsigned looks_per_call = 8;  // of the kernel, which knows what comes through sockets
  if (unfinished_ || core_.has_work())
    return true;
  core_.flush_links();
  const std::chrono::nanoseconds longest{deadline.left_ns(longest_sleep())};
  bool found = false;
  unsigned looks = 0;
  (void)spin_.spin(start, wait_deadline{start, longest}.at(), [&] {
    found = core_.has_messages() || threads_.has_messages();
    return found ||
           (++looks % looks_per_call == 0 && platform_->sleep(std::chrono::nanoseconds{0}));
  });
  return found;
}

template <class Spin>
status node_state::sleep(const wait_deadline& deadline, Spin&& spin) {
  status how = errc::timed_out;
  while (how == errc::timed_out) {
    if (!prepare_sleep()) {
      how = {};
      break;
    }
    const std::chrono::nanoseconds longest = longest_sleep();
    std::int64_t left = deadline.left_ns(longest);
    bool woken = spin(std::chrono::nanoseconds{left});
    if (!woken) {
      left = deadline.left_ns(longest);
      woken = platform_->sleep(std::chrono::nanoseconds{left});
    }
    finish_sleep();
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
  if (!drained_by_) {
    drained_by_ = moment_after(core_.clock().now(), drain_);
    (void)threads_.pass_on(core_, poll_limits{}.messages);
  }
  return settled() || core_.clock().now() >= *drained_by_;
}

// Who has handled a message may have had something to say of it before. That is read by a poll which begins when all have
// been handled, and in which nothing more is sent.
bool node_state::is_settled_for_good() {
  constexpr int polls_max = 64;  // others may send without end
  core_.flush();
  for (int i = 0; i != polls_max; ++i) {
    if (!settled())
      return false;
    if (room_for_others() == 0)
      break;
    const std::uint64_t accepted = core_.stats().accepted;
    poll({});
    core_.flush();
    if (core_.has_heard_all() && core_.stats().accepted == accepted)
      break;
  }
  return settled();
}

status node_state::run() {
  if (const status able = usable(); !able)
    return able;
  if (!core_.fault())
    return core_.fault().code();
  if (core_.dispatching() || on_loop_ != nullptr)
    return errc::invalid_argument;
  const use in_here{*this};
  const auto has_to_drain = [this] { return stopping_ && !drained_by_; };
  while (usable()) {
    if (is_over()) {
      if (settled() && !is_settled_for_good())
        continue;
      if (core_.is_closed())
        break;
      stopping_ = false;
      drained_by_.reset();
      core_.flush();
      return settled() ? status{} : status{errc::timed_out};
    }
    if (poll({}) != 0 || core_.is_closed() || has_to_drain())
      continue;
    const std::chrono::nanoseconds start = now();
    if (!spin_.spin(start, start + std::chrono::milliseconds{1},
                    [&] { return poll({}) != 0 || core_.is_closed() || has_to_drain(); }) &&
        !core_.is_closed())
      (void)sleep(
          {core_.clock().now(),
           stopping_ ? std::chrono::milliseconds{1} : std::chrono::nanoseconds{-1}, &core_.clock()},
          [](std::chrono::nanoseconds) { return false; });
    spin_.learn(now() - start);
  }
  return usable();
}

status node_state::shutdown(std::chrono::nanoseconds deadline) {
  if (const status able = usable(); !able)
    return able;
  const use in_here{*this};  // a coroutine that wakes may destroy the node
  if (!core_.fault()) {
    core_.close();
    return core_.fault().code();
  }
  if (core_.dispatching())
    return errc::invalid_argument;
  struct limit_of_room {
    node_state& of;
    explicit limit_of_room(node_state& which) noexcept : of(which) { of.shuts_down_ = true; }
    ~limit_of_room() { end(); }
    void end() noexcept { of.shuts_down_ = false; }
  } limited{*this};
  const wait_deadline until{core_.clock().now(), deadline, &core_.clock()};
  const auto go_on = [&](std::chrono::nanoseconds step) {
    poll({});
    if (usable())
      wait(step);
    return static_cast<bool>(usable());
  };
  (void)threads_.pass_on(core_, poll_limits{}.messages);
  bool is_settled = false;
  while (!(is_settled = is_settled_for_good()) && !until.over() && room_for_others() != 0) {
    if (!go_on(std::chrono::milliseconds{1}))
      return usable();
  }
  if (const status able = usable(); !able)
    return able;
  const status how = is_settled ? status{} : status{errc::timed_out};
  limited.end();  // nothing more comes, and the ends of links are to be read
  core_.leave();
  const wait_deadline goodbye{core_.clock().now(), std::chrono::seconds{1}, &core_.clock()};
  while (!core_.has_left() && !goodbye.over()) {
    if (!go_on(std::chrono::milliseconds{1}))
      return usable();
  }
  poll({});        // refuses what threads have sent meanwhile,
  core_.poll({});  // and tells of it
  core_.close();
  threads_.close();
  reports_.reset();
  return how;
}

}  // namespace atbus::detail
