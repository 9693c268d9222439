#include "atbus/detail/sender_backend.hpp"

#include <utility>

namespace atbus::detail {

sender_backend::~sender_backend() = default;

void sender_backend::release() noexcept {
  owned_ = false;
  stop();
  if (!in_callback_)
    end();
}

void sender_backend::end() noexcept {
  const auto handler =
      std::move(on_writable_);  // user code: destroyed outside of destroy's fork_pause
  destroy();
}

void sender_backend::call_on_writable() {
  if (!on_writable_ || in_callback_)
    return;
  in_callback_ = true;
  struct frame {
    sender_backend& self;
    ~frame() {
      self.in_callback_ = false;
      if (!self.owned_)
        self.end();
    }
  } const guard{*this};
  const auto callback = on_writable_;  // a copy, because the callback may replace itself
  callback();
}

}  // namespace atbus::detail
