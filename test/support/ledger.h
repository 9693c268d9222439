// Records of what became of each message, kept outside the nodes: what was accepted, delivered and
// reported, and whether that is what the bus promises. The first thing that is not is kept in words.
//
// A message says in its first bytes which one it is. One that is too short for that says so in its
// type, whose highest bit is set then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "atbus/bytes.hpp"
#include "atbus/id_range.hpp"
#include "atbus/message.hpp"
#include "atbus/policies.hpp"
#include "atbus/status.hpp"
#include "core/node_instance.h"

namespace atbus::detail {

// What an incarnation of a node was told to do with its messages; what follows from it may be reported.
struct ledger_rules {
  bool deadline = false;
  bool drops = false;      // an overflow policy that reports
  bool forgetful = false;  // others may forget its flow
  bool routed = false;     // other nodes may say that there is no way
  std::size_t message_limit = 0;
};

struct ledger_message {
  std::vector<std::byte> bytes;
  std::uint32_t type = 0;
};

class ledger {
 public:
  // At the start of each message; what follows is a pattern.
  struct stamp {
    std::uint64_t from = 0;  // incarnation, in the order of birth
    std::uint64_t to = 0;    // 0: a broadcast
    std::uint64_t number = 0;
  };

  void born(const node_instance& instance, const ledger_rules& rules);
  // Killed: it tells nothing any more, and what it had not settled has no outcome.
  void killed(const node_instance& instance);
  // It may have seemed dead to others.
  void seemed_dead(bus_id id) { ++deaths_[id.value()]; }
  void wanted(const node_instance& from, bus_id to, bool wants);
  // More links may be in between than a message may pass.
  void may_be_too_far(const node_instance& from, bus_id to);
  // It has missed an allocation: from now on it may count messages without reporting them, `counted` of all
  // that were not delivered so far.
  void was_short(const node_instance& who) { lives_[index_of(who)].was_short = true; }
  void counted(const node_instance& who, std::uint64_t counted) {
    lives_[index_of(who)].counted = counted;
  }
  [[nodiscard]] bool has_been_short(const node_instance& who) const {
    return lives_[index_of(who)].was_short;
  }
  // It gives up what is not settled.
  void leaves(const node_instance& who) { lives_[index_of(who)].leaving = true; }

  // The next message, of that type unless it is short; it counts once it is accepted.
  [[nodiscard]] ledger_message next(const node_instance& from, bus_id to, std::uint32_t type,
                                    std::size_t size);
  [[nodiscard]] static bool is_short(std::uint32_t type) noexcept { return type >> 31U != 0; }
  void accepted(const node_instance& from, bus_id to, std::size_t size,
                delivery_policy policy = delivery_policy::report);
  // The same of broadcasts: its number is told too.
  [[nodiscard]] ledger_message next_broadcast(const node_instance& from, std::size_t size);
  std::uint64_t accepted_broadcast(const node_instance& from, const id_range& to);
  // Its sender is told that these got it.
  void reached(const node_instance& from, std::uint64_t number, const std::vector<bus_id>& whom);
  [[nodiscard]] std::uint64_t broadcasts_of(const node_instance& from) const {
    return lives_[index_of(from)].broadcasts.size();
  }
  [[nodiscard]] bool was_reached(const node_instance& from, std::uint64_t number,
                                 bus_id whom) const;
  void delivered(const node_instance& to, const message& what);
  // That process has ended while it handled what was delivered last: the message comes again, or is reported.
  void cut_short(const message& what);
  void reported(const node_instance& from, const undelivered& what);

  // The bytes of its messages that have no outcome yet.
  [[nodiscard]] std::size_t open_bytes(const node_instance& from, bus_id to);

  // The lowest limit that an incarnation of that node has had.
  [[nodiscard]] std::size_t limit_of(bus_id whom) const;
  // Which one a message says it is; none if that was never sent or is about to be.
  [[nodiscard]] std::optional<stamp> stamp_of(bytes_view bytes, std::uint32_t type) const;
  // In the order of birth.
  [[nodiscard]] std::optional<std::size_t> find_life(const node_instance& who) const;
  // For people: the number of a message that it says it is.
  [[nodiscard]] static std::string number_of(const message& what);

