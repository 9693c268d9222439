// The stage of the crash tests: one segment in a directory of its own, receivers and senders as
// real processes, and a ledger outside the bus that says what was accepted and what arrived.
#pragma once

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "child_process.h"
#include "crash_points.h"
#include "scratch_directory.h"
#include "shared_memory.h"

namespace atbus::test {

inline constexpr std::size_t most_roles = 12;
inline constexpr std::size_t most_deliveries = 1 << 14;
inline constexpr std::size_t message_size = 300;

// One call of a handler.
struct delivery {
  std::uint32_t sender;
  std::uint32_t receiver;
  std::uint64_t number;
  bool redelivered;
};

// Everything the processes of a drill share. A role is a number: each process has its own.
struct drill_memory {
  std::array<crash_plan, most_roles> plans;
  std::array<shared_counter, most_roles> opened;     // open returned
  std::array<shared_counter, most_roles> may_go_on;  // counts what the test has allowed so far
  std::array<shared_counter, most_roles> accepted;   // messages that `send` accepted
  std::array<shared_counter, most_roles> refused;    // would_block seen
  std::array<shared_counter, most_roles> taken_back;
  std::array<std::atomic<std::uint64_t>, most_roles> first_taken_back;  // number of the first one
  std::array<shared_counter, most_roles> unknown;  // taken back as outcome_unknown
  shared_counter receiver_role;                    // whose sleep senders wait for
  shared_counter torn;
  shared_counter deliveries;
  std::array<delivery, most_deliveries> ledger;
};

class drill {
 public:
  enum class kind : std::uint8_t { segment, stream };

  // `lanes` of 4 KiB, which wrap every dozen messages. Of a stream: those that it offers.
  explicit drill(unsigned lanes, kind of = kind::segment);

  drill_memory& memory() const noexcept { return *memory_; }
  crash_plan& plan(std::uint32_t role) const noexcept { return memory_->plans[role]; }
  void arrange(std::uint32_t role, step at, std::uint32_t nth, action what);
  const scratch_directory& directory() const noexcept { return directory_; }
  std::string address() const;

  // Opens, then waits for may_go_on >= 1, then polls and sleeps until it gets a farewell; then
  // removes the segment and exits with 0.
  child_process start_receiver(std::uint32_t role, bool held = false);
  // Opens and runs `body`; exits with 0.
  child_process start_sender(std::uint32_t role, std::function<void(sender&)> body);
  // A process that follows a plan but opens things by itself.
  child_process start(std::uint32_t role, std::function<void()> body);

  // To be called in the processes.
  result<receiver> open_receiver() const;
  result<sender> open_sender(sender_options options = {}) const;
  void run_receiver(receiver& inbox, std::uint32_t role) const;
  status send_next(sender& out, std::uint32_t role) const;
  // Sends `count` messages; waits for room where there is none, and before every `each`th message
  // for the receiver to be asleep.
  void talk(sender& out, std::uint32_t role, std::uint32_t count, std::uint32_t each = 4) const;

  // To be called in the test.
  [[nodiscard]] bool wait_opened(std::uint32_t role) const;
  void let_go_on(std::uint32_t role, std::uint32_t by = 1) const;
  // Waits until at least `count` different messages of a sender have arrived.
  [[nodiscard]] bool wait_arrived(std::uint32_t sender_role, std::uint32_t count) const;
  [[nodiscard]] bool wait_all_arrived(std::uint32_t sender_role) const;
  [[nodiscard]] std::uint32_t arrived(std::uint32_t sender_role) const;
  [[nodiscard]] std::uint32_t marked() const;  // deliveries with the redelivered mark
  // Sends the farewell from a process of its own, and waits for the receiver to have removed the
  // segment.
  [[nodiscard]] std::string dismiss(child_process& receiver_process);

  // Everything that must hold of the ledger, whatever was killed: "" or what does not.
  // `unlogged`: senders killed between publishing and noting it.
  [[nodiscard]] std::string account(std::uint32_t receiver_deaths) const;

 private:
  void record(const received_message& message, std::uint32_t role, bool& farewell) const;
  [[nodiscard]] std::string account_sender(std::uint32_t role) const;

  scratch_directory directory_;
  shared<drill_memory> memory_;
  unsigned lanes_;
  kind kind_;
};

}  // namespace atbus::test
