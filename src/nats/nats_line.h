// The connection to one NATS server or cluster, with all links of a carrier that pass through it. It has a thread,
// on which all calls of libnats happen: some block for seconds.
//
// Guarantees: its functions for other threads only take a mutex that nobody holds while waiting. When the
// connection is lost, all its links end, since nothing says what was lost with it; listeners stay.
#pragma once

#include <nats/nats.h>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "atbus/address.hpp"
#include "atbus/nats.hpp"
#include "nats/byte_carrier.h"
#include "nats/line_threads.h"
#include "nats/nats_links.h"
#include "nats/nats_listeners.h"
#include "nats/nats_mailbox.h"
#include "system/kernel.h"

namespace atbus::detail {

class nats_line final : public line_threads::worker, private carrier_outlet {
 public:
  // Starts its thread, which lives until stop() was called and it has ended its work. Errors: as line_threads::start().
  [[nodiscard]] static result<std::shared_ptr<nats_line>> start(const nats_options& options,
                                                                const std::string& server);

  // For any thread. The sockets are the line's ends of their pairs.
  void listen(file socket, const address& at);
  void dial(file socket, const address& to, std::shared_ptr<link_note> note);
  void stop() noexcept override;

 private:
  using time = std::chrono::nanoseconds;

  struct order {
    file socket;
    std::string subject;
    std::shared_ptr<link_note> note;  // null: listens
  };
  nats_line(const nats_options& options, const std::string& server);
  [[nodiscard]] bool is_ready() const noexcept { return bell_ != nullptr && epoll_; }

  void run() override;
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
  void begin_dialling(order wanted);

  void read_news();
  void heard_of(const std::string& problem);

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
  time ends_at_{0};  // after stop()
  nats_listeners listeners_;
  nats_links links_;
};

}  // namespace atbus::detail
