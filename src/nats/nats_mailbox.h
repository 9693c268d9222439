// What libnats tells, from its threads to the carrier's one.
//
// libnats may call back after everything was destroyed, so it gets the number of a mailbox, not its address.
//
// Guarantees: it holds at most `bytes_max` of messages of links, counted with all that libnats keeps for them, and
// at most `openings_max` openings. Neither fills the room of the other. What is longer than any message of a
// carrier, headers included, is dropped before it is looked at.
#pragma once

#include <nats/nats.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "system/kernel.h"

namespace atbus::detail {

struct nats_message_freed {
  void operator()(natsMsg* message) const noexcept { natsMsg_Destroy(message); }
};
using nats_message = std::unique_ptr<natsMsg, nats_message_freed>;

struct nats_news {
  std::vector<nats_message> messages;
  bool disconnected = false;          // since the last time
  bool closed = false;                // for good
  std::vector<std::string> problems;  // that libnats or the server names
};

class nats_mailbox {
 public:
  // More bytes of messages than this are dropped: somebody floods the inboxes.
  static constexpr std::size_t bytes_max = std::size_t{32} << 20;
  // And more openings than this: somebody floods the subjects.
  static constexpr std::size_t openings_max = 4096;
  // And of problems, which strangers can cause.
  static constexpr std::size_t problems_max = 64;
  // Subject, reply and headers of one message, in bytes. A carrier's own have less than half of that.
  static constexpr std::size_t beside_max = 1024;

  // Null: the kernel has no descriptors.
  [[nodiscard]] static std::shared_ptr<nats_mailbox> make();
  ~nats_mailbox();

  [[nodiscard]] int descriptor() const noexcept { return bell_.get(); }
  // What libnats still says to the earlier number is lost, as is what waits here. For a new connection.
  void renumber() noexcept;
  [[nodiscard]] void* closure() const noexcept { return reinterpret_cast<void*>(number_); }
  void ring() noexcept;
  // All but the openings.
  [[nodiscard]] nats_news take() noexcept;
  // The oldest ones.
  [[nodiscard]] std::vector<nats_message> take_openings(std::size_t most);
  [[nodiscard]] bool has_openings();

  // For libnats.
  static void on_message(natsConnection*, natsSubscription*, natsMsg* message, void* closure);
  static void on_opening(natsConnection*, natsSubscription*, natsMsg* message, void* closure);
  static void on_disconnected(natsConnection*, void* closure);
  static void on_closed(natsConnection*, void* closure);
  static void on_error(natsConnection* at, natsSubscription*, natsStatus what, void* closure);

 private:
  nats_mailbox() = default;
  [[nodiscard]] static std::shared_ptr<nats_mailbox> find(void* closure);

  file bell_;
  std::uintptr_t number_ = 0;
  std::mutex mutex_;
  nats_news news_;
  std::size_t bytes_ = 0;
  std::deque<nats_message> openings_;
};

}  // namespace atbus::detail
