/// @file
/// How the library reports success and failure.
///
/// Three types, from hot to cold paths:
///
///     status     a code and up to two numbers; 24 bytes, no allocation: send, wait
///     error      a code, a sentence that names what is at fault, and errno where there is one
///     result<T>  a T, or the error that says why there is none: open, parse
///
/// ```cpp
/// if (auto s = out.send(bytes); s == atbus::errc::would_block) wait_for_room();
/// auto inbox = atbus::receiver::open("shm://zone-1");
/// if (!inbox) return inbox.error().print(), 1;
/// ```
///
/// All three convert to true on success. A status and an error convert to std::error_code in
/// atbus::category() and compare with atbus::errc; a result has error().
///
/// Ownership and threads: values; copy, move and destroy them on any thread. Nothing here throws.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "atbus/detail/export.hpp"

namespace atbus {

/// The causes, distinct where the caller acts differently. Values are stable within a major version
/// and start at 0 without gaps; new ones are added at the end. explain() says what each means.
enum class errc : std::uint16_t {
  ok,                 ///< The operation succeeded.
  would_block,        ///< The lane or queue is full; nothing of the message was taken.
  message_too_large,  ///< The message is longer than the limit of the channel.
  closed,             ///< This end has been closed or destroyed by this program.
  used_after_fork,    ///< The object was opened before a fork and is used in the child.
  timed_out,          ///< The time allowed passed before the operation finished.
  invalid_argument,   ///< An argument is outside what the call allows.
  invalid_address,    ///< The address can't be understood.
  invalid_name,       ///< The name is empty, too long, or holds a character that is not allowed.
  not_supported,      ///< This machine, build or kind of channel does not offer it.
  not_found,          ///< Nothing exists under that name.
  receiver_exists,    ///< A living receiver already owns that name.
  no_free_lane,       ///< Every lane of the segment belongs to a living sender.
  no_space,           ///< Shared memory or the file system has not enough room.
  not_a_segment,      ///< The file was not made by atbus, or is damaged.
  version_mismatch,   ///< The other side uses another version of layout or protocol.
  geometry_mismatch,  ///< The segment's sizes differ from what was asked for.
  wrong_owner,        ///< The segment or socket belongs to another user.
  wrong_mode,         ///< The file's permissions let others in, or keep its owner out.
  retired,            ///< The segment was removed, and carries no more messages.
  quarantined,        ///< A lane holds values that no correct sender writes.
  receiver_alive,     ///< The receiver still lives and may yet handle the messages.
  peer_closed,        ///< The other side closed the connection or died.
  outcome_unknown,    ///< Whether the message was handled can't be found out.
  not_delivered,      ///< The message provably never reached a handler.
  no_route,           ///< No path leads to that bus id.
  not_connected,      ///< The route is known, but its link is down.
  hop_limit,          ///< The message passed through as many nodes as it may.
  denied,             ///< The other side or the system refused, or a token is missing.
  superseded,         ///< A newer node has this bus id now.
  out_of_memory,      ///< The system, or a limit, gave no more memory.
  system_error,       ///< A call to the operating system failed; see errno.
  protocol_error,     ///< The other side sent bytes that no correct peer sends.
  unknown_command,    ///< The node that was asked has no command of that name.
  command_failed,     ///< The node that was asked could not carry the command out.
  unknown_request,    ///< The node that was asked has no handler for requests of that type.
  request_failed,     ///< The handler of the request failed it, and may have said why.
  cancelled,          ///< The request was cancelled by the node that made it.
  malformed,          ///< The bytes are no value of the type that was expected.
};

/// Number of codes.
inline constexpr std::size_t errc_count = static_cast<std::size_t>(errc::malformed) + 1;

/// The category of every std::error_code made here; its name is "atbus". Codes with a POSIX meaning
/// compare equal to the matching std::errc (would_block to operation_would_block, and so on).
ATBUS_API const std::error_category& category() noexcept;
/// The code in category(). std::error_code finds this function by itself.
ATBUS_API std::error_code make_error_code(errc code) noexcept;

/// The code's identifier as written above, such as "would_block"; "unknown" for any other value.
ATBUS_API std::string_view name(errc code) noexcept;

/// What happened, and what to do next. The text has static lifetime.
ATBUS_API std::string_view explain(errc code) noexcept;

/// The code with that identifier, or nothing.
ATBUS_API std::optional<errc> find_errc(std::string_view wanted) noexcept;

}  // namespace atbus

template <>
struct std::is_error_code_enum<atbus::errc> : std::true_type {};

namespace atbus {

// NOLINTBEGIN(google-explicit-constructor): see above

/// A code and up to two numbers, its facts: for message_too_large the message's length and the
/// limit in bytes, for system_error errno. text() puts them into a sentence.
class status {
 public:
  constexpr status() noexcept = default;
  /// A code without facts. Implicit, so that a function can return errc::closed.
  constexpr status(errc code) noexcept : code_{code} {}
  /// A code with one fact.
  constexpr status(errc code, std::uint64_t fact) noexcept
      : code_{code}, fact_count_{1}, facts_{fact, 0} {}
  /// A code with two facts.
  constexpr status(errc code, std::uint64_t fact0, std::uint64_t fact1) noexcept
      : code_{code}, fact_count_{2}, facts_{fact0, fact1} {}

