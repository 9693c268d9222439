// What became of each message between nodes that are processes of their own: written down in memory
// that outlives them, outside the bus. An incarnation is a node from its making to its end or death; a role
// is the number of a node, the same in all its lives.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/message.hpp"
#include "numbered_message.h"
#include "shared_memory.h"
#include "shared_violations.h"

namespace atbus::test {

inline constexpr std::uint32_t most_roles = 64;
inline constexpr std::uint32_t most_incarnations = 1024;   // of all nodes, in one round
inline constexpr std::uint32_t most_messages = 2'000'000;  // of all lives, with those refused

// Types of messages.
inline constexpr std::uint32_t plain_message = 0;
inline constexpr std::uint32_t required_message = 1;

// What the nodes of a round were told to do, as far as it says what may be reported.
struct ledger_rules {
  std::vector<bus_id> ids;                // by role
  std::vector<std::set<errc>> reasons{};  // by role: of its reports, besides its own end
  std::set<errc> required_reasons{};      // the same for required messages, of all roles
  bool leaves_gaps = false;               // killed nodes may have owed a report
};

struct ledger_figures {
  std::uint64_t incarnations = 0;
  // accepted = delivered + not_delivered + unknown + open: each message is in one of these.
  std::uint64_t accepted = 0;
  std::uint64_t delivered = 0;
  std::uint64_t not_delivered = 0;
  std::uint64_t unknown = 0;  // and not delivered
  std::uint64_t open = 0;     // at senders that were killed
  std::uint64_t marked = 0;   // deliveries with the mark
  std::uint64_t again = 0;    // deliveries of what an earlier incarnation had handled

  ledger_figures& operator+=(const ledger_figures& other);
  [[nodiscard]] std::string text() const;
};

enum class message_stage : std::uint32_t {
  none,       // not that far yet: a sender that is killed with its number in hand leaves it so
  attempted,  // a sender that is killed within `send` leaves it so
  accepted,
  refused,
};

struct ledger_memory {
  struct message_record {
    std::atomic<std::uint32_t> sender;  // incarnation
    std::atomic<std::uint32_t> to;      // role
    std::atomic<message_stage> stage;
    std::atomic<std::uint32_t> handled_by;  // the last incarnation that has; 0: none
    std::atomic<std::uint32_t> outcome;     // as reported: 0, or an errc
  };
  struct lifecycle_record {
    std::atomic<std::uint32_t> role;    // and 1; 0: it has not come to that
    std::atomic<std::uint32_t> ended;   // and has told everything
    std::atomic<std::uint32_t> killed;  // before that
  };
  std::array<lifecycle_record, most_incarnations> lives;  // 1, 2...; 0 is none
  std::array<message_record, most_messages> messages;     // the same
  std::array<shared_counter, most_roles> handled;         // by role: messages
  std::atomic<std::uint32_t> born;
  std::atomic<std::uint32_t> written;  // messages
  std::atomic<std::uint64_t> marked;
  std::atomic<std::uint64_t> again;
  shared_counter progress;  // when something was settled
  shared_violations violations;
};

class node_ledger {
 public:
  explicit node_ledger(ledger_rules rules) : rules_(std::move(rules)) {}

  // Of the nodes.
  [[nodiscard]] std::uint32_t born(std::uint32_t role);
  // Half are kept for the roll call.
  [[nodiscard]] bool may_send() const { return memory_->written.load() < most_messages / 2; }
  // The number of the message that is about to be sent, which grows, and what became of that.
  [[nodiscard]] std::uint32_t attempt(std::uint32_t instance, std::uint32_t to);
  void sent(std::uint32_t number, bool accepted);
  void delivered(std::uint32_t reader, const message& what);
  void reported(std::uint32_t instance, const undelivered& what, bool in_shutdown);
  void ended(std::uint32_t instance) { memory_->lives[instance].ended.store(1); }
  void violation(const std::string& what) { memory_->violations.add(what); }
  void tell_progress() { memory_->progress.add(); }

  // Of the test. The process of that role will tell nothing any more.
  void killed(std::uint32_t role);
  // Until each message of an incarnation that was not killed has an outcome.
  [[nodiscard]] bool wait_settled();
  // Counts what nodes of that role handle.
  [[nodiscard]] shared_counter& handled(std::uint32_t role) { return memory_->handled[role]; }
  // "", or what is wrong, when all should be settled.
  [[nodiscard]] std::string account() const;
  [[nodiscard]] ledger_figures figures() const;

 private:
  using lifecycle_record = ledger_memory::lifecycle_record;
  using message_record = ledger_memory::message_record;

  // Null and a violation if nobody has sent these bytes.
  message_record* find(bytes_view bytes, std::uint64_t& number);
  [[nodiscard]] std::uint32_t role_of(std::uint32_t instance) const {
    return memory_->lives[instance].role.load() - 1;
  }
  [[nodiscard]] bool was_killed(const message_record& of) const {
    return memory_->lives[of.sender.load()].killed.load() != 0;
  }
  [[nodiscard]] bool may_report(std::uint32_t instance, const undelivered& what,
                                bool in_shutdown) const;
  [[nodiscard]] bool has_predecessor(std::uint32_t instance) const;
  [[nodiscard]] std::string describe(std::uint64_t number) const;
  // What became of all messages of that one's sender to that one's destination.
  [[nodiscard]] std::string story(const message_record& of) const;

  ledger_rules rules_;
  shared<ledger_memory> memory_;
  std::uint32_t settled_ = 0;  // messages up to there are
  // Of one process: the highest number of each incarnation that an incarnation of its own has handled.
  std::unordered_map<std::uint64_t, std::uint64_t> highest_;
};

}  // namespace atbus::test
