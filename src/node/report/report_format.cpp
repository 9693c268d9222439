#include "node/report/report_format.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "core/crc32c.h"
#include "core/text.h"

namespace atbus::detail {
namespace {

constexpr char report_magic[8] = {'a', 't', 'b', 'u', 's', 'r', 'e', 'p'};
constexpr std::uint32_t report_version = 1;

constexpr std::uint8_t flag_away = 1;
constexpr std::uint8_t flag_encrypted = 2;
constexpr std::uint8_t flag_wanted = 4;

template <std::size_t size>
void put_text(char (&to)[size], std::string_view text) noexcept {
  const std::size_t length = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), length);
  std::memset(to + length, 0, size - length);
}

// Without control characters, which can harm a terminal.
template <std::size_t size>
std::string take_text(const char (&from)[size]) {
  std::string text{from, strnlen(from, size)};
  std::ranges::replace_if(
      text, [](char c) { return !is_printable(c); }, '?');
  return text;
}

template <std::size_t size>
void put_lines(char (&to)[size], const std::vector<std::string>& lines) noexcept {
  std::size_t at = 0;
  for (const std::string& line : lines) {
    if (at + line.size() + 1 >= size)
      continue;
    std::memcpy(to + at, line.data(), line.size());
    at += line.size();
    to[at++] = '\n';
  }
}

template <std::size_t size>
std::vector<std::string> take_lines(const char (&from)[size]) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : std::string_view{from, strnlen(from, size)}) {
    if (c == '\n')
      lines.push_back(std::exchange(line, {}));
    else
      line += is_printable(c) ? c : '?';
  }
  return lines;
}

node_record to_record(const node_report& from) {
  node_record to{};
  to.id = from.id.value();
  to.incarnation = from.incarnation;
  to.parent = from.parent.value();
  to.pid = from.pid;
  to.started_at = from.started_at;
  to.updated_at = from.updated_at;
  to.message_limit = from.message_limit;
  to.peers_in_all = from.peers_in_all;
  put_text(to.program, from.program);
  put_text(to.version, from.version);
  put_lines(to.addresses, from.addresses);
  std::ranges::copy(from.handling.counts, to.handling);
  static_assert(std::size(node_record{}.counters) >= 37);
  std::size_t at = 0;
  for (const node_counter& one : node_counters())
    to.counters[at++] = one.in(from.stats);
  return to;
}

node_report from_record(const node_record& from) {
  node_report to;
  to.id = bus_id{from.id};
  to.incarnation = from.incarnation;
  to.parent = bus_id{from.parent};
  to.pid = static_cast<std::uint32_t>(from.pid);
  to.program = take_text(from.program);
  to.version = take_text(from.version);
  to.started_at = from.started_at;
  to.updated_at = from.updated_at;
  to.addresses = take_lines(from.addresses);
  to.message_limit = from.message_limit;
  std::ranges::copy(from.handling, to.handling.counts.begin());
  std::size_t at = 0;
  for (const node_counter& one : node_counters())
    one.set(to.stats, from.counters[at++]);
  to.peers_in_all = from.peers_in_all;
  return to;
}

void to_record(const peer_report& from, peer_record& to) noexcept {
  to = {};
  to.id = from.id.value();
  to.incarnation = from.incarnation;
  to.relation = static_cast<std::uint8_t>(from.relation);
  to.channel = static_cast<std::uint8_t>(from.channel);
  to.flags = static_cast<std::uint8_t>((from.away ? flag_away : 0) |
                                       (from.encrypted ? flag_encrypted : 0) |
                                       (from.wanted ? flag_wanted : 0));
  put_text(to.address, from.address);
  to.sent = from.sent;
  to.sent_bytes = from.sent_bytes;
  to.received = from.received;
  to.received_bytes = from.received_bytes;
  to.would_block = from.would_block;
  to.undelivered = from.undelivered;
  to.queued_messages = from.queued_messages;
  to.queued_bytes = from.queued_bytes;
  to.queued_bytes_most = from.queued_bytes_most;
  to.links = from.links;
  to.links_lost = from.links_lost;
  to.last_loss_at = from.last_loss_at;
  to.last_loss = static_cast<std::int64_t>(from.last_loss);
  to.round_trip = static_cast<std::uint64_t>(from.round_trip.count());
  std::ranges::transform(from.round_trips.counts, to.round_trips, [](std::uint64_t count) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(count, std::numeric_limits<std::uint32_t>::max()));
  });
}

// A value that this version does not know is taken for `other`.
template <class Enum, class Value>
Enum to_enum(Value value, Enum last, Enum other) noexcept {
  const bool known = value >= Value{0} && value <= static_cast<Value>(last);
  return known ? static_cast<Enum>(value) : other;
}

