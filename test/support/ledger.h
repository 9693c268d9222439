// Records of what became of each message, kept outside the nodes: what was accepted, delivered and
// reported, and whether that is what the bus promises. The first thing that is not is kept in words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "atbus/core/bytes.hpp"
#include "atbus/core/status.hpp"
#include "atbus/node/message.hpp"
#include "core/node_life.h"

namespace atbus::detail {

// What a life of a node was told to do with its messages; what follows from it may be reported.
struct ledger_rules {
  bool deadline = false;
  bool drops = false;      // an overflow policy that reports
  bool forgetful = false;  // others may forget its flow
  bool routed = false;     // other nodes may say that there is no way
};

class ledger {
 public:
  void born(const node_life& life, const ledger_rules& rules);
  // Killed: it tells nothing any more, and what it had not settled has no outcome.
  void killed(const node_life& life);
  // It may have seemed dead to others.
  void seemed_dead(bus_id id) { ++deaths_[id.value()]; }
  void wished(const node_life& from, bus_id to, bool wish);
  // It gives up what is not settled.
  void leaves(const node_life& who) { lives_[index_of(who)].leaving = true; }

  // The bytes of the next message; it counts once it is accepted.
  [[nodiscard]] std::vector<std::byte> next(const node_life& from, bus_id to, std::size_t size);
  void accepted(const node_life& from, bus_id to, std::size_t size);
  void delivered(const node_life& to, const message& what);
  void reported(const node_life& from, const undelivered& what);

  // The bytes of its messages that have no outcome yet.
  [[nodiscard]] std::size_t open_bytes(const node_life& from, bus_id to);

  // Whether every message of a life that was not killed has an outcome.
  [[nodiscard]] bool all_settled() const;
  // To be called when all should be.
  void check_settled();
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }
  void fail(std::string why);

  [[nodiscard]] std::uint64_t accepted_count() const noexcept { return accepted_count_; }
  [[nodiscard]] std::uint64_t delivered_count() const noexcept { return delivered_count_; }
  [[nodiscard]] std::uint64_t reported_count() const noexcept { return reported_count_; }

 private:
  struct delivery {
    std::size_t to;  // life, in the order of birth
    bool marked;
  };
  struct record {
    std::vector<delivery> deliveries;
    unsigned reports = 0;
    errc outcome = errc::ok;
  };
  struct flow {
    std::vector<record> records;                   // of messages 1, 2...
    std::map<std::size_t, std::uint64_t> highest;  // handled by each life
    bool wished = false;
    bool was_ended = false;  // by its sender
    std::size_t settled = 0;
    std::size_t open_bytes = 0;
  };
  struct life {
    node_life who;
    ledger_rules rules;
    bool killed = false;
    bool leaving = false;
    std::map<std::uint64_t, flow> flows;  // by destination
  };

  [[nodiscard]] std::size_t index_of(const node_life& who) const;
  [[nodiscard]] bool may_report(const node_life& from, const flow& in, bus_id to,
                                errc reason) const;
  struct found {
    record* of = nullptr;
    flow* in = nullptr;
    std::string name;
  };
  // The record that these bytes are of; null and a fault if there is none.
  found find(bytes_view bytes);

  std::vector<life> lives_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> indexes_;  // by id and incarnation
  std::map<std::uint64_t, unsigned> deaths_;
  std::string fault_;
  std::uint64_t accepted_count_ = 0;
  std::uint64_t delivered_count_ = 0;
  std::uint64_t reported_count_ = 0;
};

}  // namespace atbus::detail
