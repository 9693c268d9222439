#include "nats/server_refusal.h"

namespace atbus::detail {

std::optional<server_refusal> read_refusal(std::string_view text) noexcept {
  constexpr std::string_view publishing = "Permissions Violation for Publish to \"";
  constexpr std::string_view subscribing = "Permissions Violation for Subscription to \"";
  for (const std::string_view words : {publishing, subscribing}) {
    const std::size_t at = text.find(words);
    if (at == text.npos)
      continue;
    const std::string_view rest = text.substr(at + words.size());
    const std::size_t end = rest.find('"');
    if (end == 0 || end == rest.npos)
      return std::nullopt;
    return server_refusal{.publishing = words == publishing, .subject = rest.substr(0, end)};
  }
  return std::nullopt;
}

}  // namespace atbus::detail
