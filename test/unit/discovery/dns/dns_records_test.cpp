#include "discovery/dns_records.h"

#include "test.h"

namespace atbus::detail {
namespace {

using names = std::vector<std::string>;

class DnsRecords : public ::testing::Test {
 protected:
  void answer(const std::string& name, dns_type type, dns_answer with,
              std::chrono::nanoseconds at = 7s) {
    known_[{name, type}] = {.answer = std::move(with), .answered = at};
  }
  [[nodiscard]] static dns_answer of_host(const std::string& name, const std::string& address) {
    return {.hosts = {{name, address, address.find(':') != std::string::npos}}};
  }
  [[nodiscard]] dns_records make(const dns_options& options) const {
    return make_dns_records(options, known_);
  }
  [[nodiscard]] static dns_options service(std::optional<bus_id> first, bool with_texts = false) {
    return {.services = {{.name = "_atbus._tcp.test",
                          .first_id = first,
                          .texts = with_texts,
                          .services = {"chat"}}}};
  }

  dns_topics known_;
};

using questions = std::vector<dns_question>;

TEST_F(DnsRecords, HaveAllAddressesOfAHostInOneOrder) {
  const dns_options options{
      .hosts = {{.id = 7, .name = "relay.test", .port = 7000, .services = {"chat"}}}};
  EXPECT_EQ(make(options).questions,
            (questions{{"relay.test", dns_type::a}, {"relay.test", dns_type::aaaa}}));
  EXPECT_TRUE(make(options).nodes.empty());
  answer("relay.test", dns_type::a, {.hosts = {{"", "10.0.0.2", false}, {"", "10.0.0.1", false}}},
         3s);
  answer("relay.test", dns_type::aaaa, of_host("relay.test", "fd00::1"), 2s);
  const dns_records made = make(options);
  ASSERT_TRUE(made.nodes.contains(7));
  const directory_record& one = made.nodes.at(7);
  EXPECT_EQ(one.id, bus_id{7});
  EXPECT_EQ(one.addresses,
            (names{"ipv4://10.0.0.1:7000", "ipv4://10.0.0.2:7000", "ipv6://[fd00::1]:7000"}));
  EXPECT_EQ(one.services, names{"chat"});
  EXPECT_EQ(made.confirmed.at(7), 2s);
}

TEST_F(DnsRecords, HaveNoNodeWithoutAnAddress) {
  answer("relay.test", dns_type::a, {});
  EXPECT_TRUE(make({.hosts = {{.id = 7, .name = "relay.test", .port = 7000}}}).nodes.empty());
}

TEST_F(DnsRecords, TakeTheIdOfATargetFromTheNumberInItsName) {
  answer(
      "_atbus._tcp.test", dns_type::srv,
      {.targets = {{"relay-2.test", 7000}, {"relay-10.test", 7001}},
       .more_hosts = {{"relay-10.test", "10.0.0.10", false}, {"relay-2.test", "10.0.0.2", false}}});
  const dns_records made = make(service(0x10000));
  ASSERT_EQ(made.nodes.size(), 2u);
  EXPECT_EQ(made.nodes.at(0x10002).addresses, names{"ipv4://10.0.0.2:7000"});
  EXPECT_EQ(made.nodes.at(0x1000a).addresses, names{"ipv4://10.0.0.10:7001"});
  EXPECT_EQ(made.nodes.at(0x1000a).services, names{"chat"});
  EXPECT_EQ(made.questions, (questions{{"_atbus._tcp.test", dns_type::srv}}));  // one does for all
}

TEST_F(DnsRecords, AskForTheAddressesThatDidNotComeAlong) {
  answer("_atbus._tcp.test", dns_type::srv, {.targets = {{"relay-2.test", 7000}}}, 5s);
  dns_records made = make(service(0x10000));
  EXPECT_TRUE(made.nodes.empty());
  EXPECT_EQ(made.questions, (questions{{"_atbus._tcp.test", dns_type::srv},
                                       {"relay-2.test", dns_type::a},
                                       {"relay-2.test", dns_type::aaaa}}));
  answer("relay-2.test", dns_type::a, of_host("relay-2.test", "10.0.0.2"), 4s);
  made = make(service(0x10000));
  EXPECT_EQ(made.nodes.at(0x10002).addresses, names{"ipv4://10.0.0.2:7000"});
  EXPECT_EQ(made.confirmed.at(0x10002), 4s);
}

TEST_F(DnsRecords, TakeIdServicesAndLabelsFromTexts) {
  answer("_atbus._tcp.test", dns_type::srv,
         {.targets = {{"east.test", 7000}}, .more_hosts = {{"east.test", "10.0.0.2", false}}});
  EXPECT_TRUE(make(service(std::nullopt, true)).nodes.empty());  // it has no id yet
  answer("east.test", dns_type::txt,
         {.texts = {"id=1.2.3.4", "service=match", "service=chat", "rack=7", "=", "odd", ""}});
  const dns_records made = make(service(std::nullopt, true));
  ASSERT_EQ(made.nodes.size(), 1u);
  const directory_record& one = made.nodes.begin()->second;
  EXPECT_EQ(one.id, *bus_id::parse("1.2.3.4"));
  EXPECT_EQ(one.services, (names{"chat", "match"}));
  EXPECT_EQ(one.labels, (std::map<std::string, std::string>{{"rack", "7"}}));
}

TEST_F(DnsRecords, LeaveOutAndCountTargetsWithoutAnId) {
  answer("_atbus._tcp.test", dns_type::srv,
         {.targets = {{"east.test", 7000},
                      {"relay-99999999999999999999.test", 7000},
                      {"relay-3.test", 7000}},
          .more_hosts = {{"relay-3.test", "10.0.0.3", false}}});
  const dns_records made = make(service(0x10000));
  EXPECT_EQ(made.left_out, 2u);
  EXPECT_EQ(made.example, "east.test");
  EXPECT_EQ(made.nodes.size(), 1u);
  EXPECT_EQ(make(service(~std::uint64_t{0} - 2)).left_out, 3u);  // 3 is beyond the last id
  EXPECT_EQ(make(service(std::nullopt)).left_out, 3u);
}

TEST_F(DnsRecords, LeaveOutAndCountTargetsBeyondTheMost) {
  dns_answer many;
  for (std::size_t at = 0; at < dns_targets_max + 5; ++at)
    many.targets.push_back({"relay-" + std::to_string(at) + ".test", 7000});
  answer("_atbus._tcp.test", dns_type::srv, std::move(many));
  const dns_records made = make(service(1));
  EXPECT_EQ(made.left_out, 5u);
  EXPECT_EQ(made.questions.size(), 1 + 2 * dns_targets_max);
}

TEST_F(DnsRecords, LeaveOutAndCountWhatIsMoreThanARecordMayHave) {
  dns_answer targets{.targets = {{"relay-3.test", 7000}}};
  for (int at = 0; at < 20; ++at)
    targets.more_hosts.push_back({"relay-3.test", "10.0.0." + std::to_string(at), false});
  answer("_atbus._tcp.test", dns_type::srv, std::move(targets));
  dns_answer strings{.texts = {"service=", "service=a\nb", "service=" + std::string(129, 'x')},
                     .left_out = 2};
  for (int at = 0; at < 300; ++at)
    strings.texts.push_back("service=s" + std::to_string(at));
  for (int at = 0; at < 70; ++at)
    strings.texts.push_back("label" + std::to_string(at) + "=text");
  answer("relay-3.test", dns_type::txt, std::move(strings));
  const dns_records made = make(service(0x10000, true));
  ASSERT_TRUE(made.nodes.contains(0x10003));
  EXPECT_EQ(made.nodes.at(0x10003).addresses.size(), 16u);
  EXPECT_EQ(made.nodes.at(0x10003).services.size(), 256u);
  EXPECT_EQ(made.nodes.at(0x10003).labels.size(), 64u);
  EXPECT_EQ(made.left_out, 4u + 3 + 2 + (301 - 256) + 6);  // 301: "chat" comes first
}

TEST_F(DnsRecords, NumberAHostByTheEndOfItsFirstLabel) {
  EXPECT_EQ(number_of_host("relay-7.fleet9.test"), 7u);
  EXPECT_EQ(number_of_host("relay07"), 7u);
  EXPECT_EQ(number_of_host("42.test"), 42u);
  EXPECT_EQ(number_of_host("relay.7"), std::nullopt);
  EXPECT_EQ(number_of_host(""), std::nullopt);
  EXPECT_EQ(number_of_host("relay-18446744073709551615"), ~std::uint64_t{0});
  EXPECT_EQ(number_of_host("relay-18446744073709551616"), std::nullopt);
}

}  // namespace
}  // namespace atbus::detail
