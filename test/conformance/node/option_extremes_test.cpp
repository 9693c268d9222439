// Each option at the least and the most that it may be: two nodes still speak to each other.
#include <limits>

#include "node_fixture.h"

namespace atbus::test {
namespace {

struct extreme {
  const char* name;
  void (*set)(node_options&);
};

constexpr std::size_t most_bytes = std::numeric_limits<std::size_t>::max();
constexpr unsigned most_pings = std::numeric_limits<unsigned>::max();
constexpr std::chrono::nanoseconds for_ever = std::chrono::nanoseconds::max();

const std::vector<extreme> extremes{
    {"message_limit 1", [](node_options& of) { of.message_limit(1); }},
    {"the largest message_limit",
     [](node_options& of) { of.message_limit(node_options::message_limit_max); }},
    {"send_buffer_size 0", [](node_options& of) { of.send_buffer_size(0); }},
    {"send_buffer_size 1", [](node_options& of) { of.send_buffer_size(1); }},
    {"the largest send_buffer_size", [](node_options& of) { of.send_buffer_size(most_bytes); }},
    {"send_buffer_number 1", [](node_options& of) { of.send_buffer_number(1); }},
    {"sessions 0", [](node_options& of) { of.sessions(0); }},
    {"sessions 1", [](node_options& of) { of.sessions(1); }},
    {"the most sessions", [](node_options& of) { of.sessions(most_bytes); }},
    {"clients 0", [](node_options& of) { of.clients(0); }},
    {"the most clients", [](node_options& of) { of.clients(most_bytes); }},
    {"fault_tolerance 1", [](node_options& of) { of.fault_tolerance(1); }},
    {"the largest fault_tolerance", [](node_options& of) { of.fault_tolerance(most_pings); }},
    {"ping_interval for ever", [](node_options& of) { of.ping_interval(for_ever); }},
    {"first_idle_timeout for ever", [](node_options& of) { of.first_idle_timeout(for_ever); }},
    {"retry for ever", [](node_options& of) { of.retry(for_ever, for_ever); }},
    {"message_deadline for ever", [](node_options& of) { of.message_deadline(for_ever); }},
    {"the longest write_delay",
     [](node_options& of) { of.write_delay(node_options::write_delay_max); }},
    {"drain 0", [](node_options& of) { of.drain(std::chrono::nanoseconds{0}); }},
    {"drain for ever", [](node_options& of) { of.drain(for_ever); }},
};

class NodeOptionExtremes : public NodeFixture {
 protected:
  void expect_messages(const node_options& with) {
    connect_both(with, with);
    if (HasFatalFailure())
      return;
    const std::string longest(std::min(with.message_limit(), std::size_t{1} << 20), 'x');
    const std::vector<std::string> wanted{"1", "", longest, "2", longest, "3"};
    std::size_t sent = 0;
    const auto send_more = [&](node& from, bus_id to, std::size_t& next) {
      while (next != wanted.size() && from.send(to, 0, wanted[next]))
        ++next;
    };
    std::size_t sent_back = 0;
    EXPECT_TRUE(turn({&*first, &*second}, [&] {
      send_more(*first, 2, sent);
      send_more(*second, 1, sent_back);
      return first_log.messages.size() == wanted.size() &&
             second_log.messages.size() == wanted.size();
    }));
    EXPECT_EQ(first_log.messages, wanted);
    EXPECT_EQ(second_log.messages, wanted);
    EXPECT_TRUE(first_log.undelivered.empty());
    first->close();
    second->close();
    forget_names();  // the next one has another size
    first_log = second_log = {};
  }
};

TEST_P(NodeOptionExtremes, LeaveTwoNodesAbleToSpeak) {
  for (const extreme& one : extremes) {
    SCOPED_TRACE(one.name);
    node_options with = options();
    one.set(with);
    expect_messages(with);
    if (HasFailure())
      return;
  }
}

TEST(NodeOptions, RefuseAStaticQueueLargerThanThereIs) {
  const error bad = node_options{}.send_buffer_number(most_bytes).check();
  EXPECT_EQ(bad, errc::invalid_argument);
  EXPECT_NE(bad.text().find("send_buffer_number"), std::string::npos) << bad.text();
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeOptionExtremes, ::testing::ValuesIn(node_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
