// What became of each message between two nodes that are processes of their own: written down in
// memory that outlives them, outside the bus. A life is a node from its making to its end or death.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "atbus/node/message.hpp"
#include "numbered_message.h"
#include "shared_memory.h"
#include "shared_violations.h"

namespace atbus::test {

inline constexpr std::uint32_t most_lives = 64;       // of both nodes, in one round
inline constexpr std::uint32_t most_messages = 4000;  // of one life

// What both nodes of a round were told to do, as far as it says what may be reported.
struct ledger_rules {
  std::array<bool, 2> wishes{};  // whether this node has said connect
  bool reports_restarts = false;
  bool deadline = false;
  bool drops = false;  // an overflow policy that reports
};

struct ledger_figures {
  std::uint64_t lives = 0;
  std::uint64_t accepted = 0;
  std::uint64_t delivered = 0;  // different messages
  std::uint64_t marked = 0;     // deliveries with the mark
  std::uint64_t again = 0;      // deliveries of what an earlier life had handled
  std::uint64_t not_delivered = 0;
  std::uint64_t unknown = 0;

  ledger_figures& operator+=(const ledger_figures& other);
  [[nodiscard]] std::string text() const;
};

struct ledger_memory {
  struct message_record {
    std::atomic<std::uint32_t> handled_by;  // the last life that has; 0: none
    std::atomic<std::uint32_t> outcome;     // as reported: 0, or an errc
  };
  struct life_record {
    std::atomic<std::uint32_t> role;  // and 1; 0: it has not come to that
    // Written before `send` and after it has returned: a kill in between leaves them apart.
    std::atomic<std::uint32_t> attempted;
    std::atomic<std::uint32_t> accepted;
    std::atomic<std::uint32_t> ended;                    // and has told everything
    std::atomic<std::uint32_t> killed;                   // before that
    std::array<message_record, most_messages> messages;  // 1, 2... at 0, 1...
  };
  std::array<life_record, most_lives> lives;  // 1, 2...; 0 is none
  std::atomic<std::uint32_t> born;
  std::atomic<std::uint64_t> marked;
  std::atomic<std::uint64_t> again;
  shared_counter progress;  // when something was settled
  shared_violations violations;
};

class ledger {
 public:
  explicit ledger(const ledger_rules& rules) : rules_(rules) {}

  // Of the nodes. A role is 0 or 1, a life a number of its own.
  [[nodiscard]] std::uint32_t born(std::uint32_t role);
  [[nodiscard]] bool may_send(std::uint32_t life) const;
  // The number of the message that is about to be sent.
  [[nodiscard]] std::uint32_t attempt(std::uint32_t life);
  void accepted(std::uint32_t life);
  void delivered(std::uint32_t reader, const message& what);
  void reported(std::uint32_t life, const undelivered& what, bool in_shutdown);
  void ended(std::uint32_t life) { memory_->lives[life].ended.store(1); }
  void violation(const std::string& what) { memory_->violations.add(what); }
  void tell_progress() { memory_->progress.add(); }

  // Of the test. The process of that role will tell nothing any more.
  void killed(std::uint32_t role);
  // Until each message of a life that was not killed has an outcome.
  [[nodiscard]] bool wait_settled();
  // "", or what is wrong: of the lives that have ended, and of the others if all should be settled.
  [[nodiscard]] std::string account() const;
  [[nodiscard]] ledger_figures figures() const;

 private:
  using life_record = ledger_memory::life_record;
  using message_record = ledger_memory::message_record;

  // Null and a violation if nobody has sent these bytes.
  message_record* find(bytes_view bytes, message_stamp& of);
  [[nodiscard]] bool may_report(std::uint32_t life, errc reason, bool in_shutdown) const;
  [[nodiscard]] bool has_predecessor(std::uint32_t life) const;
  [[nodiscard]] bool settled(std::uint32_t life) const;
  // What became of all its messages.
  [[nodiscard]] std::string story(std::uint32_t life) const;
  [[nodiscard]] std::string account_life(std::uint32_t life) const;

  ledger_rules rules_;
  shared<ledger_memory> memory_;
  // Of one process: the highest number of each life that a life of its own has handled.
  std::unordered_map<std::uint64_t, std::uint32_t> highest_;
};

}  // namespace atbus::test
