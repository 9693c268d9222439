#include "atbus/address.hpp"

#include "test.h"

namespace atbus {
namespace {

address parse(std::string_view text) {
  auto parsed = address::parse(text);
  EXPECT_TRUE(parsed) << parsed.error().text();
  return parsed ? *parsed : *address::parse("mem://unparsable");
}

// The text of the error, having checked its code and that it quotes the address.
std::string refusal(errc code, std::string_view text) {
  const auto parsed = address::parse(text);
  EXPECT_FALSE(parsed) << text;
  EXPECT_EQ(parsed.error(), code) << text << " -> " << parsed.error().text();
  EXPECT_TRUE(parsed.error().text().starts_with("address '")) << parsed.error().text();
  return parsed.error().text();
}

void expect_address_refusal(std::string_view text, std::string_view reason) {
  const std::string said = refusal(errc::invalid_address, text);
  EXPECT_NE(said.find(reason), said.npos) << said;
}

void expect_name_refusal(std::string_view text, std::string_view reason) {
  const std::string said = refusal(errc::invalid_name, text);
  EXPECT_NE(said.find(reason), said.npos) << said;
}

TEST(Address, KnowsItsKind) {
  EXPECT_EQ(parse("mem://a").kind(), address_kind::mem);
  EXPECT_EQ(parse("shm://a").kind(), address_kind::shm);
  EXPECT_EQ(parse("unix:///a").kind(), address_kind::unix_socket);
  EXPECT_EQ(parse("ipv4://1.2.3.4:5").kind(), address_kind::ipv4);
  EXPECT_EQ(parse("ipv6://[::1]:5").kind(), address_kind::ipv6);
  EXPECT_EQ(parse("dns://a:5").kind(), address_kind::dns);
}

TEST(Address, IsWrittenInOneWayAndReadBackEqual) {
  struct pair {
    const char* given;
    const char* canonical;
  };
  constexpr std::array pairs{
      pair{"mem://a", "mem://a"},
      pair{"shm://", "shm://"},
      pair{"shm://12345679", "shm://12345679"},
      pair{"shm://0xBC614F", "shm://0xBC614F"},
      pair{"shm://a?lane_size=1024K&lanes=0x40", "shm://a?lanes=64&lane_size=1M"},
      pair{"shm://?durable=0", "shm://?durable=false"},
      pair{"unix:///run/a.sock", "unix:///run/a.sock"},
      pair{"unix://@a b", "unix://@a b"},
      pair{"unix:///a%20?shm=1", "unix:///a%20?shm=true"},
      pair{"ipv4://127.0.0.1:16389", "ipv4://127.0.0.1:16389"},
      pair{"ipv6://::1:16389", "ipv6://[::1]:16389"},
      pair{"ipv6://[0:0::0:1]:0", "ipv6://[::1]:0"},
      pair{"ipv6://[2001:DB8::A]:1", "ipv6://[2001:db8::a]:1"},
      pair{"dns://Example.COM.:80", "dns://example.com.:80"},
  };
  for (const auto& [given, canonical] : pairs) {
    const address first = parse(given);
    EXPECT_EQ(first.to_string(), canonical);
    EXPECT_EQ(parse(canonical), first);
  }
}

TEST(Address, NeedsAKnownKind) {
  expect_address_refusal("", "no '://'");
  expect_address_refusal("a", "no '://'");
  expect_address_refusal("shm:/a", "no '://'");
  expect_address_refusal("://a", "unknown kind ''");
  expect_address_refusal("tcp://a",
                         "unknown kind 'tcp': known are mem, shm, unix, ipv4, ipv6, dns");
  expect_address_refusal("SHM://a", "unknown kind 'SHM'");
  expect_address_refusal(" shm://a", "unknown kind ' shm'");
}

TEST(Address, RefusesControlCharactersByPosition) {
  expect_address_refusal({"unix:///a\0b", 11}, "character 10 is the control character 0x00");
  expect_address_refusal({"ipv4://1.2.3.4\0:5", 17}, "character 15 is the control character 0x00");
  expect_address_refusal("shm://a\n", "character 8 is the control character 0x0a");
  expect_address_refusal("unix:///a\x7f", "character 10 is the control character 0x7f");
}

TEST(Address, RefusesTextsOfExcessiveLength) {
  const std::string text = "shm://" + std::string(address_length_max - 5, 'a');
  expect_address_refusal(text, "it has 513 bytes, the limit is 512");
  expect_name_refusal(text.substr(0, address_length_max), "the limit is 64");
}

TEST(Address, DiffersByEachOfItsParts) {
  EXPECT_NE(parse("mem://a"), parse("shm://a"));
  EXPECT_NE(parse("mem://a"), parse("mem://b"));
  EXPECT_NE(parse("unix:///a"), parse("unix://@/a"));
  EXPECT_NE(parse("dns://a:1"), parse("dns://a:2"));
  EXPECT_NE(parse("shm://a"), parse("shm://a?lanes=64"));
}

TEST(AddressName, MayHoldLettersDigitsUnderscoreDotAndDash) {
  EXPECT_EQ(parse("mem://Az09_.-").name(), "Az09_.-");
  EXPECT_EQ(parse("shm://_").name(), "_");
  EXPECT_EQ(parse("shm://a..b").name(), "a..b");
  EXPECT_EQ(parse("shm://0x12").name(), "0x12");
}

TEST(AddressName, MayBeLeftOutForShmOnly) {
  EXPECT_EQ(parse("shm://").name(), "");
  expect_name_refusal("mem://", "the name is empty");
}

TEST(AddressName, HasAtMost64Characters) {
  const std::string longest(channel_name_length_max, 'n');
  EXPECT_EQ(parse("shm://" + longest).name(), longest);
  expect_name_refusal("shm://" + longest + "n", "has 65 bytes, the limit is 64");
}

TEST(AddressName, NamesTheCharacterThatIsNotAllowed) {
  expect_name_refusal("shm://a/b", "name 'a/b': character 2, '/', is not allowed");
  expect_name_refusal("shm:///a", "character 1, '/'");
  expect_name_refusal("mem://a b", "character 2, ' '");
  expect_name_refusal("shm://a:1", "character 2, ':'");
  expect_name_refusal("shm://\xc3\xa4", "character 1, 0xc3");
  expect_name_refusal("shm://a%2f", "percent-encoding is not used");
}

TEST(AddressName, DoesNotStartWithADotOrADash) {
  expect_name_refusal("shm://..",
                      "character 1, '.', is not allowed (first a letter, a digit or _)");
  expect_name_refusal("shm://.hidden", "character 1, '.'");
  expect_name_refusal("mem://-x", "character 1, '-'");
  expect_name_refusal("shm://../etc", "character 3, '/'");
}

TEST(AddressUnix, IsAPathOrAnAbstractName) {
  EXPECT_EQ(parse("unix:///run/game/zone1.sock").name(), "/run/game/zone1.sock");
  EXPECT_FALSE(parse("unix:///run/a").is_abstract());
  EXPECT_EQ(parse("unix://@zone").name(), "zone");
  EXPECT_TRUE(parse("unix://@zone").is_abstract());
}

TEST(AddressUnix, TakesOtherBytesAsTheyAre) {
  EXPECT_EQ(parse("unix:///a%20\xc3\xa4&=@:").name(), "/a%20\xc3\xa4&=@:");
  EXPECT_EQ(parse("unix://@/a/").name(), "/a/");
}

TEST(AddressUnix, HasAtMost107Bytes) {
  const std::string path = "/" + std::string(unix_name_length_max - 1, 'p');
  EXPECT_EQ(parse("unix://" + path).name().size(), 107U);
  EXPECT_EQ(parse("unix://@" + path).name().size(), 107U);
  expect_name_refusal("unix://" + path + "p", "has 108 bytes, the limit is 107");
  expect_name_refusal("unix://" + path + "pp", "has 109 bytes, the limit is 107");
  expect_name_refusal("unix://@" + path + "p", "has 108 bytes, the limit is 107");
}

TEST(AddressUnix, RefusesWhatCanBeNoSocket) {
  expect_name_refusal("unix://", "starts with neither '/'");
  expect_name_refusal("unix://a/b", "path 'a/b' starts with neither '/'");
  expect_name_refusal("unix://@", "the abstract name after '@' is empty");
  expect_name_refusal("unix:///", "ends with '/'");
  expect_name_refusal("unix:///run/", "path '/run/' ends with '/'");
}

TEST(AddressIp, HasHostAndPort) {
  EXPECT_EQ(parse("ipv4://127.0.0.1:16389").name(), "127.0.0.1");
  EXPECT_EQ(parse("ipv4://127.0.0.1:16389").port(), 16389);
  EXPECT_EQ(parse("ipv6://[::]:7001").name(), "::");
  EXPECT_EQ(parse("ipv6://::1:16389").name(), "::1");
  EXPECT_EQ(parse("ipv6://::1:16389").port(), 16389);
  EXPECT_EQ(parse("ipv6://1:2:3:4:5:6:7:8:9").name(), "1:2:3:4:5:6:7:8");
}

TEST(AddressIp, TakesPortsFrom0To65535) {
  EXPECT_EQ(parse("ipv4://1.2.3.4:0").port(), 0);
  EXPECT_EQ(parse("ipv4://1.2.3.4:65535").port(), 65535);
  expect_address_refusal("ipv4://1.2.3.4:65536", "port: '65536' is larger than 65535");
  expect_address_refusal("ipv4://1.2.3.4:-1", "port: '-1': character 1, '-'");
  expect_address_refusal("ipv4://1.2.3.4:", "port: '' is empty");
  expect_address_refusal("ipv4://1.2.3.4:080", "octal");
  expect_address_refusal("ipv4://1.2.3.4:http", "port: 'http'");
  expect_address_refusal("ipv4://1.2.3.4:80/x", "character 3, '/'");
}

TEST(AddressIp, NeedsAPort) {
  expect_address_refusal("ipv4://1.2.3.4", "no port after '1.2.3.4'");
  expect_address_refusal("ipv6://[::1]", "no port after '[::1]'");
  expect_address_refusal("dns://host", "no port after 'host'");
  expect_address_refusal("ipv4://", "no port");
}

TEST(AddressIp, RefusesWhatIsNoIpv4Address) {
  for (const auto* host : {"", "1.2.3", "1.2.3.256", "1.2.3.4.5", "01.2.3.4", "localhost", "::1",
                           "1.2.3.4 ", "0x7f.0.0.1", "127.1"}) {
    expect_address_refusal("ipv4://" + std::string{host} + ":1", "is no IPv4 address");
  }
}

TEST(AddressIp, RefusesWhatIsNoIpv6Address) {
  for (const auto* host : {"", "[]", "[::1", "::1]", "[[::1]]", "1", "127.0.0.1", "[12345::]",
                           "1::2::3", "localhost"}) {
    expect_address_refusal("ipv6://" + std::string{host} + ":1", "is no IPv6 address");
  }
  expect_address_refusal("ipv6://1:2:3:4:5:6:7:8", "the last colon, 8, was taken as the port");
  expect_address_refusal("ipv6://[fe80::1%eth0]:1", "zones (%interface) are not supported");
}

TEST(AddressDns, HasAHostInLowerCase) {
  EXPECT_EQ(parse("dns://Bus-1.example.ORG:7000").name(), "bus-1.example.org");
  EXPECT_EQ(parse("dns://my_service:7000").port(), 7000);
  EXPECT_EQ(parse("dns://localhost.:1").name(), "localhost.");
}

TEST(AddressDns, TakesLabelsOf63AndHostsOf253Bytes) {
  const std::string label(63, 'l');
  EXPECT_EQ(parse("dns://" + label + ":1").name(), label);
  const std::string host = label + '.' + label + '.' + label + '.' + std::string(61, 'h');
  EXPECT_EQ(parse("dns://" + host + ":1").name().size(), 253U);
  expect_address_refusal("dns://" + host + "h:1", "has 254 bytes, the limit is 253");
  expect_address_refusal("dns://" + label + "l:1", "has 64 bytes, the limit is 63");
}

TEST(AddressDns, NamesTheLabelAtFault) {
  expect_address_refusal("dns://:1", "the host is empty");
  expect_address_refusal("dns://.:1", "the host is empty");
  expect_address_refusal("dns://a..b:1", "empty label");
  expect_address_refusal("dns://a..:1", "empty label");
  expect_address_refusal("dns://.a:1", "empty label");
  expect_address_refusal("dns://a.-b:1", "'-b' starts or ends with '-'");
  expect_address_refusal("dns://a-.b:1", "'a-' starts or ends with '-'");
  expect_address_refusal("dns://a.b/c:1", "'b/c': character 2, '/'");
  expect_address_refusal("dns://[::1]:1", "character 1, '['");
  expect_address_refusal("dns://a%41:1", "percent-encoding is not used");
}

TEST(AddressOptions, AreAbsentUntilGiven) {
  const address a = parse("shm://a");
  EXPECT_EQ(a.option(address_option::lanes), std::nullopt);
  EXPECT_EQ(a.flag(address_option::prefault), std::nullopt);
}

TEST(AddressOptions, GiveCountsSizesAndTruthValues) {
  const address a =
      parse("mem://a?prefault=true&durable=false&lanes=8&lane_size=2M&message_limit=64K");
  EXPECT_EQ(a.option(address_option::lanes), 8U);
  EXPECT_EQ(a.option(address_option::lane_size), 2U << 20U);
  EXPECT_EQ(a.option(address_option::message_limit), 65536U);
  EXPECT_EQ(a.flag(address_option::prefault), true);
  EXPECT_EQ(a.flag(address_option::durable), false);
  EXPECT_EQ(parse("unix:///a?shm=false").flag(address_option::shm), false);
}

TEST(AddressOptions, UnknownForTheKindAreRefusedWithTheKnownOnes) {
  expect_address_refusal("shm://a?size=1",
                         "unknown option 'size': shm:// knows lanes, lane_size, "
                         "message_limit, prefault, durable");
  expect_address_refusal("shm://a?shm=true", "unknown option 'shm'");
  expect_address_refusal("unix:///a?lanes=1", "unknown option 'lanes': unix:// knows shm");
  expect_address_refusal("ipv4://1.2.3.4:5?lanes=1", "ipv4:// knows tls");
  expect_address_refusal("shm://a?", "unknown option ''");
  expect_address_refusal("shm://a?lanes=1&", "unknown option ''");
  expect_address_refusal("shm://a?&lanes=1", "unknown option ''");
  expect_address_refusal("shm://a?LANES=1", "unknown option 'LANES'");
}

TEST(AddressOptions, NameTheValueAtFault) {
  expect_address_refusal("shm://a?lanes", "option 'lanes' has no value");
  expect_address_refusal("shm://a?lanes=", "option 'lanes': '' is empty");
  expect_address_refusal("shm://a?lanes=1K", "option 'lanes': '1K': character 2, 'K'");
  expect_address_refusal("shm://a?lanes=0", "option 'lanes': '0' is too small");
  expect_address_refusal("shm://a?lane_size=1T", "option 'lane_size': '1T' has an unknown unit");
  expect_address_refusal("shm://a?lane_size=17179869184G", "option 'lane_size'");
  expect_address_refusal("shm://a?lane_size=0K", "'0K' is too small");
  expect_address_refusal("shm://a?prefault=maybe", "option 'prefault': 'maybe' is neither");
  expect_address_refusal("shm://a?lanes=1%30", "percent-encoding is not used");
  expect_address_refusal("shm://a?lanes=1?durable=1", "option 'lanes': '1?durable=1'");
}

TEST(AddressOptions, GivenTwiceAreRefused) {
  expect_address_refusal("shm://a?lanes=1&lanes=1", "option 'lanes' is given twice");
}

TEST(Address, CanBeGivenThePortThatWasBound) {
  const address bound = parse("ipv6://[::]:0").with_port(4242);
  EXPECT_EQ(bound, parse("ipv6://[::]:4242"));
}

TEST(Address, CanBeGivenANameAndKeepsItsOptions) {
  const address named = *parse("shm://?lanes=8").with_name("atbus-7");
  EXPECT_EQ(named, parse("shm://atbus-7?lanes=8"));
  EXPECT_EQ(parse("mem://a").with_name("b").value(), parse("mem://b"));
}

TEST(Address, CanNotBeGivenABadName) {
  const address unnamed = parse("shm://");
  EXPECT_EQ(unnamed.with_name("a/b").error(), errc::invalid_name);
  EXPECT_EQ(unnamed.with_name("").error(), errc::invalid_name);
  EXPECT_EQ(unnamed.with_name({"a\0", 2}).error(), errc::invalid_name);
  EXPECT_EQ(parse("dns://a:1").with_name("b").error(), errc::invalid_argument);
}

TEST(AddressKind, HasTheNameOfItsScheme) {
  EXPECT_EQ(name(address_kind::unix_socket), "unix");
  EXPECT_EQ(name(address_kind::ipv6), "ipv6");
  EXPECT_EQ(name(static_cast<address_kind>(99)), "unknown");
}

TEST(Address, NamesASubjectOfANatsServer) {
  const address at = parse("nats://Nats.example:4222/fleet.east-1");
  EXPECT_EQ(at.kind(), address_kind::nats);
  EXPECT_EQ(at.name(), "nats.example");
  EXPECT_EQ(at.port(), 4222);
  EXPECT_EQ(at.subject(), "fleet.east-1");
  EXPECT_EQ(at.to_string(), "nats://nats.example:4222/fleet.east-1");
  EXPECT_EQ(parse("nats://[0::1]:4222/a?tls=true").to_string(), "nats://[::1]:4222/a?tls=true");
  EXPECT_NE(at, parse("nats://nats.example:4222/fleet.east-2"));
  EXPECT_EQ(at, parse(at.to_string()));
}

TEST(Address, RefusesSubjectsThatAreNone) {
  expect_address_refusal("nats://a:1", "no subject: write host:port/subject");
  expect_address_refusal("nats://a/b", "no port after 'a'");
  expect_name_refusal("nats://a:1/", "has an empty token");
  expect_name_refusal("nats://a:1/b..c", "has an empty token");
  expect_name_refusal("nats://a:1/.b", "has an empty token");
  expect_name_refusal("nats://a:1/b.", "has an empty token");
  expect_name_refusal("nats://a:1/b.*", "'*': character 1, '*'");
  expect_name_refusal("nats://a:1/>", "'>': character 1, '>'");
  expect_name_refusal("nats://a:1/$SYS.a", "'$SYS': character 1, '$'");
  expect_name_refusal("nats://a:1/" + std::string(129, 'b'), "has 129 bytes, the limit is 128");
}

TEST(Address, ShowsNoPasswordOfANatsServer) {
  const auto refused = address::parse("nats://user:password@host:4222/fleet");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text().find("password@"), std::string::npos);
  EXPECT_NE(refused.error().text().find("user_file"), std::string::npos);
}

}  // namespace
}  // namespace atbus
