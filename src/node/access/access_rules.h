// Who may register with a node, and who may send what to whom: the contents of a file of access rules, and
// the decisions that follow from it. doc/security.md has the file, access_file.h reads it.
//
// Each entry allows something; what no entry allows is refused. A decision names the line of the entry that
// allows it, for people. A client has the bus id 0.
//
// Plain values. Decisions allocate nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/id_range.hpp"
#include "core/link_origin.h"

namespace atbus::detail {

// What a message is for the rules. Answers are none of these: who may ask may be answered.
enum class message_class : std::uint8_t { message, request, command, broadcast };

// The line of the entry that allows it, from 1; none: it is refused.
using access_line = std::optional<std::uint32_t>;

// The node ids of an entry.
struct id_set {
  std::vector<id_range> ranges;
  bool clients = false;

  friend bool operator==(const id_set&, const id_set&) = default;
  [[nodiscard]] bool contains(bus_id id) const noexcept {
    if (id == bus_id{})
      return clients;
    return std::ranges::any_of(ranges, [id](const id_range& one) { return one.contains(id); });
  }
  [[nodiscard]] bool contains(const id_range& all) const noexcept {
    return std::ranges::any_of(ranges, [&](const id_range& one) { return one.contains(all); });
  }
};

// Message types or command names of an entry; none of them if it is empty.
template <class Value>
struct value_set {
  bool any = false;
  std::vector<Value> values;  // sorted

  friend bool operator==(const value_set&, const value_set&) = default;
  template <class Key>
  [[nodiscard]] bool contains(const Key& value) const noexcept {
    return any || std::ranges::binary_search(values, value, std::ranges::less{});
  }
};
using type_set = value_set<std::uint32_t>;
using name_set = value_set<std::string>;

struct subnet {
  network_address prefix{};
  unsigned length = 0;  // in bits of the 128

  [[nodiscard]] bool contains(const network_address& address) const noexcept;
  friend bool operator==(const subnet&, const subnet&) = default;
};

// Which nodes may register from where.
struct register_entry {
  std::uint32_t line = 0;
  id_set ids{};
  bool from_anywhere = false;
  std::vector<subnet> networks{};
  std::vector<std::uint32_t> users{};  // of processes on this host
  std::vector<std::string> names{};    // of its certificate, one of these; empty: it needs none

  [[nodiscard]] bool covers(const link_origin& from) const noexcept;
  friend bool operator==(const register_entry&, const register_entry&) = default;
};

// Who may send what to whom.
struct send_entry {
  std::uint32_t line = 0;
  id_set from{};
  id_set to{};
  type_set messages{};
  type_set requests{};
  name_set commands{};
  type_set broadcasts{};

  [[nodiscard]] const type_set& types_of(message_class what) const noexcept {
    return what == message_class::request     ? requests
           : what == message_class::broadcast ? broadcasts
                                              : messages;
  }
  friend bool operator==(const send_entry&, const send_entry&) = default;
};

class access_rules {
 public:
  friend bool operator==(const access_rules&, const access_rules&) = default;

  // `*_any`: the line that lifts the restriction; then the entries are empty.
  access_line register_any;
  std::vector<register_entry> registrations;
  access_line send_any;
  std::vector<send_entry> sends;

  // `below`: the range of the node's children, if it may have any. Over other nodes the first of these has
  // checked where it is, and the registration sees to it that it has the same id here.
  [[nodiscard]] access_line may_register(bus_id id, const std::optional<id_range>& below,
                                         const link_origin& from) const noexcept;
  // Of a message or a request.
  [[nodiscard]] access_line may_send(bus_id from, bus_id to, message_class what,
                                     std::uint32_t type) const noexcept;
  [[nodiscard]] access_line may_command(bus_id from, bus_id to,
                                        std::string_view name) const noexcept;
  [[nodiscard]] access_line may_broadcast(bus_id from, const id_range& to,
                                          std::uint32_t type) const noexcept;
  // Whether one of the two may send the other one anything.
  [[nodiscard]] bool may_meet(bus_id one, bus_id other) const noexcept;
  // Whether that is so of each id in the one range and each in the other.
  [[nodiscard]] bool may_meet(const id_range& one, const id_range& other) const noexcept;
  // Whether messages and requests of each type may go there.
  [[nodiscard]] bool may_send_all(bus_id from, bus_id to) const noexcept;

 private:
  // `From`, `To`: an id, or a range of them.
  template <class From, class To, class Is>
  [[nodiscard]] access_line find(const From& from, const To& to, Is&& is_it) const noexcept {
    if (send_any)
      return send_any;
    for (const send_entry& one : sends) {
      if (one.from.contains(from) && one.to.contains(to) && is_it(one))
        return one.line;
    }
    return std::nullopt;
  }
};

}  // namespace atbus::detail
