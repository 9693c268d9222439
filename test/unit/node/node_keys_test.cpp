// Tokens and certificates of nodes that run, and what becomes of links when they change.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "named_inbox.h"
#include "scratch_directory.h"
#include "test.h"
#include "unit/tls/test_certificate.h"

namespace atbus {
namespace {

using test::certificate_wish;
using test::test_certificate;

const std::string first_token = "the first token of these two nodes";
const std::string second_token = "the token that comes after the first";

class NodeKeys : public ::testing::Test {
 protected:
  struct side {
    side(bus_id id, const node_options& options) : self{id, options} {
      self.on_log([this](std::string_view line) { log.append(line).append("\n"); });
      self.on_message([this](const message& m) { received.emplace_back(as_text(m.bytes())); });
      self.on_endpoint([this](const endpoint&, endpoint_event what) { events.push_back(what); });
    }
    [[nodiscard]] bool is_connected() const {
      const auto all = self.endpoints();
      return !all.empty() && all[0].connected();
    }
    [[nodiscard]] bool was_told(endpoint_event what) const {
      return std::ranges::find(events, what) != events.end();
    }
    std::string log;
    std::vector<std::string> received;
    std::vector<endpoint_event> events;
    node self;
  };
  static node_options quick() { return node_options{}.retry(5ms, 20ms); }
  static node_options with(const std::string& token) { return quick().token(token); }

  static bool comes_true(std::initializer_list<side*> ends, const std::function<bool()>& done,
                         std::chrono::nanoseconds longest = 10s) {
    for (const auto limit = now() + longest; now() < limit;) {
      for (side* one : ends)
        one->self.poll();
      if (done())
        return true;
    }
    return false;
  }
  static void connect(side& one, side& two, const std::string& where) {
    ASSERT_TRUE(two.self.listen(where));
    ASSERT_TRUE(one.self.connect(two.self.id(), two.self.addresses().at(0)));
    ASSERT_TRUE(comes_true({&one, &two}, [&] { return one.is_connected() && two.is_connected(); }))
        << one.log << two.log;
  }
};

TEST_F(NodeKeys, RotateTokensWithoutALinkThatEnds) {
  for (const bool over_tcp : {true, false}) {
    const test::named_inbox inbox{"keys"};
    side one{1, with(first_token)};
    side two{2, with(first_token)};
    connect(one, two, over_tcp ? "ipv6://[::1]:0" : inbox.address());
    for (const std::vector<std::string>& step :
         {std::vector{first_token, second_token}, std::vector{second_token, first_token}}) {
      EXPECT_TRUE(one.self.set_tokens(step));
      EXPECT_TRUE(two.self.set_tokens(step));
    }
    ASSERT_TRUE(one.self.send(2, 0, "before"));
    ASSERT_TRUE(comes_true({&one, &two}, [&] { return two.received.size() == 1; }));
    EXPECT_FALSE(one.was_told(endpoint_event::disconnected));
    // This link has proven the first token: it registers anew by the second one.
    EXPECT_TRUE(one.self.set_tokens({second_token}));
    EXPECT_TRUE(two.self.set_tokens({second_token}));
    ASSERT_TRUE(one.self.send(2, 0, "after"));
    ASSERT_TRUE(comes_true({&one, &two}, [&] { return two.received.size() == 2; }))
        << one.log << two.log;
    side late{3, with(first_token)};
    ASSERT_TRUE(late.self.connect(2, two.self.addresses().at(0)));
    EXPECT_FALSE(comes_true(
        {&late, &two}, [&] { return late.is_connected(); }, 200ms));
  }
}

TEST_F(NodeKeys, EndLinksOfATokenThatIsTakenAway) {
  for (const bool over_tcp : {true, false}) {
    const test::named_inbox inbox{"keys"};
    side one{1, with(first_token)};
    side two{2, with(second_token).token(first_token)};
    connect(one, two, over_tcp ? "ipv6://[::1]:0" : inbox.address());
    EXPECT_TRUE(two.self.set_tokens({second_token}));
    EXPECT_TRUE(comes_true({&one, &two}, [&] { return !one.is_connected(); }));
    EXPECT_FALSE(comes_true(
        {&one, &two}, [&] { return one.is_connected(); }, 200ms));
    EXPECT_TRUE(one.self.set_tokens({second_token}));
    EXPECT_TRUE(comes_true({&one, &two}, [&] { return one.is_connected(); }));
  }
}

TEST_F(NodeKeys, MayChangeAtEachStepOfARegistration) {
  for (int polls = 0; polls != 12; ++polls) {
    SCOPED_TRACE(polls);
    side one{1, with(first_token)};
    side two{2, with(first_token)};
    ASSERT_TRUE(two.self.listen("ipv6://[::1]:0"));
    ASSERT_TRUE(one.self.connect(2, two.self.addresses().at(0)));
    for (int i = 0; i != polls; ++i) {
      one.self.poll();
      two.self.poll();
    }
    EXPECT_TRUE(two.self.set_tokens({second_token}));
    EXPECT_FALSE(comes_true(
        {&one, &two}, [&] { return one.is_connected() && two.is_connected(); }, 50ms));
    EXPECT_TRUE(one.self.set_tokens({second_token}));
    EXPECT_TRUE(comes_true({&one, &two}, [&] { return one.is_connected() && two.is_connected(); }))
        << one.log << two.log;
  }
}

TEST_F(NodeKeys, KeepTheirTokensIfTheNewOnesAreWrong) {
  side one{1, with(first_token)};
  side two{2, with(first_token)};
  connect(one, two, "ipv6://[::1]:0");
  EXPECT_EQ(two.self.set_tokens({}), errc::invalid_argument);
  EXPECT_EQ(two.self.set_tokens({second_token, "short"}), errc::invalid_argument);
  EXPECT_FALSE(comes_true(
      {&one, &two}, [&] { return !one.is_connected(); }, 50ms));
  side without{3, quick()};
  EXPECT_EQ(without.self.set_tokens({first_token}), errc::invalid_argument);
  without.self.close();
  EXPECT_EQ(without.self.set_tokens({first_token}), errc::closed);
}

class NodeCertificates : public NodeKeys {
 protected:
  static test_certificate authority_named(const std::string& name) {
    return test_certificate{{.common_name = name, .alternative_names = {}, .is_authority = true}};
  }
  // The files of a node, with the CAs that it trusts.
  tls_files files(const std::string& name, const std::string& names,
                  const test_certificate& signed_by, const test_certificate& trusted,
                  long ends_s = 3600) {
    const test_certificate made{{.common_name = name, .alternative_names = names, .ends_s = ends_s},
                                &signed_by};
    const std::string base = scratch.path() + "/" + name;
    made.write(base + ".pem");
    made.write_key(base + ".key");
    trusted.write(base + ".ca");
    return {.chain = base + ".pem", .key = base + ".key", .authority = base + ".ca"};
  }

