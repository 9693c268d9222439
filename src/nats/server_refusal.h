// What a NATS server forbids, in its own words: Permissions Violation for Publish to "subject".
//
// Pure functions. A stranger may have chosen the subject, within what is_inbox allows.
#pragma once

#include <optional>
#include <string_view>

namespace atbus::detail {

struct server_refusal {
  bool publishing = false;   // else subscribing
  std::string_view subject;  // points into the text
};

// No value: the text is about something else, or its end is missing.
[[nodiscard]] std::optional<server_refusal> read_refusal(std::string_view text) noexcept;

}  // namespace atbus::detail
