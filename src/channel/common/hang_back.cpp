#include "atbus/detail/hang_back.hpp"

#include "system/spin_budget.h"

namespace atbus::detail {

void hang_back::wait() const noexcept {
  const auto end = now() + (is_long_ ? long_moment : moment);
  while (now() < end)
    relax_cpu();
}

void hang_back::advance(bool waited, std::size_t messages) noexcept {
  messages_ += messages;
  if (waited && messages < streaming)
    return give_up();
  switch (phase_) {
    case phase::eager:  // the trial brought enough
      return enter(phase::timing_waits, timed_waits);
    case phase::timing_waits:
      if (--looks_left_ != 0)
        return;
      rate_waiting_ = rate();
      is_long_ = true;
      return enter(phase::timing_long_waits, timed_waits);
    case phase::timing_long_waits: {
      const bool is_poor = waited && messages < long_streaming && ++poor_waits_ > poor_waits_most;
      if (!is_poor && --looks_left_ != 0)
        return;
      const double found = rate();
      is_long_ = !is_poor && found > worth_more * rate_waiting_;
      if (is_long_)
        rate_waiting_ = found;
      return enter(phase::timing_eager, timed_eager_looks);
    }
    case phase::timing_eager:
      if (--looks_left_ != 0)
        return;
      if (worth_more * rate() >= rate_waiting_)
        return give_up();
      pause_ = 1;
      return enter(phase::waiting, waits_between_timings);
    case phase::waiting:
      if (--looks_left_ == 0) {
        is_long_ = false;
        enter(phase::timing_waits, timed_waits);
      }
      return;
  }
}

void hang_back::enter(phase next, std::uint32_t looks) noexcept {
  phase_ = next;
  looks_left_ = looks;
  messages_ = 0;
  poor_waits_ = 0;
  since_ = now();
}

double hang_back::rate() const noexcept {
  const auto elapsed = std::max(now() - since_, std::chrono::nanoseconds{1});
  return static_cast<double>(messages_) / static_cast<double>(elapsed.count());
}

void hang_back::give_up() noexcept {
  pause_ = phase_ == phase::waiting ? 1 : std::min(2 * pause_, longest_pause);
  phase_ = phase::eager;
  is_long_ = false;
  looks_left_ = pause_;
}

}  // namespace atbus::detail
