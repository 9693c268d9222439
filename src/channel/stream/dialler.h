// Dials an address: looks up its name, dials one result after the other, and tells the backoff before the
// next round.
//
// Has no event loop: its owner watches the descriptors and calls when they are ready.
//
// One thread. Its owner blocks forks (fork_pause) while it calls begin, answered, next, stop.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "atbus/address.hpp"
#include "atbus/carrier.hpp"
#include "atbus/status.hpp"
#include "channel/stream/dns_lookup.h"
#include "system/kernel.h"
#include "system/socket.h"

namespace atbus::detail {

// The pause before dialling a Unix listener again whose backlog is full: the kernel does not wait.
inline constexpr std::chrono::nanoseconds full_backlog_pause = std::chrono::milliseconds{2};

// ok, or why the address can't be dialled.
[[nodiscard]] error check_dialled(const address& where);
// ok, or why there is no carrier for the address, which needs one.
[[nodiscard]] error check_carrier(const address& where, const carrier* by);

class dialler {
 public:
  // `reconnect_min` 0: only one round.
  // `by`: for a nats:// address.
  dialler(const address& where, const stream_options& sockets,
          std::chrono::nanoseconds reconnect_min, std::chrono::nanoseconds reconnect_max,
          std::shared_ptr<carrier> by = nullptr);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  // Begins a round. Then asking() tells whether a lookup has to finish first; else next() has sockets.
  [[nodiscard]] error begin() noexcept;
  [[nodiscard]] bool asking() const noexcept { return lookup_ != nullptr; }
  // Becomes readable when there is an answer.
  [[nodiscard]] int descriptor() const noexcept { return lookup_->descriptor(); }
  // True: the lookup has finished; `why` is set if it failed.
  [[nodiscard]] bool answered(error& why) noexcept;

  // A connecting socket to the next address that can be dialled; the error of the last one if none can.
  [[nodiscard]] result<dialled_socket> next() noexcept;
  [[nodiscard]] bool has_next() const noexcept { return left() != 0; }
  // The number of addresses not tried yet.
  [[nodiscard]] std::size_t left() const noexcept { return targets_.size() - next_; }

  // What the carrier says of the end of the latest link; ok if nothing, or if there is no carrier.
  [[nodiscard]] error carrier_says() const;

  // Whether there is another round, and when. The backoff doubles each time, with a jitter of up to a
  // quarter, so that many peers that lost the same end don't come back together.
  [[nodiscard]] bool dials_again() const noexcept {
    return reconnect_min_ > std::chrono::nanoseconds{0};
  }
  [[nodiscard]] std::chrono::nanoseconds next_round() noexcept;
  // The peer has answered: resets the backoff.
  void connected() noexcept { backoff_ = reconnect_min_; }
  void never_again() noexcept { reconnect_min_ = std::chrono::nanoseconds{0}; }

  // Cancels a running lookup. `epoll` no longer watches its descriptor, if it did.
  void stop(const file& epoll) noexcept;
  // For a forked child.
  void abandon() noexcept {
    if (lookup_ != nullptr)
      lookup_->abandon();
  }

 private:
  [[nodiscard]] result<dialled_socket> ask_carrier() noexcept;

  address where_;
  std::string text_;
  stream_options sockets_;
  std::unique_ptr<dns_lookup> lookup_;
  std::shared_ptr<carrier> by_;
  std::shared_ptr<const carried_link> carried_;
  std::vector<socket_address> targets_;
  std::size_t next_ = 0;
  std::chrono::nanoseconds reconnect_min_;
  std::chrono::nanoseconds reconnect_max_;
  std::chrono::nanoseconds backoff_;
};

}  // namespace atbus::detail
