// The connection to one NATS server or cluster, with all links of a carrier that pass through it. It has a thread,
// on which all calls of libnats happen: some block for seconds.
//
// Guarantees: its functions for other threads only take a mutex that nobody holds while waiting. When the
// connection is lost, all its links end, since nothing says what was lost with it; listeners stay.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/address.hpp"
#include "atbus/carrier.hpp"
#include "atbus/nats.hpp"
#include "nats/byte_carrier.h"
#include "nats/nats_mailbox.h"
#include "nats/opening_pace.h"
#include "system/kernel.h"

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

class nats_line final : public carrier_outlet {
 public:
  // Starts the thread, which lives until stop() was called and it has ended its work. The end of the process calls
  // it, and waits for the thread. Errors: system_error; closed: the process ends.
  [[nodiscard]] static result<std::shared_ptr<nats_line>> start(const nats_options& options,
                                                                const std::string& server);

  // How many threads of lines this process has.
  [[nodiscard]] static int running() noexcept;
  // Stops all, and no other is started.
  static void stop_all() noexcept;

  // For any thread. The sockets are the line's ends of their pairs.
  void listen(file socket, const address& at);
  void dial(file socket, const address& to, std::shared_ptr<link_note> note);
  void stop() noexcept;

 private:
  using time = std::chrono::nanoseconds;

  struct order {
    file socket;
    std::string subject;
    std::shared_ptr<link_note> note;  // null: listens
  };
  struct listener {
    file socket;
    natsSubscription* subscription = nullptr;
  };
  struct carried {
    std::shared_ptr<link_note> note;  // null: it was accepted
    std::string subject;              // that it dials
    std::unique_ptr<byte_carrier> stream;
    int watched = -1;  // epoll's events; -1: not in epoll
  };

  using links = std::map<std::uint64_t, carried>;

  nats_line(const nats_options& options, const std::string& server);
  [[nodiscard]] bool is_ready() const noexcept { return bell_ != nullptr && epoll_; }

  void run();
  void work();
  void begin_again() noexcept;
  [[nodiscard]] bool goes_on();
  void wait();

  void connect();
  void connected();
  void disconnect();
  void lost(const error& why);
  [[nodiscard]] bool is_connected() const;

  void follow_orders();
  void begin_listening(order wanted, listener& made);
  void begin_dialling(order wanted);
  void subscribe(const std::string& subject, listener& to);
  void subscribe_again();
  void unsubscribe(listener& from);
  void end_listening();
  [[nodiscard]] bool watch(const listener& one, int operation) noexcept;
  void tell_listeners(const std::string& problem);
  static void tell(const listener& one, std::string_view problem);

  void read_news();
  void take(natsMsg& message);
  void take_openings();
  [[nodiscard]] static file pair_with(const listener& at) noexcept;
  void take_opening(natsMsg& message, listener& at);
  void heard_of(const std::string& problem);
  void may_not_publish(std::string_view subject, const std::string& text);
  void hears_no_answers(const std::string& text);

  void look_at_clocks();
  void settle(std::uint64_t token, carried& of);
  void forget_ended();
  [[nodiscard]] links::reference add(file socket, std::shared_ptr<link_note> note,
                                     std::string subject);

  [[nodiscard]] bool publish(const std::string& subject, const std::string& reply,
                             bytes_view message) override;
  [[nodiscard]] std::size_t message_limit() const override;

  const nats_options options_;
  const std::string server_;
  const std::string inbox_;  // all its links' inboxes begin so
  std::shared_ptr<nats_mailbox> bell_;
  file epoll_;

  std::mutex mutex_;
  std::deque<order> orders_;
  bool stops_ = false;

  // The thread's own.
  std::deque<order> followed_;
  natsConnection* connection_ = nullptr;
  natsSubscription* inboxes_ = nullptr;
  time connects_at_{0};
  time backoff_{0};
  time ends_at_{0};   // after stop()
  std::string told_;  // the latest problem that listeners were told of
  time subscribes_at_{0};
  time answers_again_at_{0};
  opening_pace pace_;
  std::map<std::string, listener> listeners_;
  links links_;
  std::vector<std::uint64_t> ended_;  // links that have ended; some twice
  time looks_at_{0};                  // at the clocks of links
};

}  // namespace atbus::detail
