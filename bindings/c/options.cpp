#include "options.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

namespace atbus::c_api {
namespace {

using std::chrono::nanoseconds;

template <class Value, class Set>
void if_set(Value value, Set&& set) {
  if (value != Value{})
    set(value);
}

template <class Use>
void for_each_text(const char* const* texts, Use&& use) {
  for (; texts != nullptr && *texts != nullptr; ++texts)
    use(*texts);
}

constexpr std::uint32_t or_none(std::uint32_t value) noexcept {
  return value == ATBUS_NONE ? 0 : value;
}
constexpr std::uint64_t or_none(std::uint64_t value) noexcept {
  return value == ATBUS_NONE ? 0 : value;
}

std::string text_or_empty(const char* text) {
  return text != nullptr ? text : "";
}

stranger_limits limits_of(const atbus_node_options& from) {
  stranger_limits made;
  made.per_address = from.strangers_per_address;
  if_set(from.strangers_first_byte_timeout_ns, [&](std::int64_t time) {
    made.first_byte_timeout = time == ATBUS_FOR_EVER ? nanoseconds{0} : nanoseconds{time};
  });
  if_set(from.strangers_bytes, [&](std::uint64_t bytes) { made.bytes = or_none(bytes); });
  if_set(from.strangers_handshakes_per_second,
         [&](std::uint32_t most) { made.handshakes_per_second = or_none(most); });
  return made;
}

void set_times(const atbus_node_options& from, node_options& to) {
  if_set(from.first_idle_timeout_ns,
         [&](std::int64_t time) { to.first_idle_timeout(nanoseconds{time}); });
  if_set(from.ping_interval_ns, [&](std::int64_t time) { to.ping_interval(nanoseconds{time}); });
  if_set(from.message_deadline_ns,
         [&](std::int64_t time) { to.message_deadline(nanoseconds{time}); });
  if_set(from.write_delay_ns, [&](std::int64_t time) { to.write_delay(nanoseconds{time}); });
  if_set(from.drain_ns,
         [&](std::int64_t time) { to.drain(nanoseconds{std::max(time, std::int64_t{0})}); });
  to.retry(from.retry_first_ns != 0 ? nanoseconds{from.retry_first_ns} : to.retry_first(),
           from.retry_longest_ns != 0 ? nanoseconds{from.retry_longest_ns} : to.retry_longest());
}

void set_amounts(const atbus_node_options& from, node_options& to) {
  if_set(from.message_limit, [&](std::uint64_t bytes) { to.message_limit(bytes); });
  if_set(from.fault_tolerance, [&](std::uint32_t pings) { to.fault_tolerance(pings); });
  if_set(from.connections, [&](std::uint32_t most) { to.connections(most); });
  if_set(from.unconfirmed, [&](std::uint32_t most) { to.unconfirmed(most); });
  if_set(from.send_buffer_size, [&](std::uint64_t bytes) { to.send_buffer_size(bytes); });
  if_set(from.send_buffer_number, [&](std::uint64_t blocks) { to.send_buffer_number(blocks); });
  if_set(from.sessions, [&](std::uint64_t most) { to.sessions(most); });
  if_set(from.clients, [&](std::uint64_t most) { to.clients(or_none(most)); });
  if_set(from.requests, [&](std::uint64_t most) { to.requests(most); });
}

error set_policies(const atbus_node_options& from, node_options& to) {
  if (from.overflow < 0 || from.overflow > ATBUS_OVERFLOW_DISCONNECT || from.restart < 0 ||
      from.restart > ATBUS_RESTART_REPORT)
    return error{errc::invalid_argument, "the options name a policy that does not exist"};
  to.overflow(static_cast<overflow_policy>(from.overflow));
  to.restart(static_cast<restart_policy>(from.restart));
  return {};
}

template <class Options>
error set_common(const atbus_channel_options& from, Options& to) {
  if_set(from.directory, [&](const char* folder) { to.directory = folder; });
  if_set(from.message_limit, [&](std::uint64_t bytes) { to.message_limit = bytes; });
  if (from.secret == nullptr)
    return {};
  result<tls_credentials> keys = tls_credentials::from_token(from.secret);
  if (keys)
    to.socket.tls = *std::move(keys);
  return keys.error();
}

}  // namespace

result<node_options> to_node_options(const atbus_node_options* from) {
  atbus_node_options known{};
  if (error bad = copy_known(from, sizeof(std::size_t), known); !bad)
    return bad;
  node_options made;
  for_each_text(known.tokens, [&](const char* token) { made.token(token); });
  for_each_text(known.parents, [&](const char* address) { made.parent(address); });
  if_set(known.circuit_secret, [&](const char* secret) { made.circuit_secret(secret); });
  if (known.certificate_chain != nullptr || known.certificate_key != nullptr ||
      known.certificate_authority != nullptr) {
    made.certificates({.chain = text_or_empty(known.certificate_chain),
                       .key = text_or_empty(known.certificate_key),
                       .authority = text_or_empty(known.certificate_authority)});
  }
  if_set(known.access, [&](const char* file) { made.access(file); });
  if_set(known.report_directory, [&](const char* folder) { made.report_directory(folder); });
  made.built_in_commands(known.no_built_in_commands == 0);
  made.allow_tap(known.allow_tap != 0);
  if_set(known.directory, [&](const char* file) { made.directory(std::string{file}); });
  if_set(known.children, [&](const char* range) { made.children(range); });
  made.allow_unauthenticated(known.allow_unauthenticated != 0);
  made.allow_unencrypted(known.allow_unencrypted != 0);
  set_times(known, made);
  set_amounts(known, made);
  made.strangers(limits_of(known));
  if (error bad = set_policies(known, made); !bad) {
    made.wipe_tokens();
    return bad;
  }
  return made;
}

result<receiver_options> to_receiver_options(const atbus_channel_options* from) {
  atbus_channel_options known{};
  if (error bad = copy_known(from, sizeof(std::size_t), known); !bad)
    return bad;
  receiver_options made;
  if (error bad = set_common(known, made); !bad)
    return bad;
  made.lane_size = known.lane_size;
  made.lanes = known.lanes;
  if_set(known.connections, [&](std::uint32_t most) { made.connections = most; });
  return made;
}

result<sender_options> to_sender_options(const atbus_channel_options* from) {
  atbus_channel_options known{};
  if (error bad = copy_known(from, sizeof(std::size_t), known); !bad)
    return bad;
  sender_options made;
  if (error bad = set_common(known, made); !bad)
    return bad;
  if_set(known.connect_timeout_ns,
         [&](std::int64_t time) { made.connect_timeout = nanoseconds{time}; });
  if_set(known.linger_ns,
         [&](std::int64_t time) { made.linger = nanoseconds{std::max(time, std::int64_t{0})}; });
  made.reconnect_min = nanoseconds{known.reconnect_min_ns};
  if_set(known.reconnect_max_ns,
         [&](std::int64_t time) { made.reconnect_max = nanoseconds{time}; });
  return made;
}

}  // namespace atbus::c_api
