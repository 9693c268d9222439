// The listeners of a line to a NATS server: a subject each, to which it subscribes, and a socket to the node that
// listens. Over the socket go problems, as texts, and the node's ends of links that others open there.
//
// Openings wait in the mailbox, and are taken at a bounded pace.
//
// One thread.
#pragma once

#include <nats/nats.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "nats/nats_links.h"
#include "nats/nats_mailbox.h"
#include "nats/opening_pace.h"
#include "system/kernel.h"

namespace atbus::detail {

class nats_listeners {
 public:
  using time = std::chrono::nanoseconds;

  // The epoll instance outlives it. `tag`: for the ends of listeners there. `server`: for texts.
  nats_listeners(int epoll, std::uint64_t tag, std::shared_ptr<nats_mailbox> bell,
                 std::string server)
      : epoll_(epoll), tag_(tag), bell_(std::move(bell)), server_(std::move(server)) {}

  [[nodiscard]] bool empty() const noexcept { return listeners_.empty(); }

  // Takes the memory for begin().
  void prepare(const std::string& subject) { (void)listeners_[subject]; }
  // In place of an earlier one of that subject. Null: no connection.
  void begin(file socket, const std::string& subject, natsConnection* connection);
  // Those whose node no longer listens.
  void forget_ended();

  // A new connection.
  void subscribe_all(natsConnection& connection);
  // What libnats refused, for lack of memory or of threads. At most once a second.
  void subscribe_again(natsConnection& connection);
  void unsubscribe_all();

  // Tells each of them once, until there is another problem or forget_told().
  void tell_all(const std::string& problem);
  void forget_told() noexcept { told_.clear(); }
  void tell(std::string_view subject, std::string_view problem) const;
  // That this end may not publish to inboxes of others: strangers can cause that, so this is told seldom.
  void tell_of_refused_answers(const std::string& problem);

  // When one is to be taken; never: time::max().
  [[nodiscard]] time next_opening() const {
    return bell_->has_openings() ? pace_.due_at() : time::max();
  }
  // A few in each turn: what links have goes first.
  void take_openings(nats_links& into);

 private:
  struct listener {
    file socket;
    natsSubscription* subscription = nullptr;
  };

  void subscribe(const std::string& subject, listener& to, natsConnection& connection);
  static void unsubscribe(listener& from);
  [[nodiscard]] bool watch(const listener& one, int operation) noexcept;
  static void tell(const listener& one, std::string_view problem);
  void take_opening(natsMsg& message, const listener& at, nats_links& into);

  const int epoll_;
  const std::uint64_t tag_;
  const std::shared_ptr<nats_mailbox> bell_;
  const std::string server_;
  std::map<std::string, listener> listeners_;
  std::string told_;  // the latest problem that all were told of
  time subscribes_at_{0};
  time answers_again_at_{0};
  opening_pace pace_;
};

}  // namespace atbus::detail
