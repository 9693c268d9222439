#include "channel/stream/dialler.h"

#include <algorithm>
#include <new>
#include <utility>

#include "atbus/clock.hpp"
#include "core/error_text.h"
#include "system/random.h"

namespace atbus::detail {

error check_dialled(const address& where) {
  if (where.kind() != address_kind::unix_socket && where.port() == 0) {
    return {errc::invalid_address,
            where.to_string() + ": can't connect to port 0, only listen on it"};
  }
  return {};
}

error check_carrier(const address& where, const carrier* by) {
  if (where.kind() != address_kind::nats || by != nullptr)
    return {};
  return {errc::not_supported,
          where.to_string() +
              ": for nodes that have a carrier: link atbus::nats, and give the node what "
              "nats_carrier() makes (atbus/nats.hpp), with node_options::carrier"};
}

dialler::dialler(const address& where, const stream_options& sockets,
                 std::chrono::nanoseconds reconnect_min, std::chrono::nanoseconds reconnect_max,
                 std::shared_ptr<carrier> by)
    : where_(where),
      text_(where.to_string()),
      sockets_(sockets),
      by_(std::move(by)),
      reconnect_min_(reconnect_min),
      reconnect_max_(reconnect_max),
      backoff_(reconnect_min) {}

error dialler::begin() noexcept {
  return error_of(errc::out_of_memory, [this]() -> error {
    next_ = 0;
    targets_.clear();
    if (by_ != nullptr)
      return {};
    if (where_.kind() != address_kind::dns) {
      targets_.push_back(to_socket_address(where_));
      return {};
    }
    auto asked = dns_lookup::start(where_.name(), where_.port());
    if (!asked)
      return asked.error();
    lookup_ = std::move(*asked);
    return {};
  });
}

bool dialler::answered(error& why) noexcept {
  if (!lookup_->poll(targets_, why))
    return false;
  lookup_.reset();
  return true;
}

void dialler::stop(const file& epoll) noexcept {
  if (lookup_ == nullptr)
    return;
  // A lookup that already runs can't be cancelled. Its descriptor stays open, and would report the late
  // answer as an event of a later attempt.
  (void)kernel().epoll_ctl(epoll.get(), EPOLL_CTL_DEL, lookup_->descriptor(), nullptr);
  lookup_.reset();
}

result<dialled_socket> dialler::ask_carrier() noexcept {
  try {
    auto made = by_->connect(where_);
    if (!made)
      return error_at(text_, made.error());
    carried_ = std::move(made->link);
    return dialled_socket{.fd = file{made->descriptor}, .connected = true};
  } catch (const std::bad_alloc&) {
    return error{errc::out_of_memory};
  }
}

error dialler::carrier_says() const {
  return carried_ != nullptr ? carried_->why() : error{};
}

result<dialled_socket> dialler::next() noexcept {
  if (by_ != nullptr)
    return ask_carrier();
  error last = error_at(errc::not_found, text_, "the name has no address");
  while (has_next()) {
    auto dialled = dial_socket(targets_[next_++], text_, sockets_);
    if (dialled)
      return dialled;
    last = std::move(dialled).error();
  }
  return last;
}

std::chrono::nanoseconds dialler::next_round() noexcept {
  const auto quarter = backoff_.count() / 4;
  const auto spread =
      quarter == 0
          ? 0
          : static_cast<std::int64_t>(random_word() % static_cast<std::uint64_t>(2 * quarter));
  const auto at = moment_after(now(), moment_after(backoff_ - std::chrono::nanoseconds{quarter},
                                                   std::chrono::nanoseconds{spread}));
  backoff_ = std::min(moment_after(backoff_, backoff_), std::max(reconnect_max_, reconnect_min_));
  return at;
}

}  // namespace atbus::detail
