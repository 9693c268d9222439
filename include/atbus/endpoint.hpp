/// @file
/// How a node sees another node, as on_endpoint reports it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "atbus/bus_id.hpp"
#include "atbus/detail/export.hpp"

namespace atbus {

/// What has happened to another node.
enum class endpoint_event : std::uint8_t {
  connected,     ///< Both have registered; messages flow from now on.
  moved,         ///< Messages go through another channel now.
  away,          ///< Its process has ended; messages wait in shared memory for its successor.
  disconnected,  ///< No link is left. Messages wait for the next one, except after disconnect().
  refused,       ///< One of the two nodes does not admit the other: see the log.
  superseded,  ///< That node has admitted another process with this node's id, because this one was
               ///< silent. Messages without an outcome are reported, and it is not dialled again.
};
/// The name of an event as written above.
[[nodiscard]] ATBUS_API std::string_view name(endpoint_event event) noexcept;

/// Another node, as this one sees it: a copy, which does not change later. Owns its strings.
class endpoint {
 public:
  /// Made by nodes. A program makes one to test its own handlers.
  endpoint(bus_id id, std::uint64_t incarnation, std::string address,
           std::chrono::nanoseconds round_trip, bool connected)
      : id_(id),
        incarnation_(incarnation),
        address_(std::move(address)),
        round_trip_(round_trip),
        connected_(connected) {}

  /// The bus id of the node.
  [[nodiscard]] bus_id id() const noexcept { return id_; }
  /// Incarnation of its process: changes with each restart; 0 before the first connection.
  [[nodiscard]] std::uint64_t incarnation() const noexcept { return incarnation_; }
  /// The address through which messages go there; empty without a link.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  /// Smoothed round trip of the pings; 0 where no pings are needed.
  [[nodiscard]] std::chrono::nanoseconds round_trip() const noexcept { return round_trip_; }
  /// Whether messages can go there now.
  [[nodiscard]] bool connected() const noexcept { return connected_; }

 private:
  bus_id id_;
  std::uint64_t incarnation_;
  std::string address_;
  std::chrono::nanoseconds round_trip_;
  bool connected_;
};

}  // namespace atbus
