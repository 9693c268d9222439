// The bytes of a report: what is written is read again; whatever else it is, is refused with a reason.
#include "node/report/report_format.h"

#include "test.h"

namespace atbus::detail {
namespace {

node_report full_report() {
  node_report all;
  all.id = bus_id{0x2a};
  all.incarnation = 77;
  all.parent = bus_id{5};
  all.pid = 4711;
  all.program = "gamesvr";
  all.version = "0.1.2";
  all.started_at = 1'000;
  all.updated_at = 2'000;
  all.addresses = {"shm://zone", "ipv6://::1:1234"};
  all.message_limit = 65536;
  std::uint64_t number = 100;
  for (const node_counter& one : node_counters())
    one.set(all.stats, ++number);
  all.handling.add(std::chrono::microseconds{3}, 8);
  all.peers_in_all = 2;
  all.peers.resize(2);
  all.peers[0].id = bus_id{1};
  peer_report& second = all.peers[1];
  second.id = bus_id{2};
  second.incarnation = 9;
  second.relation = peer_relation::sibling;
  second.channel = peer_channel::tcp;
  second.away = second.encrypted = second.wanted = true;
  second.address = "ipv4://127.0.0.1:1";
  second.sent = 11;
  second.sent_bytes = 12;
  second.received = 13;
  second.received_bytes = 14;
  second.would_block = 15;
  second.undelivered = 16;
  second.queued_messages = 17;
  second.queued_bytes = 18;
  second.queued_bytes_most = 19;
  second.links = 20;
  second.links_lost = 21;
  second.last_loss = errc::peer_closed;
  second.last_loss_at = 22;
  second.round_trip = std::chrono::nanoseconds{23};
  second.round_trips.add(std::chrono::milliseconds{1}, 24);
  return all;
}

std::vector<std::byte> bytes_of(const node_report& report, std::uint64_t sequence = 1) {
  std::vector<std::byte> out;
  encode(report, sequence, out);
  return out;
}

void change_head(std::vector<std::byte>& copy, std::uint32_t report_head::*field,
                 std::uint32_t value) {
  report_head head;
  std::memcpy(&head, copy.data(), sizeof head);
  head.*field = value;
  std::memcpy(copy.data(), &head, sizeof head);
}

TEST(ReportFormat, IsReadAsItWasWritten) {
  const node_report written = full_report();
  const auto copy = bytes_of(written, 5);
  EXPECT_EQ(sequence_of(copy), 5);
  const auto read = decode_report(copy);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->id, written.id);
  EXPECT_EQ(read->incarnation, written.incarnation);
  EXPECT_EQ(read->parent, written.parent);
  EXPECT_EQ(read->pid, written.pid);
  EXPECT_EQ(read->program, written.program);
  EXPECT_EQ(read->version, written.version);
  EXPECT_EQ(read->addresses, written.addresses);
  EXPECT_EQ(read->handling.counts, written.handling.counts);
  for (const node_counter& one : node_counters())
    EXPECT_EQ(one.in(read->stats), one.in(written.stats)) << one.name;
  EXPECT_EQ(read->peers_in_all, 2);
  // What a report is written from and what is read of one is the same, byte for byte.
  EXPECT_EQ(bytes_of(*read, 5), copy);
  EXPECT_EQ(read->peers.at(1).address, "ipv4://127.0.0.1:1");
  EXPECT_EQ(read->peers.at(1).last_loss, errc::peer_closed);
}

TEST(ReportFormat, HasEachCounterOnce) {
  EXPECT_EQ(node_counters().size() * sizeof(std::uint64_t), sizeof(node_stats))
      << "a counter of node_stats is missing in node_counters()";
}

TEST(ReportFormat, RefusesACopyThatIsNotWhole) {
  const auto whole = bytes_of(full_report());
  for (std::size_t size = 0; size < whole.size(); size += size < 64 ? 1 : 37)
    EXPECT_FALSE(decode_report(bytes_view{whole}.first(size))) << size;
  for (std::size_t at = 0; at < whole.size(); at += at < 64 ? 1 : 13) {
    auto damaged = whole;
    damaged[at] ^= std::byte{1};
    EXPECT_FALSE(decode_report(damaged)) << at;
  }
}

TEST(ReportFormat, RefusesSizesThatCannotBe) {
  const auto whole = bytes_of(full_report());
  for (const auto field : {&report_head::node_size, &report_head::peer_size, &report_head::peers}) {
    for (const std::uint32_t value : {0xffffffffU, 0x80000000U, 100'000U}) {
      auto damaged = whole;
      change_head(damaged, field, value);
      EXPECT_FALSE(decode_report(damaged));
    }
  }
}

TEST(ReportFormat, NamesAnotherVersion) {
  auto other = bytes_of(full_report());
  change_head(other, &report_head::version, 9);
  const auto read = decode_report(other);
  EXPECT_TRUE(read.error() == errc::version_mismatch);
  EXPECT_NE(read.error().text().find("version 9"), std::string::npos) << read.error().text();
}

TEST(ReportFormat, HasNoCharactersThatHarmATerminal) {
  node_report hostile = full_report();
  hostile.program = "\x1b[2Jx";
  hostile.addresses = {"shm://\x07"};
  hostile.peers[0].address = "\x9b\n";
  const auto read = decode_report(bytes_of(hostile));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->program, "?[2Jx");
  EXPECT_EQ(read->addresses.at(0), "shm://?");
  EXPECT_EQ(read->peers.at(0).address, "??");
}

TEST(ReportFormat, CutsWhatIsTooLong) {
  node_report large = full_report();
  large.program = std::string(100, 'p');
  large.peers[0].address = std::string(1000, 'a');
  large.addresses = {std::string(600, 'b'), std::string(600, 'c'), "short"};
  large.peers.resize(report_peers_max + 10);
  large.peers_in_all = large.peers.size();
  const auto read = decode_report(bytes_of(large));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->program, std::string(31, 'p'));
  EXPECT_EQ(read->peers.at(0).address, std::string(127, 'a'));
  EXPECT_EQ(read->addresses, (std::vector<std::string>{std::string(600, 'b'), "short"}));
  EXPECT_EQ(read->peers.size(), report_peers_max);
  EXPECT_EQ(read->peers_in_all, report_peers_max + 10);
}

TEST(TimeHistogram, CountsInClassesOfFactorTwo) {
  time_histogram times;
  EXPECT_EQ(times.quantile(0.5).count(), 0);
  times.add(std::chrono::nanoseconds{-5});
  times.add(std::chrono::nanoseconds{1000}, 98);
  times.add(std::chrono::hours{1});
  EXPECT_EQ(times.total(), 100);
  EXPECT_EQ(times.counts.front(), 1);
  EXPECT_EQ(times.counts.back(), 1);
  EXPECT_EQ(times.quantile(0).count(), 1);
  EXPECT_EQ(times.quantile(0.5).count(), 1024);
  EXPECT_EQ(times.quantile(0.99).count(), 1024);
  EXPECT_EQ(times.quantile(1).count(), std::int64_t{1} << 39);
}

}  // namespace
}  // namespace atbus::detail
