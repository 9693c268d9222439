// The way to an address that is connected to: asks for its name, dials one answer after the other,
// says how long to wait before all of that begins anew.
//
// Knows no loop: its owner watches the descriptors and calls when they are ready.
//
// One thread. Its owner keeps forks away (fork_pause) while it calls begin, answered, next, stop.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "atbus/address.hpp"
#include "atbus/status.hpp"
#include "channel/stream/dns_lookup.h"
#include "system/socket.h"

namespace atbus::detail {

// A Unix socket does not let whoever dials wait for a full backlog.
inline constexpr std::chrono::nanoseconds full_backlog_pause = std::chrono::milliseconds{2};

// ok, or what an address that nobody can dial lacks.
[[nodiscard]] error check_dialled(const address& where);

class dialler {
 public:
  // `reconnect_min` 0: never again.
  dialler(const address& where, const stream_options& sockets,
          std::chrono::nanoseconds reconnect_min, std::chrono::nanoseconds reconnect_max);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  // A new round. Then asking() says whether an answer is waited for first; else next() has sockets.
  [[nodiscard]] error begin();
  [[nodiscard]] bool asking() const noexcept { return lookup_ != nullptr; }
  // Becomes readable when there is an answer.
  [[nodiscard]] int descriptor() const noexcept { return lookup_->descriptor(); }
  // True: the answer is there; `why` says if it is none.
  [[nodiscard]] bool answered(error& why);

  // A socket on its way to the next address that can be dialled at all; the last one's error if
  // there is none.
  [[nodiscard]] result<dialled_socket> next();
  [[nodiscard]] bool has_next() const noexcept { return left() != 0; }
  // How many addresses it has not come to.
  [[nodiscard]] std::size_t left() const noexcept { return targets_.size() - next_; }

  // Whether another round is wanted, and when it is due: each time about twice as late, by chance up
  // to a quarter longer or shorter, so that many that lost the same end don't come back together.
  [[nodiscard]] bool dials_again() const noexcept {
    return reconnect_min_ > std::chrono::nanoseconds{0};
  }
  [[nodiscard]] std::chrono::nanoseconds next_round() noexcept;
  // The other end wants us: the next wait is a short one.
  void connected() noexcept { backoff_ = reconnect_min_; }
  void never_again() noexcept { reconnect_min_ = std::chrono::nanoseconds{0}; }

  // Ends a question that is under way.
  void stop() noexcept { lookup_.reset(); }
  // In a forked child.
  void abandon() noexcept {
    if (lookup_ != nullptr)
      lookup_->abandon();
  }

 private:
  address where_;
  std::string text_;
  stream_options sockets_;
  std::unique_ptr<dns_lookup> lookup_;
  std::vector<socket_address> targets_;
  std::size_t next_ = 0;
  std::chrono::nanoseconds reconnect_min_;
  std::chrono::nanoseconds reconnect_max_;
  std::chrono::nanoseconds backoff_;
};

}  // namespace atbus::detail
