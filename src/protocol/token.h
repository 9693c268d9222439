// The shared secrets with which nodes authenticate each other.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <vector>

#include "atbus/bytes.hpp"
#include "atbus/status.hpp"
#include "protocol/control.h"
#include "system/secret_bytes.h"

namespace atbus::detail {

inline constexpr std::size_t token_size_min = 16;
inline constexpr std::size_t token_size_max = 1024;

// One secret, in secret_bytes; it can be moved, not copied.
class token {
 public:
  // Errors: invalid_argument for one that is too short or too long; system_error if HMACs can't be computed.
  [[nodiscard]] static result<token> make(bytes_view secret);

  [[nodiscard]] bytes_view secret() const noexcept { return secret_.get(); }
  // The same for equal secrets, and does not tell what they are. Never all zeroes.
  [[nodiscard]] const message_mac& name() const noexcept { return name_; }

 private:
  token(bytes_view secret, const message_mac& name) : secret_(secret), name_(name) {}

  secret_bytes secret_;
  message_mac name_;
};

// A node uses the first one for its proof; a peer may use any.
using token_list = std::vector<token>;

// HMAC-SHA-256 (RFC 2104, FIPS 180-4) of all parts in a row; nothing if the library that computes it
// can't.
[[nodiscard]] std::optional<message_mac> hmac_sha256(bytes_view key,
                                                     std::initializer_list<bytes_view> parts);

// Whether hmac_sha256 works. The library that computes it sets itself up with the first one, and needs memory
// for that which it must not lack.
[[nodiscard]] bool can_compute_hmac();

// The time does not depend on where they differ.
[[nodiscard]] bool equal_in_constant_time(const message_mac& left,
                                          const message_mac& right) noexcept;

}  // namespace atbus::detail
