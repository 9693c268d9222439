// The links of a line to a NATS server: a socket each, which epoll watches, and an inbox.
//
// One thread; a link_note is for any.
#pragma once

#include <nats/nats.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/carrier.hpp"
#include "nats/byte_carrier.h"

namespace atbus::detail {

// What a link's owner may learn of its end.
class link_note final : public carried_link {
 public:
  [[nodiscard]] error why() const override;
  void set(error why);

 private:
  mutable std::mutex mutex_;
  error why_;
};

class nats_links {
 public:
  using time = std::chrono::nanoseconds;

  static constexpr std::size_t links_max = 4096;

  // `out` and the epoll instance outlive it. Tags there are tokens; inboxes are `inbox` and a token.
  nats_links(carrier_outlet& out, int epoll, std::string inbox)
      : out_(out), epoll_(epoll), inbox_(std::move(inbox)) {}

  [[nodiscard]] bool empty() const noexcept { return links_.empty(); }
  [[nodiscard]] bool is_full() const noexcept { return links_.size() >= links_max; }
  // When their clocks are to be looked at.
  [[nodiscard]] time looks_at() const noexcept { return links_.empty() ? time::max() : looks_at_; }

  // `at_once`: there is a connection. Otherwise it is dialled by dial_all().
  void dial(file socket, std::shared_ptr<link_note> note, std::string subject, bool at_once);
  void dial_all();
  void accept(file socket, const carrier_frame& opening);

  // What epoll says of a socket. False: the tag is that of no link.
  bool ready(std::uint64_t token, std::uint32_t events);
  // Passes over what is for none of them.
  void take(natsMsg& message);
  void look_at_clocks();
  // To be called once in a turn: until then those that have ended are still there.
  void forget_ended();

  void end_all(const error& why);
  // Those that open.
  void end_opening(const error& why);
  // Those whose messages go to that subject. True: at least one of them was accepted here.
  [[nodiscard]] bool end_those_to(std::string_view subject, const error& why);
  // Without memory: ends and forgets all of them.
  void drop_all() noexcept;

 private:
  struct carried {
    std::shared_ptr<link_note> note;  // null: it was accepted
    std::string subject;              // that it dials
    std::unique_ptr<byte_carrier> stream;
    int watched = -1;  // epoll's events; -1: not in epoll
  };
  using links = std::map<std::uint64_t, carried>;

  [[nodiscard]] links::reference add(file socket, std::shared_ptr<link_note> note,
                                     std::string subject);
  void settle(std::uint64_t token, carried& of);

  carrier_outlet& out_;
  const int epoll_;
  const std::string inbox_;
  links links_;
  std::vector<std::uint64_t> ended_;  // links that have ended; some twice
  time looks_at_{0};                  // at the clocks of links
};

}  // namespace atbus::detail
