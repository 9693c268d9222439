#include "atbus/detail/receiver_backend.hpp"

#include <utility>

namespace atbus::detail {

receiver_backend::~receiver_backend() = default;

void receiver_backend::on_problem(std::function<void(const error&)> handler) {
  set_on_problem(std::move(handler));
  (void)report_problems();
}

status receiver_backend::report_problems() noexcept {
  if (!has_problems())
    return usable();
  const dispatch_frame frame{*this};
  if (frame.entered())
    (void)tell_problems();
  return usable();
}

void receiver_backend::finish_dispatch() noexcept {
  if (has_problems()) [[unlikely]]
    (void)tell_problems();
}

}  // namespace atbus::detail