  // Whether every message of an incarnation that was not killed has an outcome.
  [[nodiscard]] bool all_settled() const;
  // To be called when all should be.
  void check_settled();
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }
  void fail(std::string why);

  [[nodiscard]] std::uint64_t accepted_count() const noexcept { return accepted_count_; }
  [[nodiscard]] std::uint64_t broadcast_count() const noexcept { return broadcast_count_; }
  [[nodiscard]] std::uint64_t delivered_count() const noexcept { return delivered_count_; }
  [[nodiscard]] std::uint64_t reported_count() const noexcept { return reported_count_; }

 private:
  struct delivery {
    std::size_t to;  // incarnation, in the order of birth
    bool marked;
  };
  struct record {
    std::size_t size = 0;
    bool required = false;
    std::vector<delivery> deliveries;
    bool cut_short = false;  // the only delivery was
    unsigned reports = 0;
    errc outcome = errc::ok;

    [[nodiscard]] bool is_settled() const noexcept {
      return reports != 0 || (!deliveries.empty() && !cut_short);
    }
  };
  struct broadcast {
    id_range to;
    std::set<std::uint64_t> delivered;  // ids
  };
  struct flow {
    std::vector<record> records;                   // of messages 1, 2...
    std::map<std::size_t, std::uint64_t> highest;  // handled by each incarnation
    bool wanted = false;
    bool was_ended = false;  // by its sender
    bool may_be_too_far = false;
    std::size_t settled = 0;
    // Of these, how many were reported together: nobody says which they are.
    std::size_t counted = 0;
    std::size_t lost = 0;  // as it was told, with their link; some of them may have come
    std::size_t open_bytes = 0;

    [[nodiscard]] std::size_t open() const noexcept { return records.size() - settled; }
  };
  struct instance {
    node_instance who;
    ledger_rules rules;
    bool killed = false;
    bool leaving = false;
    bool was_short = false;     // of memory
    std::uint64_t counted = 0;  // as not delivered, by itself
    std::uint64_t reported = 0;
    std::map<std::uint64_t, flow> flows;  // by destination
    std::vector<broadcast> broadcasts;    // 1, 2...

    // Messages that it has counted and not reported, for want of memory.
    [[nodiscard]] std::uint64_t unreported() const noexcept {
      return was_short && counted > reported ? counted - reported : 0;
    }
  };

  [[nodiscard]] std::size_t index_of(const node_instance& who) const;
  [[nodiscard]] static std::byte pattern(const stamp& of, std::size_t at);
  ledger_message make(const stamp& of, std::uint32_t type, std::size_t size);
  // Which one it says it is; false and a fault if its bytes are not those that were sent.
  bool read(bytes_view bytes, std::uint32_t type, stamp& of);
  void delivered_broadcast(const node_instance& to, const message& what, const stamp& of);
  [[nodiscard]] bool has_forgotten_for_want_of_memory(bus_id whom) const;
  [[nodiscard]] bool may_report(const instance& sender, const flow& in, const record& of, bus_id to,
                                errc reason) const;
  void reported_together(const node_instance& from, const undelivered& what);
  struct found {
    record* of = nullptr;
    flow* in = nullptr;
    std::string name;
  };
  // The record of that message; null and a fault if there is none.
  found find(const stamp& of);

  std::vector<instance> lives_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> indexes_;  // by id and incarnation
  std::map<std::uint64_t, unsigned> deaths_;
  std::map<std::uint64_t, std::size_t> limits_;  // the lowest of each node's lives
  std::vector<stamp> shorts_;
  std::string fault_;
  std::uint64_t accepted_count_ = 0;
  std::uint64_t broadcast_count_ = 0;
  std::uint64_t delivered_count_ = 0;
  std::uint64_t reported_count_ = 0;
};

}  // namespace atbus::detail
