// A node that copies what it receives to a segment of the process that watches it.
#include <fstream>

#include "atbus/inspect.hpp"
#include "node/core/message_taps.h"
#include "node_fixture.h"
#include "protocol/command_body.h"
#include "protocol/recording_entry.h"
#include "protocol/request_body.h"

namespace atbus::test {
namespace {

using detail::entry_kind;
using detail::recording_entry;

struct tap_copy {
  recording_entry head;
  std::string payload;
  std::uint64_t at = 0;
};

// The end of the process that watches.
class tap_reader {
 public:
  explicit tap_reader(const std::string& name, std::uint64_t lane_size = 0) {
    auto made =
        receiver::open("shm://" + name, {.lanes = 1,
                                         .lane_size = lane_size,
                                         .message_limit = lane_size == 0 ? 128 * 1024U : 20'000U});
    if (made)
      in_.emplace(std::move(*made));
    EXPECT_TRUE(made) << made.error().text();
  }
  ~tap_reader() {
    if (in_ && in_->is_open())
      (void)in_->remove();
  }
  // As if its process was killed.
  void die() { in_->close(); }

  std::vector<tap_copy>& read() {
    const auto keep = [this](bytes_view bytes) {
      tap_copy one;
      ASSERT_EQ(detail::decode(bytes.subspan(8), one.head), detail::entry_fault::none);
      one.payload = as_text(bytes.subspan(detail::tap_head_size));
      one.at = detail::load_little_endian<std::uint64_t>(bytes.data());
      copies.push_back(one);
    };
    while (in_->poll(keep) != 0) {
    }
    return copies;
  }
  [[nodiscard]] std::vector<tap_copy> of_kind(entry_kind kind) {
    std::vector<tap_copy> some = read();
    std::erase_if(some, [&](const tap_copy& one) { return one.head.kind != kind; });
    return some;
  }

  std::vector<tap_copy> copies;

 private:
  std::optional<receiver> in_;
};

class Tap : public NodeFixture {
 protected:
  ~Tap() override {
    for (const std::string& name : tap_names())
      (void)clean_segment(name);
  }
  [[nodiscard]] static std::string tap_name(int number) {
    return "atbus-tap-" + std::to_string(getpid()) + "-" + std::to_string(number);
  }
  [[nodiscard]] static std::vector<std::string> tap_names() {
    std::vector<std::string> names;
    for (int i = 0; i != 6; ++i)
      names.push_back(tap_name(i));
    return names;
  }
  static bool is_there(const std::string& name) {
    return access(("/dev/shm/atbus-segment." + name).c_str(), F_OK) == 0;
  }
  void connect_tapped() { connect_both(options(), options().allow_tap().message_limit(16'000)); }
  // Of the second node.
  struct answer {
    status how;
    std::string text;
  };
  answer ask(const std::vector<std::string>& words) {
    std::optional<answer> got;
    EXPECT_TRUE(first->command(2, words, 20s, [&](status how, const command_reply& reply) {
      got = {how, reply.values().empty() ? "" : reply.values().front()};
      for (std::size_t i = 1; i < reply.values().size(); ++i)
        got->text += " " + reply.values()[i];
    }));
    EXPECT_TRUE(turn({&*first, &*second}, [&] { return got.has_value(); }));
    return got.value_or(answer{errc::timed_out, {}});
  }
  void begin(int number) {
    const answer got = ask({"atbus.tap", "shm://" + tap_name(number)});
    ASSERT_TRUE(got.how) << got.text;
    ASSERT_EQ(got.text, "2");
  }
  void send_all(int messages, const std::string& text = "message ") {
    const std::size_t before = second_log.messages.size();
    for (int i = 0; i != messages; ++i) {
      while (first->send(2, 7, text + std::to_string(i)) == errc::would_block)
        second->poll();
    }
    ASSERT_TRUE(turn({&*first, &*second}, [&] {
      return second_log.messages.size() == before + static_cast<std::size_t>(messages);
    }));
  }
};

TEST_P(Tap, GetsEachMessageInOrder) {
  connect_tapped();
  send_all(10);  // the direct path is open by then, where there is one
  tap_reader reader{tap_name(0)};
  begin(0);
  send_all(1000);
  const auto begins = reader.of_kind(entry_kind::begin);
  ASSERT_EQ(begins.size(), 1U);
  EXPECT_EQ(begins[0].head.to, bus_id{2});
  EXPECT_EQ(begins[0].head.number, second->incarnation());
  const auto copies = reader.of_kind(entry_kind::message);
  ASSERT_EQ(copies.size(), 1000U);
  for (std::size_t i = 0; i != copies.size(); ++i) {
    EXPECT_EQ(copies[i].payload, "message " + std::to_string(i));
    EXPECT_EQ(copies[i].head,
              (recording_entry{.type = 7, .from = bus_id{1}, .to = bus_id{2}, .number = i + 1}));
    EXPECT_GE(copies[i].at, i == 0 ? begins[0].at : copies[i - 1].at);
  }
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_LT(std::chrono::abs(wall - std::chrono::nanoseconds{copies.back().at}), 1min);
}

TEST_P(Tap, HasTheMessageWhoseHandlerRuns) {
  connect_tapped();
  tap_reader reader{tap_name(0)};
  begin(0);
  std::size_t seen = 0;
  second->on_message([&](const message& m) {
    second_log.messages.emplace_back(m.text());
    seen += reader.of_kind(entry_kind::message).back().payload == m.text() ? 1 : 0;
  });
  send_all(20);
  EXPECT_EQ(seen, 20U);
}

TEST_P(Tap, GetsRequestsAndCommandsAndTheNodesOwnMessages) {
  connect_tapped();
  tap_reader reader{tap_name(0)};
  begin(0);
  second->on_request(3, [](request& asked) { (void)asked.reply("answer"); });
  bool answered = false;
  ASSERT_TRUE(first->request(2, 3, "question", 20s, [&](const response&) { answered = true; }));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return answered; }));
  EXPECT_EQ(ask({"unknown", "word"}).how.code(), errc::unknown_command);
  ASSERT_TRUE(second->send(2, 9, "own"));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 1; }));
  const auto copies = reader.of_kind(entry_kind::message);
  ASSERT_EQ(copies.size(), 3U);
  EXPECT_EQ(copies[0].head.flags, detail::flag_request);
  EXPECT_EQ(copies[0].head.type, 3U);
  EXPECT_EQ(copies[0].payload.substr(detail::request_head_size), "question");
  EXPECT_EQ(copies[1].head.flags, detail::flag_command);
  EXPECT_EQ(detail::command_name(as_bytes(copies[1].payload)), "unknown");
  EXPECT_EQ(copies[2].head.from, bus_id{2});
  EXPECT_EQ(copies[2].payload, "own");
}

TEST_P(Tap, IsOffUnlessTheNodeAllowsIt) {
  connect_both();
  tap_reader reader{tap_name(0)};
  const answer got = ask({"atbus.tap", "shm://" + tap_name(0)});
  EXPECT_EQ(got.how.code(), errc::command_failed);
  EXPECT_NE(got.text.find("node 2 allows no taps"), std::string::npos) << got.text;
  send_all(3);
  EXPECT_TRUE(reader.read().empty());
}

TEST_P(Tap, OpensNothingButSegmentsMadeForIt) {
  connect_tapped();
  auto inbox = receiver::open("shm://" + unique() + "-inbox");
  ASSERT_TRUE(inbox) << inbox.error().text();
  tap_reader small{tap_name(1), 64 * 1024};  // takes its 20,000 bytes, and the node needs more
  auto large = receiver::open("shm://" + tap_name(2), {.lanes = 1, .lane_size = 256U << 20});
  ASSERT_TRUE(large) << large.error().text();
  for (const std::string& where :
       {"shm://" + unique() + "-inbox", "unix://" + directory_.path() + "/x", std::string{"x"},
        "shm://" + tap_name(0) + "?lanes=2", std::string{"shm://atbus-tap-"},
        std::string{"shm://atbus-tap-../../x"}, "shm://atbus-tap-" + std::string(65, 'x'),
        "shm://" + tap_name(0), "shm://" + tap_name(2)}) {
    const answer got = ask({"atbus.tap", where});
    EXPECT_EQ(got.how.code(), errc::command_failed) << where;
    EXPECT_FALSE(got.text.empty());
  }
  EXPECT_EQ(inbox->stats().messages, 0U);
  EXPECT_EQ(inspect_segment(unique() + "-inbox")->held_lanes, 0U);
  EXPECT_EQ(ask({"atbus.untap", "shm://" + tap_name(0)}).how.code(), errc::command_failed);
  EXPECT_EQ(ask({"atbus.tap"}).text, std::to_string(16 * 1024 + detail::tap_head_size));
  EXPECT_TRUE(inbox->remove());
  EXPECT_TRUE(large->remove());
}

TEST_P(Tap, NeedsWhatTheAccessRulesAsk) {
  const std::string rules = directory_.path() + "/access.toml";
  std::ofstream{rules} << "register = \"any\"\n[[send]]\nfrom = [1]\nto = [2]\n"
                          "messages = \"any\"\ncommands = [\"atbus.ping\"]\n";
  connect_both(options(), options().allow_tap().access(rules));
  EXPECT_TRUE(ask({"atbus.ping"}).how);
  tap_reader reader{tap_name(0)};
  EXPECT_EQ(ask({"atbus.tap", "shm://" + tap_name(0)}).how.code(), errc::denied);
  EXPECT_EQ(ask({"atbus.untap", "shm://" + tap_name(0)}).how.code(), errc::denied);
  send_all(3);
  EXPECT_TRUE(reader.read().empty());
}

TEST_P(Tap, CountsWhatFindsNoRoom) {
  connect_tapped();
  tap_reader reader{tap_name(0), 64 * 1024};
  begin(0);
  send_all(500, std::string(1000, 'x'));  // nobody reads, and the node goes on
  const std::size_t before = reader.of_kind(entry_kind::message).size();
  EXPECT_LT(before, 100U);
  EXPECT_TRUE(reader.of_kind(entry_kind::lost).empty());
  send_all(1);
  const auto lost = reader.of_kind(entry_kind::lost);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].head.count, 500 - before);
  const auto& last = reader.copies.back();  // behind what was lost
  EXPECT_EQ(last.head.kind, entry_kind::message);
  EXPECT_EQ(last.head.number, 501U);
  send_all(500, std::string(1000, 'x'));
  const std::size_t after = reader.of_kind(entry_kind::message).size();
  // The command that ends it is the last message, which finds room.
  send_all(0);
  EXPECT_EQ(ask({"atbus.untap", "shm://" + tap_name(0)}).text, "1002 0");
  std::uint64_t all_lost = 0;
  for (const tap_copy& one : reader.of_kind(entry_kind::lost))
    all_lost += one.head.count;
  EXPECT_EQ(all_lost + after + 1, 1002U);
}

