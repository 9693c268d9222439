#include "atbus/node_options.hpp"

#include <string.h>

#include <string>

#include "atbus/address.hpp"
#include "atbus/endpoint.hpp"
#include "atbus/id_range.hpp"
#include "core/address_kinds.h"

namespace atbus {

void node_options::wipe_tokens() noexcept {
  for (std::string& secret : tokens_)
    explicit_bzero(secret.data(), secret.size());
  explicit_bzero(circuit_secret_.data(), circuit_secret_.size());
}

error node_options::lets_through(const address& at) const {
  const bool tcp = detail::is_stream(at.kind()) && at.kind() != address_kind::unix_socket;
  if (!tcp)
    return {};
  const bool has_keys = !tokens_.empty() || !certificates_.chain.empty();
  if (!has_keys && !allow_unauthenticated_) {
    return {errc::denied, at.to_string() +
                              ": any process may be there: give the node a token or "
                              "certificates, or set allow_unauthenticated"};
  }
  if (has_keys && !allow_unencrypted_ && !at.flag(address_option::tls).value_or(true)) {
    return {errc::denied, at.to_string() +
                              ": the network could read and change all that passes: leave out "
                              "tls=false at both ends, or set allow_unencrypted at both"};
  }
  return {};
}

error node_options::check() const {
  using std::chrono::nanoseconds;
  const auto bad = [](std::string_view option, std::string_view wanted) {
    return error{errc::invalid_argument,
                 "node_options::" + std::string{option} + " must be " + std::string{wanted}};
  };
  if (message_limit_ == 0 || message_limit_ > message_limit_max) {
    return bad("message_limit", "1 to " + std::to_string(message_limit_max) + " bytes, not " +
                                    std::to_string(message_limit_));
  }
  for (const std::string& text : parents_) {
    const auto where = address::parse(text);
    if (!where)
      return bad("parent", "an address: " + where.error().text());
    if (error denied = lets_through(*where); !denied)
      return bad("parent", "an address that is allowed: " + denied.text());
  }
  if (const std::size_t size = circuit_secret_.size(); size != 0 && (size < 16 || size > 1024))
    return bad("circuit_secret", "16 to 1024 random bytes, not " + std::to_string(size));
  if (const bool none = certificates_.chain.empty() && certificates_.key.empty() &&
                        certificates_.authority.empty();
      !none &&
      (certificates_.chain.empty() || certificates_.key.empty() || certificates_.authority.empty()))
    return bad("certificates", "three files: chain, key and authority");
  if (!children_.empty()) {
    const auto range = id_range::parse(children_);
    if (!range)
      return bad("children", "a range of ids: " + range.error().text());
    if (range->length() == 0 || range->length() == 64)
      return bad("children", "a prefix of 1 to 63 bits, not " + children_);
  }
  if (first_idle_timeout_ <= nanoseconds{0})
    return bad("first_idle_timeout", "longer than 0");
  if (connections_ == 0)
    return bad("connections", "1 or more");
  if (unconfirmed_ == 0)
    return bad("unconfirmed", "1 or more");
  if (ping_interval_ <= nanoseconds{0})
    return bad("ping_interval", "longer than 0");
  if (fault_tolerance_ == 0)
    return bad("fault_tolerance", "1 or more pings");
  if (retry_first_ <= nanoseconds{0} || retry_longest_ < retry_first_)
    return bad("retry", "longer than 0, and the longest wait not shorter than the first");
  if (send_buffer_number_ > send_buffer_size_max / build_settings::data_node_size) {
    return bad("send_buffer_number",
               "at most " + std::to_string(send_buffer_size_max / build_settings::data_node_size) +
                   " blocks, not " + std::to_string(send_buffer_number_));
  }
  if (requests_ == 0 || requests_ > requests_limit)
    return bad("requests",
               "1 to " + std::to_string(requests_limit) + ", not " + std::to_string(requests_));
  if (blob_window_ < blob_window_min || blob_window_ > blob_window_max)
    return bad("blob_window", std::to_string(blob_window_min) + " to " +
                                  std::to_string(blob_window_max) + " bytes, not " +
                                  std::to_string(blob_window_));
  if (message_deadline_ < nanoseconds{0})
    return bad("message_deadline", "0 (none) or longer");
  if (write_delay_ < nanoseconds{0} || write_delay_ > write_delay_max)
    return bad("write_delay", "0 to " + std::to_string(write_delay_max.count()) + " ms");
  if (drain_ < nanoseconds{0})
    return bad("drain", "0 or longer");
  return {};
}

std::string_view name(endpoint_event event) noexcept {
  switch (event) {
    case endpoint_event::connected:
      return "connected";
    case endpoint_event::moved:
      return "moved";
    case endpoint_event::away:
      return "away";
    case endpoint_event::disconnected:
      return "disconnected";
    case endpoint_event::refused:
      return "refused";
    case endpoint_event::superseded:
      return "superseded";
  }
  return "unknown";
}

}  // namespace atbus
