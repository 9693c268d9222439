// A node's view of another node, as on_endpoint tells it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "atbus/bus_id.hpp"
#include "atbus/detail/export.hpp"

namespace atbus {

enum class endpoint_event : std::uint8_t {
  connected,     // registered both ways; after this messages flow
  moved,         // they go through another channel now
  away,          // its process has ended; what is sent waits for its successor in shared memory
  disconnected,  // no link any more; what is sent waits until there is one, unless it was disconnect()
  refused,       // it does not want this node, or this node does not want it: see the log
  superseded,  // this process was silent, and another one has its bus id there now: for good. What
               // was not settled is reported, and it is not dialled any more
};
[[nodiscard]] ATBUS_API std::string_view name(endpoint_event event) noexcept;

// A copy: it does not change when the endpoint does.
class endpoint {
 public:
  endpoint(bus_id id, std::uint64_t incarnation, std::string address,
           std::chrono::nanoseconds round_trip, bool connected)
      : id_(id),
        incarnation_(incarnation),
        address_(std::move(address)),
        round_trip_(round_trip),
        connected_(connected) {}

  [[nodiscard]] bus_id id() const noexcept { return id_; }
  // Of its process: another one after each restart; 0 before it was ever seen.
  [[nodiscard]] std::uint64_t incarnation() const noexcept { return incarnation_; }
  // Through which messages go there; empty without a link.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  // Smoothed, of pings; 0 where none are needed.
  [[nodiscard]] std::chrono::nanoseconds round_trip() const noexcept { return round_trip_; }
  [[nodiscard]] bool connected() const noexcept { return connected_; }

 private:
  bus_id id_;
  std::uint64_t incarnation_;
  std::string address_;
  std::chrono::nanoseconds round_trip_;
  bool connected_;
};

}  // namespace atbus
