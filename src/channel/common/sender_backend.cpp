#include "atbus/detail/sender_backend.hpp"

#include <utility>

namespace atbus::detail {

sender_backend::~sender_backend() = default;

status sender_backend::refuse(std::size_t length) noexcept {
  discard_slot();
  return {errc::message_too_large, length, message_limit_};
}

status sender_backend::next_chunk(std::size_t length) noexcept {
  discard_slot();
  return new_chunk(length);
}

status sender_backend::find_room(std::uint64_t size) noexcept {
  discard_slot();
  return make_room(size);
}

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
  if (on_writable_ == nullptr || in_callback_)
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
  const auto callback = on_writable_;
  (*callback)();
}

}  // namespace atbus::detail
