// With a real DNS server.
#include <poll.h>
#include <sys/wait.h>

#include "atbus/address.hpp"
#include "atbus/clock.hpp"
#include "atbus/dns.hpp"
#include "atbus/node.hpp"
#include "child_process.h"
#include "counting_allocator.h"
#include "dns_server.h"
#include "test.h"

namespace atbus::test {
namespace {

using names = std::vector<std::string>;

class DnsDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (server_ == nullptr)
      GTEST_SKIP() << "nsd is not installed";
  }

  [[nodiscard]] dns_options options() const {
    return {.services = {{.name = "_atbus._tcp.relay.test", .first_id = 0x10000}},
            .servers = {server_->server()},
            .timeout = 300ms,
            .at_least = 20ms};
  }
  // `count` relays, each with an address of 10.0.x.y.
  [[nodiscard]] static std::string relays(unsigned count) {
    std::string all;
    for (unsigned at = 0; at < count; ++at) {
      const std::string host = "relay-" + std::to_string(at) + ".relay";
      all += "_atbus._tcp.relay SRV 0 0 7000 " + host + "\n" + host + " A 10.0." +
             std::to_string(at / 200) + "." + std::to_string(at % 200) + "\n";
    }
    return all;
  }
  // Polls it as a node does, only when it is time.
  [[nodiscard]] static bool comes_true(directory& of,
                                       const std::function<bool(const error&)>& done) {
    const auto end = now() + 20s;
    for (error last = of.poll(); !done(last); last = of.poll()) {
      if (now() > end)
        return false;
      pollfd wait{of.descriptor(), POLLIN, 0};
      EXPECT_EQ(::poll(&wait, 1, 5000), 1) << "nothing would have woken a node";
    }
    return true;
  }
  [[nodiscard]] static bool knows(directory& of, std::uint64_t id, const names& addresses) {
    return comes_true(of, [&](const error&) { return of.lookup(bus_id{id}) == addresses; });
  }

  std::unique_ptr<dns_server> server_ =
      dns_server::is_installed() ? std::make_unique<dns_server>() : nullptr;
};

TEST_F(DnsDirectory, KnowsTheRelaysOfAService) {
  server_->set(relays(3));
  const auto relays_of_test = dns_directory::open(options());
  ASSERT_TRUE(relays_of_test) << relays_of_test.error().text();
  EXPECT_TRUE(knows(**relays_of_test, 0x10002, {"ipv4://10.0.0.2:7000"}));
  EXPECT_TRUE((*relays_of_test)->lookup(0x10003).empty());
}

// 300 records are more than a packet holds: the server has to be asked by TCP.
TEST_F(DnsDirectory, TakesAnswersLongerThanAPacket) {
  server_->set(relays(300));
  const auto of_test = dns_directory::open(options());
  ASSERT_TRUE(of_test);
  EXPECT_TRUE(knows(**of_test, 0x10000 + 299, {"ipv4://10.0.1.99:7000"}));
  EXPECT_TRUE(knows(**of_test, 0x10000, {"ipv4://10.0.0.0:7000"}));
}

TEST_F(DnsDirectory, SaysWhatAServerThatDoesNotAnswerLeaves) {
  server_->set(relays(1));
  const auto of_test = dns_directory::open(options());
  ASSERT_TRUE(of_test);
  ASSERT_TRUE(knows(**of_test, 0x10000, {"ipv4://10.0.0.0:7000"}));
  server_->stop();
  std::string said;
  EXPECT_TRUE(comes_true(**of_test, [&](const error& last) {
    said = last ? "" : last.text();
    return !last;
  }));
  EXPECT_EQ(said,
            "DNS: _atbus._tcp.relay.test: the DNS servers do not answer; until then what was known "
            "before "
            "is used");
  EXPECT_EQ((*of_test)->lookup(0x10000), names{"ipv4://10.0.0.0:7000"});
  server_->resume();
  EXPECT_TRUE(comes_true(**of_test, [](const error& last) { return static_cast<bool>(last); }));
}

