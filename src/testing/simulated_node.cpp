#include "testing/simulated_node.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "protocol/control.h"
#include "protocol/message_head.h"
#include "protocol/routed_head.h"

namespace atbus::detail {

using namespace std::chrono_literals;

namespace {

// As channels make them.
simulated_process process_of(const node_options& options, host_identity host) {
  const std::size_t limit = routed_size(
      std::max<std::size_t>(options.message_limit() + message_head_size, control_size_max));
  return {host, limit, std::max(options.send_buffer_size(), 2 * limit)};
}

}  // namespace

class simulated_node::platform final : public node_platform {
 public:
  platform(simulated_node& of, const simulated_process& process)
      : random_(of.net_.draw(std::numeric_limits<std::uint64_t>::max())),
        clock_(of.net_.clock()),
        channels_(of.net_, process, [&of] { of.wake(); }),
        host_(process.host),
        of_(of) {}

  [[nodiscard]] node_environment environment() noexcept override {
    return {clock_, random_, channels_, host_};
  }
  // The others go on meanwhile.
  bool sleep(std::chrono::nanoseconds longest) override {
    const std::uint64_t before = of_.polls;
    // One that is killed meanwhile is not polled any more.
    const auto is_over = [&] { return of_.polls != before || !of_.user().is_open(); };
    if (longest >= 0ns)
      return of_.net_.run_until(is_over, longest);
    while (!is_over()) {
      if (!of_.net_.step(std::chrono::nanoseconds::max()))
        throw std::logic_error{"a simulated node waits for ever: nothing is left to happen"};
    }
    return true;
  }
  [[nodiscard]] std::chrono::nanoseconds spin() const noexcept override { return 0ns; }

  [[nodiscard]] simulated_transport& channels() noexcept { return channels_; }
  [[nodiscard]] simulated_clock& clock() noexcept { return clock_; }

 private:
  simulated_random random_;
  simulated_clock clock_;
  simulated_transport channels_;
  host_identity host_;
  simulated_node& of_;
};

simulated_node::simulated_node(simulated_network& net, bus_id id, const node_options& options,
                               host_identity host)
    : net_(net),
      platform_(std::make_shared<platform>(*this, process_of(options, host))),
      node_(node_access::make(id, options, platform_)) {
  wake();
}

simulated_node::~simulated_node() {
  *alive_ = false;
}

simulated_transport& simulated_node::channels() noexcept {
  return platform_->channels();
}

bool simulated_node::is_in_use() const noexcept {
  // One that is released keeps its platform until the last of them returns.
  return node_access::is_released(*user_) ? platform_.use_count() > 1
                                          : node_access::is_in_use(*user_);
}

void simulated_node::wake() {
  plan(net_.now() + net_.draw_delay() / 16, reason::something_to_do);
}

void simulated_node::plan(std::chrono::nanoseconds when, reason why) {
  when = std::max(when, stopped_until_);
  if (when >= planned_)
    return;
  planned_ = when;
  if (std::find(comes_at_.begin(), comes_at_.end(), when) != comes_at_.end())
    return;
  comes_at_.push_back(when);
  auto then = [this, when, alive = alive_] {
    if (!*alive)
      return;
    std::erase(comes_at_, when);
    if (planned_ == when)
      poll();
  };
  if (why == reason::timer || when == stopped_until_)
    net_.timer(when, std::move(then));
  else
    net_.at(when, std::move(then));
}

void simulated_node::stop_until(std::chrono::nanoseconds when) {
  stopped_until_ = when;
  planned_ = std::chrono::nanoseconds::max();
  plan(when, reason::timer);
}

void simulated_node::step_clock(std::chrono::nanoseconds ahead) {
  platform_->clock().step(ahead);
  wake();
}

void simulated_node::poll() {
  planned_ = std::chrono::nanoseconds::max();
  if (net_.now() < stopped_until_)
    return plan(stopped_until_, reason::timer);
  ++polls;
  // A handler may throw, or end this process.
  struct frame {
    simulated_node& of;
    std::shared_ptr<bool> alive;
    ~frame() {
      if (*alive && of.user_->is_open())
        of.plan_next();
    }
  } const at_end{*this, alive_};
  if (instead_of_poll)
    instead_of_poll(*this);
  else
    user_->poll(limits);
}

void simulated_node::plan_next() {
  if (!user_->prepare_sleep())
    return wake();
  const std::chrono::nanoseconds sleep =
      node_access::is_stopping(*user_) ? 1ms : user_->longest_sleep();
  user_->finish_sleep();
  if (sleep >= 0ns)
    plan(moment_after(net_.now(), std::max<std::chrono::nanoseconds>(sleep, 20us)), reason::timer);
}

}  // namespace atbus::detail
