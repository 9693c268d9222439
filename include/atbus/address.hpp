/// @class atbus::address
/// An address of the bus, as text and as a checked value.
///
///     mem://name                     between threads of one process
///     shm://name                     shared memory on this host; 12345679 or 0xbc614f is a name too
///     shm://                         the node generates a name and reports it
///     unix:///path  unix://@name     a Unix socket, in the file system or in the abstract namespace
///     ipv4://127.0.0.1:16389         TCP; port 0 binds a free one
///     ipv6://[::1]:16389             TCP; without the brackets the last colon separates the port
///     dns://host:port                TCP; the host's addresses are resolved at connect
///     nats://host:port/subject       through a NATS server; for nodes that have a carrier
///                                    (atbus/nats.hpp)
///
/// No channel is durable yet: opening one with durable=true returns not_supported.
///
/// Options follow as ?key=value&key=value, each at most once:
///
///     mem, shm   lanes=64, lane_size=1M, message_limit=64K, prefault=true, durable=false
///     unix       shm=false (do not agree on shared-memory lanes)
///
/// Sizes are in bytes; the suffixes K, M, G multiply by 2^10, 2^20, 2^30. Booleans are true, false,
/// 1 or 0.
///
/// Text is taken literally: there is no percent-encoding. `%` is an error except in a Unix path or
/// abstract name, where it stands for itself. The first '?' ends the name, so a Unix path can't
/// contain one. Control characters and NUL are refused everywhere. The channel, not the address,
/// checks the limits of sizes and counts.
///
/// Every address object is valid. Two are equal if kind, name, port, subject and
/// options are equal.
///
/// Ownership and threads: a plain value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

/// Maximum length of an address in bytes. parse() refuses a longer text without reading it. The
/// longest path with all options fits.
inline constexpr std::size_t address_length_max = 512;

/// Names of mem:// and shm:// have 1 to this many characters of A-Z a-z 0-9 _ . - and do not start
/// with '.' or '-'.
inline constexpr std::size_t channel_name_length_max = 64;

/// Bytes that sockaddr_un::sun_path (108 bytes) leaves beside the NUL after a path or before an
/// abstract name: unix(7).
inline constexpr std::size_t unix_name_length_max = 107;

/// Maximum length of the subject in a nats:// address, in bytes. It has tokens of A-Z a-z 0-9 _ -,
/// separated by dots.
inline constexpr std::size_t subject_length_max = 128;

/// The kinds of address, one for each scheme.
enum class address_kind : std::uint8_t {
  mem,          ///< mem://
  shm,          ///< shm://
  unix_socket,  ///< unix://; compilers define a macro `unix` in GNU mode.
  ipv4,         ///< ipv4://
  ipv6,         ///< ipv6://
  dns,          ///< dns://
  nats,         ///< nats://
};

/// The text of the scheme, such as "mem" or "unix".
ATBUS_API std::string_view name(address_kind kind) noexcept;

/// What may follow an address as ?key=value.
enum class address_option : std::uint8_t {
  lanes,          ///< Number of lanes.
  lane_size,      ///< Bytes of a lane.
  message_limit,  ///< Largest message in payload bytes.
  prefault,       ///< A boolean: touches the memory before its first use.
  durable,        ///< A boolean; not supported yet.
  shm,            ///< A boolean: whether to agree on lanes in shared memory.
  tls,            ///< A boolean: whether connections are encrypted.
};
/// Number of options.
inline constexpr std::size_t address_option_count =
    static_cast<std::size_t>(address_option::tls) + 1;

class address {
 public:
  /// Parses the whole text. Errors: invalid_name if the name (or path) is at fault, otherwise
  /// invalid_address; the error's text says which part and why.
  ATBUS_API static result<address> parse(std::string_view text);

  /// The canonical text of this address; parse() turns it into an equal address.
  ATBUS_API std::string to_string() const;

  /// The kind of address, as its scheme says.
  address_kind kind() const noexcept { return kind_; }

  /// The name of what is addressed:
  ///
  ///     mem, shm     the name; empty for a shm:// without one
  ///     unix         the path, or the abstract name without its '@'
  ///     ipv4, ipv6   the address as inet_ntop(3) writes it
  ///     dns          the host in lower case
  ///     nats         the server's host in lower case, or its address
  const std::string& name() const noexcept { return name_; }

  /// Whether the name of a Unix socket is abstract instead of a path.
  bool is_abstract() const noexcept { return abstract_; }

  /// The port; 0 for kinds without one.
  std::uint16_t port() const noexcept { return port_; }

  /// The subject of a nats:// address; empty for other kinds.
  const std::string& subject() const noexcept { return subject_; }

  /// The value of an option if the text gave one: a count, bytes, or 1 or 0 for a boolean.
  std::optional<std::uint64_t> option(address_option which) const noexcept {
    return options_[static_cast<std::size_t>(which)];
  }
  /// The value of a boolean option if the text gave one.
  std::optional<bool> flag(address_option which) const noexcept {
    const auto value = option(which);
    return value ? std::optional{*value != 0} : std::nullopt;
  }

  /// The same address with the port that was bound. Only for kinds that have a port.
  ATBUS_API address with_port(std::uint16_t port) const;

  /// The same address with that name. Errors: invalid_argument unless the kind is mem or shm.
  ATBUS_API result<address> with_name(std::string_view name) const;

  friend bool operator==(const address&, const address&) noexcept = default;

 private:
  using option_values = std::array<std::optional<std::uint64_t>, address_option_count>;

  explicit address(address_kind kind) noexcept : kind_{kind} {}

  address_kind kind_;
  bool abstract_ = false;
  std::uint16_t port_ = 0;
  std::string name_;
  std::string subject_;
  option_values options_;
};

}  // namespace atbus