// An operator's log has one line of a server that is lost, however many names it has.
TEST_F(DnsDirectory, NamesTheSameOneOfSeveralThatFail) {
  server_->set("a.relay 1 A 10.0.0.1\nb.relay 0 A 10.0.0.2\n");
  dns_options two = options();
  two.services.clear();
  two.hosts = {{.id = 1, .name = "a.relay.test", .port = 7000},
               {.id = 2, .name = "b.relay.test", .port = 7000}};
  const auto of_test = dns_directory::open(two);
  ASSERT_TRUE(of_test);
  ASSERT_TRUE(knows(**of_test, 1, {"ipv4://10.0.0.1:7000"}));
  ASSERT_TRUE(knows(**of_test, 2, {"ipv4://10.0.0.2:7000"}));
  server_->kill();  // one is asked again at once, the other when its second is over
  std::string said;
  const auto end = now() + 2s;
  EXPECT_TRUE(comes_true(**of_test, [&](const error& last) {
    if (!last && said.empty())
      said = last.text();
    EXPECT_TRUE(last || last.text() == said) << last.text();
    return now() > end;
  }));
  EXPECT_FALSE(said.empty());
}

TEST_F(DnsDirectory, DropsWhatTheServerSaysIsAbsent) {
  server_->set(relays(1));
  const auto of_test = dns_directory::open(options());
  ASSERT_TRUE(of_test);
  ASSERT_TRUE(knows(**of_test, 0x10000, {"ipv4://10.0.0.0:7000"}));
  server_->set("");
  EXPECT_TRUE(knows(**of_test, 0x10000, {}));
  EXPECT_TRUE((*of_test)->poll());  // that is an answer
}

TEST_F(DnsDirectory, CountsTargetsThatCanBeNoNodes) {
  server_->set("_atbus._tcp.relay SRV 0 0 7000 east\neast A 10.0.0.1\n" + relays(1));
  const auto of_test = dns_directory::open(options());
  ASSERT_TRUE(of_test);
  std::string said;
  EXPECT_TRUE(comes_true(**of_test, [&](const error& last) {
    said = last ? "" : last.text();
    return !last;
  }));
  EXPECT_EQ(said,
            "DNS: 1 records, such as of east.test, are left out: their names end in no number, or "
            "no id is "
            "given for that");
  EXPECT_TRUE(knows(**of_test, 0x10000, {"ipv4://10.0.0.0:7000"}));
  const dns_stats stats = (*of_test)->stats();
  EXPECT_EQ(stats.left_out, 1u);
  EXPECT_EQ(stats.records, 1u);
  EXPECT_EQ(stats.failures, 0u);
  EXPECT_GE(stats.answers, 1u);
  EXPECT_GE(stats.questions, stats.answers);
}

// Servers that have forgotten the addresses send the targets alone.
TEST_F(DnsDirectory, KeepsAddressesThatDoNotComeAlongAnyMore) {
  server_->set(relays(1));
  const auto of_test = dns_directory::open(options());
  ASSERT_TRUE(of_test);
  ASSERT_TRUE(knows(**of_test, 0x10000, {"ipv4://10.0.0.0:7000"}));
  server_->kill();
  server_->start("minimal-responses: yes");
  const std::uint64_t before = (*of_test)->stats().answers;
  EXPECT_TRUE(comes_true(**of_test, [&](const error&) {
    EXPECT_EQ((*of_test)->lookup(0x10000), names{"ipv4://10.0.0.0:7000"});
    return (*of_test)->stats().answers >= before + 6;  // SRV, A and AAAA, twice
  }));
}

TEST_F(DnsDirectory, GoesOnAfterAnyAllocationThatFailed) {
  if (!can_fail_allocations())
    GTEST_SKIP() << "allocations can't be made to fail here";
  server_->set(relays(1) + "relay-1.relay A 10.0.0.9\n");
  dns_options both = options();
  both.timeout = 50ms;
  both.hosts = {{.id = 7, .name = "relay-1.relay.test", .port = 7000}};
  bool happened = true;
  for (std::uint64_t good = 0; happened; good += 3) {
    const auto of_test = dns_directory::open(both);
    ASSERT_TRUE(of_test);
    {
      const allocation_failure none{good, 1};
      for (int turn = 0; turn < 8; ++turn) {
        (void)(*of_test)->poll();
        pollfd wait{(*of_test)->descriptor(), POLLIN, 0};
        (void)::poll(&wait, 1, 20);
      }
      happened = allocation_failure::happened();
    }
    ASSERT_TRUE(knows(**of_test, 0x10000, {"ipv4://10.0.0.0:7000"})) << good;
    ASSERT_TRUE(knows(**of_test, 7, {"ipv4://10.0.0.9:7000"})) << good;
    ASSERT_TRUE(comes_true(**of_test, [](const error& last) { return static_cast<bool>(last); }))
        << good;
  }
}

