#include "discovery/dns_answer.h"

#include "dns_message.h"
#include "test.h"

namespace atbus::detail {
namespace {

using test::dns_message;

constexpr std::uint16_t type_a = 1;
constexpr std::uint16_t type_ns = 2;
constexpr std::uint16_t type_cname = 5;
constexpr std::uint16_t type_soa = 6;
constexpr std::uint16_t type_txt = 16;
constexpr std::uint16_t type_aaaa = 28;
constexpr std::uint16_t type_srv = 33;
constexpr std::uint16_t type_opt = 41;

std::optional<dns_answer> read(const dns_message& message) {
  return read_dns_answer(as_bytes(message.bytes()));
}

const std::string ip4{"\x0a\0\0\7", 4};
const std::string ip6 = std::string{"\xfd", 1} + std::string(14, '\0') + "\1";

TEST(DnsAnswer, HasTheAddressesOfAHost) {
  const auto read_one = read(dns_message{"relay.test", type_a}
                                 .add(dns_message::answer, "relay.test", type_a, 30, ip4)
                                 .add(dns_message::answer, "relay.test", type_aaaa, 20, ip6));
  ASSERT_TRUE(read_one);
  ASSERT_EQ(read_one->hosts.size(), 2u);
  EXPECT_EQ(read_one->hosts[0].address, "10.0.0.7");
  EXPECT_FALSE(read_one->hosts[0].is_ipv6);
  EXPECT_EQ(read_one->hosts[1].address, "fd00::1");
  EXPECT_TRUE(read_one->hosts[1].is_ipv6);
  EXPECT_EQ(read_one->life, 20s);
}

TEST(DnsAnswer, FollowsAnAlias) {
  const auto read_one = read(
      dns_message{"relay.test", type_a}
          .add(dns_message::answer, "relay.test", type_cname, 3, dns_message::name("east.test"))
          .add(dns_message::answer, "east.test", type_a, 30, ip4));
  ASSERT_TRUE(read_one);
  ASSERT_EQ(read_one->hosts.size(), 1u);
  EXPECT_EQ(read_one->life, 3s);  // the alias has a time too
}

TEST(DnsAnswer, HasTargetsAndTheHostsThatCameAlong) {
  const auto read_one =
      read(dns_message{"_atbus._tcp.test", type_srv}
               .add(dns_message::answer, "_atbus._tcp.test", type_srv, 30,
                    dns_message::target("Relay-1.TEST", 7000))
               .add(dns_message::answer, "_atbus._tcp.test", type_srv, 30,
                    dns_message::target("relay-0.test", 7001))
               .add(dns_message::additional, "relay-1.test", type_a, 9, ip4)
               .add(dns_message::additional, "RELAY-0.test", type_aaaa, 30, ip6)
               .add(dns_message::additional, "ns.test", type_a, 0, ip4)  // the server's own address
               .add(dns_message::additional, "", type_opt, 0, ""));      // EDNS: its 0 is no time
  ASSERT_TRUE(read_one);
  ASSERT_EQ(read_one->targets.size(), 2u);
  EXPECT_EQ(read_one->targets[0].name, "relay-1.test");
  EXPECT_EQ(read_one->targets[0].port, 7000);
  ASSERT_EQ(read_one->more_hosts.size(), 2u);
  EXPECT_EQ(read_one->more_hosts[0].name, "relay-0.test");
  EXPECT_EQ(read_one->more_hosts[1].address, "10.0.0.7");
  EXPECT_TRUE(read_one->hosts.empty());
  EXPECT_EQ(read_one->life, 9s);
}

TEST(DnsAnswer, HasNoTargetWhereTheServiceIsSaidToBeAbsent) {
  const auto read_one = read(dns_message{"_atbus._tcp.test", type_srv}.add(
      dns_message::answer, "_atbus._tcp.test", type_srv, 30, dns_message::target("", 7000)));
  ASSERT_TRUE(read_one);
  EXPECT_TRUE(read_one->targets.empty());
}

TEST(DnsAnswer, HasEachStringOfTexts) {
  const auto read_one = read(dns_message{"relay.test", type_txt}.add(
      dns_message::answer, "relay.test", type_txt, 30,
      dns_message::text("id=0x10") + dns_message::text("") + dns_message::text("service=chat")));
  ASSERT_TRUE(read_one);
  EXPECT_EQ(read_one->texts, (std::vector<std::string>{"id=0x10", "", "service=chat"}));
}

TEST(DnsAnswer, WithoutRecordsLivesAsLongAsItsZoneSays) {
  const auto zone = [](std::uint32_t life, std::uint16_t minimum) {
    return dns_message{"relay.test", type_a}.add(
        dns_message::authority, "test", type_soa, life,
        dns_message::name("ns.test") + dns_message::name("host.test") + std::string(16, '\0') +
            std::string(2, '\0') + dns_message::number(minimum));
  };
  EXPECT_EQ(read(zone(30, 7))->life, 7s);
  EXPECT_EQ(read(zone(6, 700))->life, 6s);
  EXPECT_EQ(read(dns_message{"relay.test", type_a})->life, 5s);
}

// The server's own records follow the answer, and often.
TEST(DnsAnswer, TakesNoTimeFromTheServersOwnRecords) {
  const auto read_one =
      read(dns_message{"relay.test", type_a}
               .add(dns_message::answer, "relay.test", type_a, 30, ip4)
               .add(dns_message::authority, "test", type_ns, 1, dns_message::name("ns.test")));
  ASSERT_TRUE(read_one);
  EXPECT_EQ(read_one->life, 30s);
}

TEST(DnsAnswer, LeavesOutWhatIsMoreThanARecordMayHave) {
  dns_message many{"relay.test", type_a};
  for (int at = 0; at < 20; ++at)
    many.add(dns_message::answer, "relay.test", type_a, 30, ip4);
  EXPECT_EQ(read(many)->hosts.size(), 16u);
  EXPECT_EQ(read(many)->left_out, 4u);
  dns_message strings{"relay.test", type_txt};
  strings.add(dns_message::answer, "relay.test", type_txt, 30, std::string(60'000, '\0'));
  EXPECT_EQ(read(strings)->texts.size(), 256u + 64 + 1);
  EXPECT_EQ(read(strings)->left_out, 60'000u - 321);
}

TEST(DnsAnswer, IsNothingOfBytesThatAreNoMessage) {
  const std::string whole = dns_message{"_atbus._tcp.test", type_srv}
                                .add(dns_message::answer, "_atbus._tcp.test", type_srv, 30,
                                     dns_message::target("relay-1.test", 7000))
                                .add(dns_message::additional, "relay-1.test", type_a, 9, ip4)
                                .bytes();
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(read_dns_answer(as_bytes(std::string_view{whole}.substr(0, length)))) << length;
  EXPECT_TRUE(read_dns_answer(as_bytes(whole)));
  const auto with = [](std::uint16_t type, const std::string& data) {
    return read(dns_message{"x.test", type}.add(dns_message::answer, "x.test", type, 1, data));
  };
  EXPECT_FALSE(with(type_a, ip6));
  EXPECT_FALSE(with(type_aaaa, ip4));
  EXPECT_FALSE(with(type_srv, dns_message::number(0)));
  EXPECT_FALSE(with(type_srv, std::string(6, '\0') + "\x3f"
                                                     "short"));
  EXPECT_FALSE(with(type_txt, "\x20too short"));
}

}  // namespace
}  // namespace atbus::detail