  /// True on success.
  constexpr explicit operator bool() const noexcept { return code_ == errc::ok; }
  /// The cause.
  constexpr errc code() const noexcept { return code_; }

  /// Fact 0 or 1; 0 if it was not given.
  constexpr std::uint64_t fact(std::size_t index) const noexcept {
    assert(index < facts_.size());
    return facts_[index];
  }
  /// How many facts were given: 0 to 2.
  constexpr std::size_t fact_count() const noexcept { return fact_count_; }

  /// The code in category(), without the facts.
  operator std::error_code() const noexcept { return make_error_code(code_); }

  /// The explanation with the facts in it. Allocates; for logs and operators.
  ATBUS_API std::string text() const;

  /// Prints one line to standard error: "atbus: would_block: ...".
  ATBUS_API void print() const;

  friend constexpr bool operator==(const status&, const status&) noexcept = default;
  friend constexpr bool operator==(const status& left, errc right) noexcept {
    return left.code_ == right;
  }

 private:
  errc code_ = errc::ok;
  std::uint16_t fact_count_ = 0;
  std::array<std::uint64_t, 2> facts_{};
};

static_assert(sizeof(status) == 24 && std::is_trivially_copyable_v<status>);

/// A failure off the hot path. A default-made error means "no error" and converts to true. Making one
/// does not throw: without memory for it the text is lost, and text() says so. Copies share the text.
class [[nodiscard]] error {
 public:
  error() noexcept = default;

  /// `text` is a sentence that names what is at fault and what to do; empty stands for
  /// explain(code). `system_code` is the errno value behind it, 0 if there is none; text() adds the
  /// system's description of it.
  ATBUS_API error(errc code, std::string text = {}, int system_code = 0) noexcept;
  /// The same for a literal.
  ATBUS_API error(errc code, const char* text, int system_code = 0) noexcept;
  /// The error with the text of a status.
  ATBUS_API error(const status& cause) noexcept;

  /// The same cause with `text` as the complete text.
  [[nodiscard]] ATBUS_API error with_text(std::string text) const noexcept;

  /// True if there is no error.
  explicit operator bool() const noexcept { return code_ == errc::ok; }
  /// The cause.
  errc code() const noexcept { return code_; }
  /// The errno value behind it; 0 if there is none.
  int system_code() const noexcept { return system_code_; }
  /// The complete text; empty if there is no error.
  ATBUS_API const std::string& text() const noexcept;

  /// The code in category(), without the text.
  operator std::error_code() const noexcept { return make_error_code(code_); }

  /// Prints one line to standard error: "atbus: invalid_address: ...".
  ATBUS_API void print() const;

  friend bool operator==(const error& left, errc right) noexcept { return left.code_ == right; }

 private:
  void set_text(std::string text) noexcept;

  errc code_ = errc::ok;
  int system_code_ = 0;
  std::shared_ptr<const std::string> text_;
};

/// A T, or the error that says why there is none. Reading the value of a failed result is an error
/// of the program (asserted). error() may always be called; it is "no error" when there is a value.
template <class T>
class [[nodiscard]] result {
 public:
  /// The type of the value.
  using value_type = T;

  /// A success.
  result(T value) : value_{std::move(value)} {}
  /// A failure; `problem` must be an error (asserted).
  result(atbus::error problem) : error_{std::move(problem)} { assert(!error_); }

  /// Whether there is a value.
  explicit operator bool() const noexcept { return value_.has_value(); }

  /// The value. There must be one (asserted).
  T& value() & { return checked(); }
  /// The value. There must be one (asserted).
  const T& value() const& { return checked(); }
  /// The value, to be moved out. There must be one (asserted).
  T&& value() && { return std::move(checked()); }

  /// The value, as value().
  T& operator*() & { return checked(); }
  /// The value, as value().
  const T& operator*() const& { return checked(); }
  /// The value, to be moved out.
  T&& operator*() && { return std::move(checked()); }

  /// The value, as value().
  T* operator->() { return &checked(); }
  /// The value, as value().
  const T* operator->() const { return &checked(); }

  /// Why there is no value; no error if there is one.
  const atbus::error& error() const& noexcept { return error_; }
  /// The error, to be moved out.
  atbus::error&& error() && noexcept { return std::move(error_); }

 private:
  T& checked() {
    assert(value_.has_value());
    return *value_;
  }
  const T& checked() const {
    assert(value_.has_value());
    return *value_;
  }

  std::optional<T> value_;
  atbus::error error_;
};

// NOLINTEND(google-explicit-constructor)

}  // namespace atbus
