// The processes of the storm test, and what they write down outside the bus.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "scratch_directory.h"
#include "shared_memory.h"
#include "shared_violations.h"

namespace atbus::test {

inline constexpr std::uint32_t most_incarnations = 1 << 16;
inline constexpr std::uint32_t sender_count = 5;

// One incarnation of a sender: from an open to its close or death. Numbers of messages count from 1.
struct sender_incarnation {
  // Written by the sender. `attempted` before anything can be visible, `accepted` after the call
  // that accepted it has returned: a kill between the two leaves them apart.
  std::atomic<std::uint64_t> attempted;
  std::atomic<std::uint64_t> accepted;
  std::atomic<std::uint64_t> first_taken_back;  // 0: none
  std::atomic<std::uint64_t> taken_back;
  std::atomic<std::uint32_t> taking_back;  // 1: began, 2: told what it got
  std::atomic<std::uint32_t> unknown;      // taken back as outcome_unknown
  // Written by receivers.
  std::atomic<std::uint64_t> delivered;  // the last number that reached a handler
  std::atomic<std::uint32_t> last_receiver;
  std::atomic<std::uint32_t> repeated;
};

struct storm_memory {
  std::array<sender_incarnation, most_incarnations> senders;
  std::atomic<std::uint32_t> sender_incarnations;
  std::atomic<std::uint32_t> receiver_incarnations;
  std::atomic<std::uint64_t> deliveries;
  std::atomic<std::uint64_t> marks;
  shared_violations violations;
  shared_counter progress;          // counts deliveries, roughly; for waiting
  shared_counter receiver_is_open;  // the incarnation that opened last
  shared_counter calm;              // odd: senders stand still
  std::array<shared_counter, sender_count> standing_still;  // the calm that each one obeys
  shared_counter finish;
};

class storm_world {
 public:
  explicit storm_world(std::uint64_t seed) : seed_(seed) {}
  [[nodiscard]] storm_memory& memory() const noexcept { return *memory_; }
  [[nodiscard]] const std::string& directory() const noexcept { return directory_.path(); }

  // Bodies of the processes; `incarnation` numbers the processes of a kind, for their random choices.
  int run_sender(std::uint32_t slot, std::uint32_t instance) const;
  int run_receiver(std::uint32_t instance) const;

  // "" or the first message of an incarnation that is not accounted for.
  [[nodiscard]] std::string account() const;
  // Whether everything that was accepted, and not taken back, has reached a handler.
  [[nodiscard]] bool all_delivered() const;
  void violation(const std::string& what) const noexcept { memory_->violations.add(what); }

 private:
  [[nodiscard]] std::string account_incarnation(std::uint32_t index) const;

  std::uint64_t seed_;
  scratch_directory directory_;
  shared<storm_memory> memory_;
};

}  // namespace atbus::test