peer_report from_record(const peer_record& from) {
  peer_report to;
  to.id = bus_id{from.id};
  to.incarnation = from.incarnation;
  to.relation = to_enum(from.relation, peer_relation::client, peer_relation::peer);
  to.channel = to_enum(from.channel, peer_channel::nats, peer_channel::none);
  to.away = (from.flags & flag_away) != 0;
  to.encrypted = (from.flags & flag_encrypted) != 0;
  to.wanted = (from.flags & flag_wanted) != 0;
  to.address = take_text(from.address);
  to.sent = from.sent;
  to.sent_bytes = from.sent_bytes;
  to.received = from.received;
  to.received_bytes = from.received_bytes;
  to.would_block = from.would_block;
  to.undelivered = from.undelivered;
  to.queued_messages = from.queued_messages;
  to.queued_bytes = from.queued_bytes;
  to.queued_bytes_most = from.queued_bytes_most;
  to.links = from.links;
  to.links_lost = from.links_lost;
  to.last_loss = to_enum(from.last_loss, errc::malformed, errc::ok);
  to.last_loss_at = from.last_loss_at;
  to.round_trip = std::chrono::nanoseconds{static_cast<std::int64_t>(
      std::min<std::uint64_t>(from.round_trip, std::numeric_limits<std::int64_t>::max()))};
  std::ranges::copy(from.round_trips, to.round_trips.counts.begin());
  return to;
}

bytes_view behind_checksum(bytes_view copy) noexcept {
  return copy.subspan(offsetof(report_head, sequence));
}

// The head of a copy of this layout. Later versions of it may only append to the records.
bool read_head(bytes_view copy, report_head& head) noexcept {
  if (copy.size() < sizeof head)
    return false;
  std::memcpy(&head, copy.data(), sizeof head);
  return std::memcmp(head.magic, report_magic, sizeof report_magic) == 0;
}

bool is_possible(const report_head& head) noexcept {
  return head.peers <= report_peers_max && head.node_size <= report_copy_size &&
         head.peer_size <= report_copy_size && size_of(head) <= report_copy_size;
}

}  // namespace

std::size_t size_of(const report_head& head) noexcept {
  return sizeof head + head.node_size + std::size_t{head.peers} * head.peer_size;
}

std::uint64_t sequence_of(bytes_view copy) noexcept {
  report_head head;
  return read_head(copy, head) ? head.sequence : 0;
}

void encode(const node_report& report, std::uint64_t sequence, std::vector<std::byte>& out) {
  const auto peers = static_cast<std::uint32_t>(std::min(report.peers.size(), report_peers_max));
  report_head head{.magic = {},
                   .version = report_version,
                   .checksum = 0,
                   .sequence = sequence,
                   .node_size = sizeof(node_record),
                   .peer_size = sizeof(peer_record),
                   .peers = peers,
                   .zero = 0};
  std::memcpy(head.magic, report_magic, sizeof report_magic);
  out.resize(size_of(head));
  std::byte* at = out.data() + sizeof head;
  const node_record node = to_record(report);
  std::memcpy(at, &node, sizeof node);
  at += sizeof node;
  for (std::uint32_t i = 0; i != peers; ++i, at += sizeof(peer_record)) {
    peer_record one;
    to_record(report.peers[i], one);
    std::memcpy(at, &one, sizeof one);
  }
  std::memcpy(out.data(), &head, sizeof head);
  head.checksum = crc32c(behind_checksum(out));
  std::memcpy(out.data(), &head, sizeof head);
}

result<node_report> decode_report(bytes_view copy) {
  report_head head;
  if (!read_head(copy, head))
    return error{errc::not_a_segment, "it is no report of a node"};
  if (head.version != report_version) {
    return error{errc::version_mismatch, "it has layout version " + std::to_string(head.version) +
                                             ", this program reads version " +
                                             std::to_string(report_version)};
  }
  if (!is_possible(head) || size_of(head) > copy.size() ||
      crc32c(behind_checksum(copy.first(size_of(head)))) != head.checksum)
    return error{errc::not_a_segment, "it is damaged, or was cut off while it was written"};
  // What a program of another release has less is 0 here, and what it has more is left out.
  const std::byte* at = copy.data() + sizeof head;
  node_record node{};
  std::memcpy(&node, at, std::min<std::size_t>(sizeof node, head.node_size));
  at += head.node_size;
  node_report report = from_record(node);
  report.peers.reserve(head.peers);
  for (std::uint32_t i = 0; i != head.peers; ++i, at += head.peer_size) {
    peer_record one{};
    std::memcpy(&one, at, std::min<std::size_t>(sizeof one, head.peer_size));
    report.peers.push_back(from_record(one));
  }
  return report;
}

}  // namespace atbus::detail