// Between two looks at an unchanged name, nothing wakes a node.
TEST_F(DnsDirectory, SleepsUntilARecordsTimeIsOver) {
  server_->set("$TTL 3600\n" + relays(1));
  dns_options hourly = options();
  hourly.at_most = 1h;
  const auto of_test = dns_directory::open(hourly);
  ASSERT_TRUE(of_test);
  ASSERT_TRUE(knows(**of_test, 0x10000, {"ipv4://10.0.0.0:7000"}));
  EXPECT_TRUE((*of_test)->poll());
  pollfd wait{(*of_test)->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 300), 0);
}

// The parent's question is under way while the child gives its copy up.
TEST_F(DnsDirectory, LeavesItsQuestionsToTheParentInAForkedChild) {
  server_->set(relays(1));
  dns_options patient = options();
  patient.timeout = 20s;
  auto of_test = dns_directory::open(patient);
  ASSERT_TRUE(of_test);
  server_->stop();
  EXPECT_TRUE((*of_test)->poll());
  child_process child{[&] {
    (void)(*of_test)->poll();
    (*of_test).reset();
    return 0;
  }};
  EXPECT_EQ(child.wait_end(), "exit 0");
  server_->resume();
  EXPECT_TRUE(knows(**of_test, 0x10000, {"ipv4://10.0.0.0:7000"}));
}

TEST_F(DnsDirectory, LetsNodesFindEachOther) {
  node listening{0x10000, node_options{}.token("a secret of sixteen bytes")};
  const error listens = listening.listen("ipv4://127.0.0.1:0");
  ASSERT_TRUE(listens) << listens.text();
  const auto at = address::parse(listening.addresses().front());
  ASSERT_TRUE(at);
  server_->set("_atbus._tcp.relay SRV 0 0 " + std::to_string(at->port()) +
               " relay-0.relay\nrelay-0.relay A 127.0.0.1\n");
  auto of_test = dns_directory::open(options());
  ASSERT_TRUE(of_test);
  node sending{7, node_options{}.token("a secret of sixteen bytes").directory(*of_test)};
  int heard = 0;
  listening.on_message([&](const message& one) { heard += one.text() == "hello" ? 1 : 0; });
  bool sent = false;
  for (const auto end = now() + 20s; heard == 0 && now() < end;) {
    sent = sent || sending.send(0x10000, 1, as_bytes("hello"));
    sending.poll();
    listening.poll();
  }
  EXPECT_EQ(heard, 1);
}

TEST(DnsOptions, AreCheckedAtTheDoor) {
  const auto says = [](dns_options wrong) {
    const auto made = dns_directory::open(wrong);
    return made ? std::string{"made"} : std::string{made.error().text()};
  };
  const dns_options good{.hosts = {{.id = 7, .name = "relay.test", .port = 7000}},
                         .servers = {"127.0.0.1:53"}};
  EXPECT_EQ(says(good), "made");
  EXPECT_EQ(says({}), "dns_options::hosts and services are empty: there is nothing to ask");
  for (const char* const name : {"", ".", "a..b", ".a", "a b", "a\n"}) {
    dns_options wrong = good;
    wrong.hosts[0].name = name;
    EXPECT_NE(says(wrong).find("the name of a host"), std::string::npos) << name;
  }
  dns_options wrong = good;
  wrong.hosts[0].port = 0;
  EXPECT_NE(says(wrong), "made");
  wrong = good;
  wrong.hosts[0].id = 0;
  EXPECT_NE(says(wrong), "made");
  wrong = good;
  wrong.services = {{.name = "_atbus._tcp.test"}};
  EXPECT_NE(says(wrong).find("first_id or texts"), std::string::npos);
  wrong = good;
  wrong.servers = {"no address"};
  EXPECT_NE(says(wrong).find("servers"), std::string::npos);
  wrong = good;
  wrong.timeout = 0ms;
  EXPECT_NE(says(wrong).find("timeout"), std::string::npos);
  wrong = good;
  wrong.at_least = 2s;
  wrong.at_most = 1s;
  EXPECT_NE(says(wrong).find("at_most"), std::string::npos);
}

}  // namespace
}  // namespace atbus::test
