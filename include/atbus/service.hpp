/// @class atbus::service
/// The nodes that offer a service by name, and which of them is asked: any, one with little to do, the
/// one that a key belongs to, or all. doc/fleet.md, "Services by name".
///
/// ```cpp
/// node.offer("chat");                                     // in each server of that kind
///
/// atbus::service chat{node, "chat"};                      // in a client
/// node.send(chat.for_key(player), kJoin, text);           // always the same server for a player
/// node.request(chat.least_busy(), kQuery, text, 1s, ...);
/// for (const atbus::bus_id one : chat.members())          // all
///   node.send(one, kNews, text);
/// ```
///
/// Who offers what is known from the node's directory (node_options::directory). Members come and go
/// with it; a change is seen at the next call after the node's poll. Without a member, and without a
/// directory, the functions return bus id 0, which send and request refuse with no_route. What was
/// sent to a member has one outcome: it goes nowhere else if that member goes.
///
/// Ownership: a service refers to its node and may outlive it; then it has no members. Threads: the
/// node's. Errors: all functions may throw std::bad_alloc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/detail/export.hpp"

namespace atbus {

class node;

class ATBUS_API service {
 public:
  /// The members of the service of that name, as `of` knows them.
  service(node& of, std::string_view name);
  /// Takes the service over; `other` may then only be destroyed or assigned to.
  service(service&& other) noexcept;
  /// Takes the other one over in place of this one.
  service& operator=(service&& other) noexcept;
  ~service();

  /// As it was given.
  [[nodiscard]] const std::string& name() const noexcept;
  /// All members, in the order of their ids; this node too if it offers the service itself. The
  /// reference is valid until the next call of any function of this object.
  [[nodiscard]] const std::vector<bus_id>& members();

  /// One after another, in turn. Leaves out members that this node has no link to and can't reach at
  /// this moment, unless the next eight are all like that.
  [[nodiscard]] bus_id any();
  /// Of two members that are drawn at random, the one that fewer requests of this node wait for.
  [[nodiscard]] bus_id least_busy();
  /// The member that this key belongs to: the same for all nodes that know the same members. If one
  /// goes, its keys alone move; if one comes, it takes its share of each other's. Keys need no good
  /// distribution. From the first key on it takes 128 KiB, and 1.5 ns for each member when a
  /// key's slot (one of 65,536) is used the first time after a change.
  [[nodiscard]] bus_id for_key(std::uint64_t key);
  /// The same for a text.
  [[nodiscard]] bus_id for_key(std::string_view key);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace atbus
