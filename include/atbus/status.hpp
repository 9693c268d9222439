// How the library reports success and failure.
//
// Three types, from hot to cold paths:
//   status     a code and up to two numbers; 24 bytes, no allocation: send, wait
//   error      a code, a sentence that names what is at fault, and errno where there is one
//   result<T>  a T, or the error that says why there is none: open, parse
//
//   if (auto s = out.send(bytes); s == atbus::errc::would_block) wait_for_room();
//   auto inbox = atbus::receiver::open("shm://zone-1");
//   if (!inbox) return inbox.error().print(), 1;
//
// All three convert to true on success. A status and an error convert to std::error_code in
// atbus::category() and compare with atbus::errc; a result has error().
//
// Ownership and threads: values; copy, move and destroy them on any thread. Nothing here throws.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "atbus/detail/export.hpp"

namespace atbus {

// The causes, distinct where the caller acts differently. Values are stable within a major version
// and start at 0 without gaps; new ones are added at the end. explain() says what each means.
enum class errc : std::uint16_t {
  ok,
  would_block,
  message_too_large,
  closed,
  used_after_fork,
  timed_out,
  invalid_argument,
  invalid_address,
  invalid_name,
  not_supported,
  not_found,
  receiver_exists,
  no_free_lane,
  no_space,
  not_a_segment,
  version_mismatch,
  geometry_mismatch,
  wrong_owner,
  wrong_mode,
  retired,
  quarantined,
  receiver_alive,
  peer_closed,
  outcome_unknown,
  not_delivered,
  no_route,
  not_connected,
  hop_limit,
  denied,
  superseded,
  out_of_memory,
  system_error,
  protocol_error,
  unknown_command,
  command_failed,
};

inline constexpr std::size_t errc_count = static_cast<std::size_t>(errc::command_failed) + 1;

// The category of every std::error_code made here; its name is "atbus". Codes with a POSIX meaning
// compare equal to the matching std::errc (would_block to operation_would_block, and so on).
ATBUS_API const std::error_category& category() noexcept;
ATBUS_API std::error_code make_error_code(errc code) noexcept;

// The code's identifier as written above, such as "would_block"; "unknown" for any other value.
ATBUS_API std::string_view name(errc code) noexcept;

// What happened, and what to do next. The text has static lifetime.
ATBUS_API std::string_view explain(errc code) noexcept;

// The code with that identifier, or nothing.
ATBUS_API std::optional<errc> find_errc(std::string_view wanted) noexcept;

}  // namespace atbus

template <>
struct std::is_error_code_enum<atbus::errc> : std::true_type {};

namespace atbus {

// NOLINTBEGIN(google-explicit-constructor): see above

// A code and up to two numbers, its facts: for message_too_large the message's length and the limit
// in bytes, for system_error errno. text() puts them into a sentence.
class status {
 public:
  constexpr status() noexcept = default;
  constexpr status(errc code) noexcept : code_{code} {}
  constexpr status(errc code, std::uint64_t fact) noexcept
      : code_{code}, fact_count_{1}, facts_{fact, 0} {}
  constexpr status(errc code, std::uint64_t fact0, std::uint64_t fact1) noexcept
      : code_{code}, fact_count_{2}, facts_{fact0, fact1} {}

  constexpr explicit operator bool() const noexcept { return code_ == errc::ok; }
  constexpr errc code() const noexcept { return code_; }

  // Fact 0 or 1; 0 if it was not given.
  constexpr std::uint64_t fact(std::size_t index) const noexcept {
    assert(index < facts_.size());
    return facts_[index];
  }
  constexpr std::size_t fact_count() const noexcept { return fact_count_; }

  operator std::error_code() const noexcept { return make_error_code(code_); }

  // The explanation with the facts in it. Allocates; for logs and operators.
  ATBUS_API std::string text() const;

  // Prints one line to standard error: "atbus: would_block: ...".
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

// A failure off the hot path. A default-made error means "no error" and converts to true.
class [[nodiscard]] error {
 public:
  error() noexcept = default;

  // `text` is a sentence that names what is at fault and what to do; empty stands for
  // explain(code). `system_code` is the errno value behind it, 0 if there is none; text() adds the
  // system's description of it.
  ATBUS_API error(errc code, std::string text = {}, int system_code = 0);
  ATBUS_API error(const status& cause);

  // The same cause with `text` as the complete text.
  [[nodiscard]] ATBUS_API error with_text(std::string text) const;

  explicit operator bool() const noexcept { return code_ == errc::ok; }
  errc code() const noexcept { return code_; }
  int system_code() const noexcept { return system_code_; }
  const std::string& text() const noexcept { return text_; }

  operator std::error_code() const noexcept { return make_error_code(code_); }

  // Prints one line to standard error: "atbus: invalid_address: ...".
  ATBUS_API void print() const;

  friend bool operator==(const error& left, errc right) noexcept { return left.code_ == right; }

 private:
  errc code_ = errc::ok;
  int system_code_ = 0;
  std::string text_;
};

// A T, or the error that says why there is none. Reading the value of a failed result is an error
// of the program (asserted). error() may always be called; it is "no error" when there is a value.
template <class T>
class [[nodiscard]] result {
 public:
  using value_type = T;

  result(T value) : value_{std::move(value)} {}
  result(atbus::error problem) : error_{std::move(problem)} { assert(!error_); }

  explicit operator bool() const noexcept { return value_.has_value(); }

  T& value() & { return checked(); }
  const T& value() const& { return checked(); }
  T&& value() && { return std::move(checked()); }

  T& operator*() & { return checked(); }
  const T& operator*() const& { return checked(); }
  T&& operator*() && { return std::move(checked()); }

  T* operator->() { return &checked(); }
  const T* operator->() const { return &checked(); }

  const atbus::error& error() const& noexcept { return error_; }
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
