#include "atbus/detail/dispatcher.hpp"

#include <new>
#include <utility>

#include "atbus/clock.hpp"

namespace atbus::detail {
namespace {

constexpr std::size_t problems_kept = 16;
constexpr std::chrono::nanoseconds between_reports = std::chrono::seconds{1};

}  // namespace

dispatcher::~dispatcher() = default;

void dispatcher::release() noexcept {
  owned_ = false;
  if (interrupted_ == interruption::none) {
    interrupted_ = interruption::closed;
    stop();
  }
  if (!dispatching_)
    end();
}

void dispatcher::end_dispatch() noexcept {
  finish_dispatch();
  dispatching_ = false;
  if (!owned_)
    end();
}

void dispatcher::end() noexcept {
  const auto handler =
      std::move(on_problem_);  // user code: destroyed outside of destroy's fork_pause
  destroy();
}

void dispatcher::problem(error what) noexcept {
  if (on_problem_ == nullptr && problems_.size() >= problems_kept)
    return;
  try {
    problems_.push_back(std::move(what));
  } catch (const std::bad_alloc&) {  // the counters still show it
  }
}

void dispatcher::report(error what) noexcept {
  const auto time = now();
  if (time < next_report_at_)
    return;
  next_report_at_ = time + between_reports;
  problem(std::move(what));
}

bool dispatcher::tell_problems() {
  while (has_problems() && interrupted_ == interruption::none) {
    const auto handler = on_problem_;
    const error what = std::move(problems_.front());
    problems_.erase(problems_.begin());
    (*handler)(what);
  }
  return interrupted_ == interruption::none;
}

}  // namespace atbus::detail
