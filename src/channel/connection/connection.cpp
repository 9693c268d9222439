#include "atbus/connection.hpp"

#include <cstring>

#include "atbus/detail/copy_payload.hpp"
#include "channel/connection/connection_set.h"
#include "system/socket.h"

namespace atbus {

using detail::connection_core;
using detail::connection_entry;

std::string_view name(connection_state state) noexcept {
  switch (state) {
    case connection_state::resolving:
      return "resolving";
    case connection_state::connecting:
      return "connecting";
    case connection_state::waiting:
      return "waiting";
    case connection_state::opening:
      return "opening";
    case connection_state::open:
      return "open";
    case connection_state::closing:
      return "closing";
    case connection_state::closed:
      return "closed";
  }
  return "unknown";
}

namespace {

// The entry a handle refers to, or why there is none.
struct found {
  found(detail::connection_anchor* anchor, std::uint64_t id) noexcept
      : entry(connection_core::find(anchor, id, core, why)) {}
  explicit operator bool() const noexcept { return entry != nullptr; }

  connection_core* core = nullptr;
  status why;
  connection_entry* entry;
};

// Does something with a connection that is not closed.
template <class Verb>
status with(const found& at, Verb&& verb) noexcept {
  if (!at)
    return at.why;
  if (at.entry->now == connection_entry::phase::closed)
    return errc::closed;
  verb(*at.core, *at.entry);
  return {};
}

}  // namespace

// --- connection

status connection::send(bytes_view message) const noexcept {
  found at{anchor_, id_};
  if (!at)
    return at.why;
  std::byte* const to = at.core->claim(*at.entry, message.size(), at.why);
  if (to == nullptr)
    return at.why;
  detail::copy_payload(to, message.data(), message.size());
  at.core->commit(*at.entry, message.size());
  return {};
}

status connection::send(std::span<const bytes_view> pieces) const noexcept {
  std::size_t length = 0;
  for (const bytes_view piece : pieces) {
    // Saturate: an absurd total must be refused, not wrap around.
    length = length + piece.size() < length ? static_cast<std::size_t>(-1) : length + piece.size();
  }
  found at{anchor_, id_};
  if (!at)
    return at.why;
  std::byte* to = at.core->claim(*at.entry, length, at.why);
  if (to == nullptr)
    return at.why;
  for (const bytes_view piece : pieces) {
    if (!piece.empty())
      std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  at.core->commit(*at.entry, length);
  return {};
}

connection_slot connection::claim(std::size_t length) const noexcept {
  connection_slot slot;
  found at{anchor_, id_};
  slot.why_ = at.why;
  if (!at)
    return slot;
  slot.why_ = {};
  std::byte* const to = at.core->claim(*at.entry, length, slot.why_);
  if (to == nullptr)
    return slot;
  slot.of_ = *this;
  slot.claim_ = at.entry->claims;
  slot.bytes_ = {to, length};
  slot.valid_ = true;
  return slot;
}

status connection_slot::commit(std::size_t length) noexcept {
  if (!valid_)
    return errc::closed;
  if (length > bytes_.size())
    return status{errc::invalid_argument, length, bytes_.size()};
  valid_ = false;
  const found at{of_.anchor_, of_.id_};
  if (!at)
    return at.why;
  if (at.entry->claims != claim_ || at.entry->chunk.frame == nullptr)
    return errc::closed;
  at.core->commit(*at.entry, length);
  return {};
}

void connection_slot::abort() noexcept {
  if (!std::exchange(valid_, false))
    return;
  const found at{of_.anchor_, of_.id_};
  if (!at || at.entry->claims != claim_ || at.entry->chunk.frame == nullptr)
    return;
  at.entry->chunk.frame = nullptr;
}

status connection::flush() const noexcept {
  const found at{anchor_, id_};
  return at ? at.core->flush(*at.entry) : at.why;
}
status connection::pause() const noexcept {
  return with({anchor_, id_}, [](connection_core& core, connection_entry& c) { core.pause(c); });
}
status connection::resume() const noexcept {
  return with({anchor_, id_}, [](connection_core& core, connection_entry& c) { core.resume(c); });
}
status connection::confirm() const noexcept {
  return with({anchor_, id_}, [](connection_core& core, connection_entry& c) { core.confirm(c); });
}
status connection::resend() const noexcept {
  return with({anchor_, id_}, [](connection_core& core, connection_entry& c) { core.resend(c); });
}
status connection::close(std::chrono::nanoseconds linger) const noexcept {
  return with({anchor_, id_},
              [&](connection_core& core, connection_entry& c) { core.close(c, linger); });
}
status connection::abort() const noexcept {
  return with({anchor_, id_}, [](connection_core& core, connection_entry& c) { core.abort(c); });
}
std::size_t connection::release(std::size_t messages) const noexcept {
  const found at{anchor_, id_};
  return at ? at.core->release(*at.entry, messages) : 0;
}

std::size_t connection::unsent(const std::function<void(bytes_view)>& each) const {
  std::size_t count = 0;
  unreleased([&](bytes_view message, bool written) {
    if (written)
      return;
    ++count;
    if (each)
      each(message);
  });
  return count;
}

std::size_t connection::unreleased(const std::function<void(bytes_view, bool)>& each) const {
  const found at{anchor_, id_};
  if (!at)
    return 0;
  at.core->settle(*at.entry);
  std::size_t released = at.entry->release_debt;
  std::size_t count = 0;
  detail::for_each_frame(*at.entry->queue, [&](bytes_view message, bool written) {
    if (released != 0) {
      --released;
      return;
    }
    ++count;
    if (each)
      each(message, written);
  });
  return count;
}

connection_state connection::state() const noexcept {
  const found at{anchor_, id_};
  return at ? connection_core::state(*at.entry) : connection_state::closed;
}
std::string connection::peer() const {
  const found at{anchor_, id_};
  return at ? at.entry->peer : std::string{};
}
bool connection::same_user() const noexcept {
  const found at{anchor_, id_};
  return at && at.entry->now == connection_entry::phase::linked && !at.entry->carried &&
         detail::is_of_our_user(at.entry->link->descriptor());
}
std::string connection::listener() const {
  const found at{anchor_, id_};
  return at ? at.entry->listener_address : std::string{};
}
std::uint64_t connection::message_limit() const noexcept {
  const found at{anchor_, id_};
  return at ? at.entry->limit : 0;
}
std::size_t connection::queued() const noexcept {
  const found at{anchor_, id_};
  return at ? at.entry->queued() : 0;
}
void* connection::context() const noexcept {
  const found at{anchor_, id_};
  return at ? at.entry->context : nullptr;
}
void connection::set_context(void* context) const noexcept {
  const found at{anchor_, id_};
  if (at)
    at.entry->context = context;
}

// --- connection_set

result<connection_set> connection_set::open(connection_handlers handlers,
                                            const connection_set_options& options) {
  auto made = connection_core::open(std::move(handlers), options);
  if (!made)
    return made.error();
  return connection_set{*made};
}
void connection_set::set_handlers(connection_handlers handlers) {
  if (core_ != nullptr)
    core_->set_handlers(std::move(handlers));
}
result<std::string> connection_set::listen(std::string_view address,
                                           const listen_options& options) {
  return core_ == nullptr ? error{errc::closed} : core_->listen(address, options);
}
error connection_set::close_listener(std::string_view address) {
  return core_ == nullptr ? error{errc::closed} : core_->close_listener(address);
}
result<connection> connection_set::connect(std::string_view address,
                                           const connect_options& options) {
  return core_ == nullptr ? error{errc::closed} : core_->connect(address, options);
}
std::size_t connection_set::poll(const poll_limits& limits) {
  return core_ == nullptr ? 0 : core_->poll(limits);
}
status connection_set::wait(std::chrono::nanoseconds timeout) {
  return core_ == nullptr ? status{errc::closed} : core_->wait(timeout);
}
void connection_set::end_poll() noexcept {
  if (core_ != nullptr)
    core_->end_poll();
}
void connection_set::flush() noexcept {
  if (core_ != nullptr)
    core_->flush();
}
void connection_set::flush_due() noexcept {
  if (core_ != nullptr)
    core_->flush_due();
}
int connection_set::descriptor() const noexcept {
  return core_ == nullptr ? -1 : core_->descriptor();
}
bool connection_set::prepare_sleep() {
  return core_ != nullptr && core_->prepare_sleep();
}
void connection_set::finish_sleep() {
  if (core_ != nullptr)
    core_->finish_sleep();
}
std::chrono::nanoseconds connection_set::longest_sleep() const noexcept {
  return core_ == nullptr ? std::chrono::nanoseconds{-1} : core_->longest_sleep();
}
channel_stats connection_set::stats() const {
  return core_ == nullptr ? channel_stats{} : core_->stats();
}
std::size_t connection_set::size() const noexcept {
  return core_ == nullptr ? 0 : core_->size();
}
void connection_set::close() noexcept {
  if (core_ != nullptr)
    std::exchange(core_, nullptr)->release();
}

}  // namespace atbus