  test::scratch_directory scratch;
  test_certificate ca = authority_named("ours");
  test_certificate other_ca = authority_named("another");
};

constexpr const char* names_of_one = "IP:::1,DNS:zone-1.example";
constexpr const char* names_of_two = "IP:::1,DNS:zone-2.example";

TEST_F(NodeCertificates, AreEnoughForALink) {
  side one{1, quick().certificates(files("one", names_of_one, ca, ca))};
  side two{2, quick().certificates(files("two", names_of_two, ca, ca))};
  connect(one, two, "ipv6://[::1]:0");
  ASSERT_TRUE(one.self.send(2, 0, "text"));
  EXPECT_TRUE(comes_true({&one, &two}, [&] { return two.received.size() == 1; }));
  const auto until = one.self.certificate_expires();
  ASSERT_TRUE(until);
  EXPECT_NEAR(std::chrono::duration<double>(*until - std::chrono::system_clock::now()).count(),
              3600, 60);
  EXPECT_NE(one.log.find("expires at"), std::string::npos);
  EXPECT_FALSE(node{3}.certificate_expires());
}

TEST_F(NodeCertificates, OfAnotherAuthorityOrAnotherHostAreRefused) {
  side two{2, quick().certificates(files("two", names_of_two, ca, ca))};
  ASSERT_TRUE(two.self.listen("ipv6://[::1]:0"));
  side foreign{1, quick().certificates(files("foreign", names_of_one, other_ca, ca))};
  side moved{3, quick().certificates(files("moved", "IP:::2", ca, ca))};
  ASSERT_TRUE(foreign.self.connect(2, two.self.addresses().at(0)));
  EXPECT_FALSE(comes_true(
      {&foreign, &two}, [&] { return foreign.is_connected(); }, 200ms));
  EXPECT_GT(two.self.stats().registrations_failed, 0U);
  // Who dials checks the host; who accepts does not know one.
  ASSERT_TRUE(moved.self.listen("ipv6://[::1]:0"));
  ASSERT_TRUE(two.self.connect(3, moved.self.addresses().at(0)));
  EXPECT_FALSE(comes_true(
      {&moved, &two}, [&] { return moved.is_connected(); }, 200ms));
  EXPECT_NE(two.log.find("certificate"), std::string::npos) << two.log;
}

TEST_F(NodeCertificates, AndTokensHaveToBeProvenBoth) {
  side two{2, with(first_token).certificates(files("two", names_of_two, ca, ca))};
  ASSERT_TRUE(two.self.listen("ipv6://[::1]:0"));
  side wrong{1, with(second_token).certificates(files("one", names_of_one, ca, ca))};
  ASSERT_TRUE(wrong.self.connect(2, two.self.addresses().at(0)));
  EXPECT_FALSE(comes_true(
      {&wrong, &two}, [&] { return wrong.is_connected(); }, 200ms));
  side only_token{3, with(first_token)};
  ASSERT_TRUE(only_token.self.connect(2, two.self.addresses().at(0)));
  EXPECT_FALSE(comes_true(
      {&only_token, &two}, [&] { return only_token.is_connected(); }, 200ms));
  side both{4, with(first_token).certificates(files("four", names_of_one, ca, ca))};
  ASSERT_TRUE(both.self.connect(2, two.self.addresses().at(0)));
  EXPECT_TRUE(comes_true({&both, &two}, [&] { return both.is_connected(); })) << both.log;
}

TEST_F(NodeCertificates, AreMappedToIdsByTheirNames) {
  const std::string rules = scratch.path() + "/access.toml";
  std::ofstream{rules} << "send = \"any\"\n"
                          "[[register]]\nids = [1]\nfrom = \"any\"\n"
                          "certificate = [\"DNS:zone-1.example\"]\n"
                          "[[register]]\nids = [4, 5]\nfrom = [\"::1\"]\n"
                          "certificate = [\"DNS:*-4.example\", \"URI:spiffe://*/four\"]\n";
  side two{2, quick().certificates(files("two", names_of_two, ca, ca)).access(rules)};
  ASSERT_TRUE(two.self.listen("ipv6://[::1]:0"));
  const auto registers = [&](std::uint64_t id, const std::string& names) {
    side one{id, quick().certificates(files("one", names, ca, ca))};
    EXPECT_TRUE(one.self.connect(2, two.self.addresses().at(0)));
    EXPECT_TRUE(comes_true(
        {&one, &two}, [&] { return one.is_connected() || one.was_told(endpoint_event::refused); }));
    return one.is_connected();
  };
  EXPECT_TRUE(registers(1, names_of_one));
  EXPECT_FALSE(registers(1, names_of_two));
  EXPECT_FALSE(registers(4, names_of_one));
  EXPECT_TRUE(registers(4, "DNS:zone-4.example"));
  EXPECT_TRUE(registers(5, "URI:spiffe://example/four"));
  EXPECT_FALSE(registers(5, "URI:spiffe://example/five"));
  EXPECT_FALSE(registers(5, "DNS:zone-4.example.org"));
}

TEST_F(NodeCertificates, AreReadAgainWhenTheFilesChange) {
  side one{1, quick().certificates(files("one", names_of_one, ca, ca))};
  side two{2, quick().certificates(files("two", names_of_two, ca, ca))};
  connect(one, two, "ipv6://[::1]:0");
  (void)files("two", names_of_two, ca, ca, 100'000);
  ASSERT_TRUE(comes_true({&one, &two}, [&] {
    return *two.self.certificate_expires() - std::chrono::system_clock::now() > 90'000s;
  }));
  EXPECT_TRUE(one.is_connected());
  // What is wrong is not taken.
  std::ofstream{scratch.path() + "/two.key"} << "nothing\n";
  EXPECT_TRUE(comes_true({&one, &two},
                         [&] { return two.log.find("until it is mended") != std::string::npos; }));
  EXPECT_TRUE(one.is_connected());
  EXPECT_TRUE(two.self.certificate_expires());
}

TEST_F(NodeCertificates, OfAnAuthorityThatIsTakenAwayEndLinks) {
  side one{1, quick().certificates(files("one", names_of_one, ca, ca))};
  side two{2, quick().certificates(files("two", names_of_two, ca, ca))};
  connect(one, two, "ipv6://[::1]:0");
  other_ca.write(scratch.path() + "/two.ca");
  EXPECT_TRUE(comes_true({&one, &two}, [&] { return !one.is_connected(); }));
  EXPECT_FALSE(comes_true(
      {&one, &two}, [&] { return one.is_connected(); }, 200ms));
}

TEST_F(NodeCertificates, NeedAllFiles) {
  tls_files incomplete = files("one", names_of_one, ca, ca);
  incomplete.key.clear();
  node broken{1, node_options{}.certificates(incomplete)};
  EXPECT_EQ(broken.fault(), errc::invalid_argument);
  tls_files missing = files("one", names_of_one, ca, ca);
  missing.chain += ".not";
  node without{1, node_options{}.certificates(missing)};
  EXPECT_EQ(without.fault(), errc::not_found);
  const error refused = without.listen("ipv6://[::1]:0");
  EXPECT_EQ(refused, errc::not_found);
  EXPECT_NE(refused.text().find(missing.chain), std::string::npos) << refused.text();
}

}  // namespace
}  // namespace atbus
