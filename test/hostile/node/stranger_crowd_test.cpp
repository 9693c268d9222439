// Crowds of strangers at a node: its registered links go on, and its memory comes back.
#include "stranger_crowd.h"
#include "sanitizer.h"

#include <malloc.h>
#include <unistd.h>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "reserved_port.h"
#include "stream_bytes.h"
#include "test.h"

namespace atbus {
namespace {

constexpr std::string_view node_crowd_secret = "a secret that no stranger has";
constexpr bus_id tried_id{1};
constexpr bus_id beside_id{2};

// What a node says where it dials, before it is answered.
std::string recorded_dialling(const std::string& options) {
  const test::plain_listener there{"ipv4://127.0.0.1:0"};
  node honest{beside_id, node_options{}.token(node_crowd_secret).allow_unencrypted()};
  EXPECT_TRUE(honest.connect(tried_id, there.address() + options));
  test::plain_socket heard;
  std::string said;
  for (const auto end = now() + 20s; said.empty() && now() < end;) {
    honest.poll();
    if (!heard.is_open())
      heard = there.accept(0ns);
    else
      said = heard.receive_some(65536, 1ms);
  }
  return said;
}
// Frames that are left out, without end.
std::string much_of_nothing() {
  std::array<std::byte, 200> unknown{};
  unknown[1] = std::byte{0x80};
  std::string all{as_text(detail::opened_stream(true))};
  const detail::byte_string one = detail::raw_control_frame(unknown, true);
  while (all.size() < (std::size_t{128} << 10))
    all += as_text(one);
  return all;
}

struct node_crowd_case {
  const char* name;
  const char* options;  // of the address
  std::function<test::stranger_habits(const std::string& options)> habits = {};

  friend void PrintTo(const node_crowd_case& of, std::ostream* out) { *out << of.name; }
};

class NodeStrangerCrowd : public ::testing::TestWithParam<node_crowd_case> {
 protected:
  NodeStrangerCrowd() {
    tried.on_log([this](std::string_view) { ++lines; });
    tried.on_message([this](const message& m) {
      wrong += m.text() == std::to_string(heard) ? 0 : 1;
      ++heard;
    });
  }
  static node_options settings() {
    return node_options{}
        .token(node_crowd_secret)
        .allow_unencrypted()
        .first_idle_timeout(2s)
        .unconfirmed(100)
        .strangers({.first_byte_timeout = 1s, .bytes = 32 << 10});
  }
  bool until(const std::function<bool()>& done) {
    for (const auto end = now() + 120s; !done();) {
      if (now() > end)
        return false;
      if (sent - heard < 1000 && beside.send(tried_id, 0, std::to_string(sent)))
        ++sent;
      beside.poll();
      tried.poll();
    }
    return true;
  }
  // Whoever is closed within a registration is counted in two ways.
  [[nodiscard]] std::uint64_t ended() const {
    const node_stats seen = tried.stats();
    const stranger_stats& why = seen.strangers;
    return why.silent + why.late + why.crowded + why.talkative + why.faulty +
           seen.registrations_failed;
  }

  node tried{tried_id, settings()};
  node beside{beside_id, settings()};
  std::size_t lines = 0;
  std::uint64_t sent = 0;
  std::uint64_t heard = 0;
  std::uint64_t wrong = 0;
};

TEST_P(NodeStrangerCrowd, IsWeathered) {
  const std::size_t count = test::crowd_size();
  if (!test::may_open_descriptors(count + 1000))
    GTEST_SKIP() << "too few descriptors are allowed (ulimit -Hn)";
  const test::reserved_port port{"ipv4://127.0.0.1:0"};
  const std::string where = port.address() + GetParam().options;
  ASSERT_TRUE(tried.listen(where));
  ASSERT_TRUE(beside.connect(tried_id, where));
  ASSERT_TRUE(until([&] { return heard > 100; }));
  const test::stranger_habits habits = GetParam().habits(GetParam().options);
  const std::size_t before = test::resident_bytes();
  const std::uint64_t heard_before = heard;
  const auto begin = now();
  {
    const test::stranger_crowd crowd{where, count, habits};
    EXPECT_TRUE(until([&] { return crowd.all_came() && ended() >= count; })) << ended();
  }
  const std::chrono::duration<double> took = now() - begin;
  const double rate = static_cast<double>(heard - heard_before) / took.count();
  EXPECT_TRUE(until([&] { return heard == sent; }));
  EXPECT_GT(heard, heard_before);
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(tried.stats().links_lost, 0U);
  malloc_trim(0);
  const std::size_t after = test::resident_bytes();
  if (!test::has_sanitizer) {  // which keeps memory that was given back
    EXPECT_LE(after, before + (std::size_t{24} << 20));
  }
  EXPECT_GT(lines, 0U);
  EXPECT_LE(lines, 200U);
  const node_stats seen = tried.stats();
  std::printf(
      "%zu in %.1f s; %.0f msg/s beside; MiB: before %zu, after %zu; crowded %llu silent "
      "%llu late %llu talkative %llu faulty %llu delayed %llu failed %llu; lines %zu\n",
      count, took.count(), rate, before >> 20, after >> 20,
      static_cast<unsigned long long>(seen.strangers.crowded),
      static_cast<unsigned long long>(seen.strangers.silent),
      static_cast<unsigned long long>(seen.strangers.late),
      static_cast<unsigned long long>(seen.strangers.talkative),
      static_cast<unsigned long long>(seen.strangers.faulty),
      static_cast<unsigned long long>(seen.strangers.delayed),
      static_cast<unsigned long long>(seen.registrations_failed), lines);
}

std::vector<node_crowd_case> node_crowd_cases() {
  using test::stranger_habits;
  const auto nothing = [](const std::string&) { return stranger_habits{}; };
  const auto replay = [](const std::string& options) {
    return stranger_habits{.opening = recorded_dialling(options)};
  };
  const auto twice = [](const std::string& options) {
    const std::string said = recorded_dialling(options);
    return stranger_habits{.opening = said + said};
  };
  const auto reflect = [](const std::string& options) {
    return stranger_habits{.opening = recorded_dialling(options), .reflects = true};
  };
  const auto other_kind = [](const std::string& options) {
    return stranger_habits{.opening = recorded_dialling(options.empty() ? "?tls=false" : "")};
  };
  const auto much = [](const std::string&) {
    return stranger_habits{.opening = much_of_nothing()};
  };
  return {
      {"plain_silent", "?tls=false", nothing},
      {"plain_replayed", "?tls=false", replay},
      {"plain_twice", "?tls=false", twice},
      {"plain_reflecting", "?tls=false", reflect},
      {"plain_talkative", "?tls=false", much},
      {"plain_encrypted", "?tls=false", other_kind},
      {"tls_silent", "", nothing},
      {"tls_replayed", "", replay},
      {"tls_twice", "", twice},
      {"tls_reflecting", "", reflect},
      {"tls_downgraded", "", other_kind},
  };
}

INSTANTIATE_TEST_SUITE_P(Node, NodeStrangerCrowd, ::testing::ValuesIn(node_crowd_cases()),
                         [](const auto& tested) { return std::string{tested.param.name}; });

}  // namespace
}  // namespace atbus
