/// @file
/// The context of a distributed trace, as W3C's Trace Context has it: which trace a message belongs to,
/// and which operation sent it. It rides along with a message or a request:
///
/// ```cpp
/// auto trace = atbus::trace_context::parse(traceparent);  // of the HTTP request that is being handled
/// if (trace)
///   node.request(to, kLoad, atbus::as_bytes(key), 1s, *trace, handler);
/// ```
///
/// The handler there has it as message::trace or request::trace. Of sampled ones, each node that passes the
/// message on writes a line to its log (node::on_log), at most 60 a minute for each sender, and 600 for
/// all that come by one link. There is no `tracestate`. Broadcasts, commands and
/// gathered requests carry none, and neither does what node_sender sends.
///
/// Ownership: plain values. Threads: any.
///
/// Source: https://www.w3.org/TR/trace-context/
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "atbus/bytes.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

/// What a `traceparent` says. A plain value.
struct trace_context {
  /// The length of a context in a message, in bytes. The payload of a traced message may be that much
  /// shorter than others at most.
  static constexpr std::size_t size = 25;
  /// Of `flags`: the trace is recorded.
  static constexpr std::uint8_t sampled_flag = 1;

  std::array<std::byte, 16> trace_id{};  ///< Of the whole trace; not all 0.
  std::array<std::byte, 8> parent_id{};  ///< Of the operation that sends; not all 0.
  std::uint8_t flags = 0;                ///< sampled_flag; other bits are kept as they are.

  /// Reads a `traceparent` such as "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01". Of a later
  /// version what is known is read. Errors: invalid_argument.
  [[nodiscard]] ATBUS_API static result<trace_context> parse(std::string_view traceparent);
  /// Reads what write() has written. `from` has `size` bytes.
  [[nodiscard]] ATBUS_API static trace_context read(const std::byte* from) noexcept;
  /// Writes `size` bytes: trace_id, parent_id, flags.
  ATBUS_API void write(std::byte* to) const noexcept;
  /// As a `traceparent` of version 00.
  [[nodiscard]] ATBUS_API std::string to_string() const;
  /// Whether the trace is recorded.
  [[nodiscard]] bool sampled() const noexcept { return (flags & sampled_flag) != 0; }

  /// Whether both say the same.
  friend bool operator==(const trace_context&, const trace_context&) = default;
};

}  // namespace atbus