TEST_P(Tap, ThatWasEndedGetsNoMoreAndTellsWhatWasLostLast) {
  connect_tapped();
  tap_reader reader{tap_name(0), 64 * 1024};
  begin(0);
  send_all(500, std::string(1000, 'x'));
  const answer got = ask({"atbus.untap", "shm://" + tap_name(0)});
  ASSERT_TRUE(got.how) << got.text;
  const std::size_t copies = reader.of_kind(entry_kind::message).size();
  EXPECT_EQ(got.text, "501 " + std::to_string(501 - copies));
  send_all(100);
  EXPECT_EQ(reader.of_kind(entry_kind::message).size(), copies);
  EXPECT_TRUE(is_there(tap_name(0)));  // it is its reader's to remove
  EXPECT_EQ(ask({"atbus.untap", "shm://" + tap_name(0)}).how.code(), errc::command_failed);
}

TEST_P(Tap, HasAPlaceAgainWhenAReaderHasDied) {
  connect_tapped();
  std::vector<std::unique_ptr<tap_reader>> readers;
  for (int i = 0; i != 5; ++i)
    readers.push_back(std::make_unique<tap_reader>(tap_name(i)));
  for (int i = 0; i != 4; ++i)
    begin(i);
  EXPECT_EQ(ask({"atbus.tap", "shm://" + tap_name(0)}).how.code(), errc::command_failed);
  const answer full = ask({"atbus.tap", "shm://" + tap_name(4)});
  EXPECT_EQ(full.how.code(), errc::command_failed);
  EXPECT_NE(full.text.find("4 taps"), std::string::npos) << full.text;
  readers[1]->die();
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return !is_there(tap_name(1)); }));
  begin(4);
  send_all(3);
  for (const int i : {0, 2, 3, 4})
    EXPECT_GE(readers[static_cast<std::size_t>(i)]->of_kind(entry_kind::message).size(), 3U) << i;
}

