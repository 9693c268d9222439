#include "atbus/channel/receiver_backend.hpp"

#include <utility>

namespace atbus::detail {
namespace {

constexpr std::size_t problems_kept = 16;

}  // namespace

receiver_backend::~receiver_backend() = default;

status receiver_backend::usable() const noexcept {
  switch (interrupted_) {
    case interruption::none:
      return {};
    case interruption::closed:
      return errc::closed;
    case interruption::forked:
      return errc::used_after_fork;
  }
  return errc::closed;
}

void receiver_backend::release() noexcept {
  owned_ = false;
  if (interrupted_ == interruption::none) {
    interrupted_ = interruption::closed;
    stop();
  }
  if (!dispatching_)
    end();
}

void receiver_backend::end_dispatch() noexcept {
  if (!problems_.empty()) [[unlikely]]
    tell_problems();
  dispatching_ = false;
  if (!owned_)
    end();
}

void receiver_backend::end() noexcept {
  const auto handler = std::move(on_problem_);  // the user's: it ends outside of destroy's pause
  destroy();
}

void receiver_backend::on_problem(std::function<void(const error&)> handler) {
  on_problem_ = std::move(handler);
  (void)report_problems();
}

void receiver_backend::problem(error what) noexcept {
  if (on_problem_ || problems_.size() < problems_kept)
    problems_.push_back(std::move(what));
}

status receiver_backend::report_problems() noexcept {
  if (dispatching_ || problems_.empty() || !on_problem_)
    return usable();
  dispatching_ = true;
  tell_problems();
  const status after = usable();
  end_dispatch();
  return after;
}

void receiver_backend::tell_problems() noexcept {
  // Who has closed us, or is a forked child, is told no more.
  while (on_problem_ && !problems_.empty() && interrupted_ == interruption::none) {
    const auto handler = on_problem_;  // it may replace itself
    const error what = std::move(problems_.front());
    problems_.erase(problems_.begin());
    handler(what);
  }
}

}  // namespace atbus::detail
