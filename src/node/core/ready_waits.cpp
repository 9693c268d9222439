#include "node/core/ready_waits.h"

#include <algorithm>
#include <string>
#include <utility>

namespace atbus::detail {

error ready_waits::add(bus_id id, std::chrono::nanoseconds timeout,
                       std::function<void(status)> call, bool is_ready) {
  if (!call)
    return {errc::invalid_argument, "there is no function to call"};
  if (waits_.size() + events_.untold_calls() >= most)
    return {errc::would_block, std::to_string(most) + " calls wait for a node already"};
  if (is_ready) {  // without memory for the event nothing is kept
    events_.tell_call(std::move(call), {});
    return {};
  }
  auto made = std::make_unique<wait>();
  made->id = id;
  made->call = std::move(call);
  made->clock = std::make_unique<timer>(node_.timers, [this, key = made.get()] { time_out(key); });
  if (timeout >= std::chrono::nanoseconds{0})
    made->clock->set(moment_after(node_.now(), timeout));
  waits_.push_back(std::move(made));
  return {};
}

void ready_waits::time_out(const wait* which) {
  const auto at = std::ranges::find_if(waits_, [&](const auto& one) { return one.get() == which; });
  (*at)->clock->set(node_.now());  // again, if there is no memory for the event
  events_.tell_call((*at)->call, errc::timed_out);
  waits_.erase(at);
}

void ready_waits::tell(bus_id id, status how) {
  for (auto at = waits_.begin(); at != waits_.end();) {
    if ((*at)->id != id) {
      ++at;
      continue;
    }
    events_.tell_call((*at)->call,
                      how);  // a copy: without memory for the event, the call still waits
    at = waits_.erase(at);
  }
}

void ready_waits::close() noexcept {
  for (auto waits = std::exchange(waits_, {}); const auto& one : waits) {
    if (!node_.is_forked())
      one->call(errc::closed);
  }
}

}  // namespace atbus::detail