TEST_P(Tap, EndsWithItsNode) {
  connect_tapped();
  tap_reader reader{tap_name(0)};
  begin(0);
  send_all(3);
  second->close();
  const auto ends = reader.of_kind(entry_kind::end);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(reader.copies.back().head.kind, entry_kind::end);
  EXPECT_EQ(ends[0].head.type, static_cast<std::uint32_t>(detail::recording_end::node_closed));
  EXPECT_EQ(ends[0].head.number, 3U);
}

TEST_P(Tap, IsLoggedByTheNode) {
  connect_tapped();
  tap_reader reader{tap_name(0)};
  begin(0);
  ASSERT_TRUE(ask({"atbus.untap", "shm://" + tap_name(0)}).how);
  ASSERT_TRUE(turn({&*first, &*second}, [&] {
    return std::ranges::any_of(second_log.lines, [](const std::string& line) {
      return line.starts_with("a tap has ended after 1 messages");
    });
  }));
  EXPECT_TRUE(std::ranges::any_of(second_log.lines, [](const std::string& line) {
    return line.starts_with("a tap begins: 1 watches");
  }));
}

std::vector<node_kind> tapped_kinds() {
  std::vector<node_kind> kinds = node_kinds();
  std::erase_if(kinds, [](const node_kind& kind) {
    const std::string name = kind.name;
    return name != "shm" && name != "unix_path" && name != "ipv6";
  });
  return kinds;
}
INSTANTIATE_TEST_SUITE_P(Kinds, Tap, ::testing::ValuesIn(tapped_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
