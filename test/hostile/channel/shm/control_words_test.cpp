// Every control word of one lane, overwritten with impossible and with possible values at every
// stage of its incarnation: at worst that lane is quarantined, with a counter and one report; the other
// lanes go on; and when its sender has ended and the attacker stops, the lane is usable again.
#include <limits>

#include "hostile/channel/shm/hostile_channel.h"

namespace atbus::hostile {
namespace {

enum class stage { before_receiver, before_sender, between_polls, in_handler, asleep, sender_gone };
constexpr stage stages[] = {stage::before_receiver, stage::before_sender, stage::between_polls,
                            stage::in_handler,      stage::asleep,        stage::sender_gone};
constexpr const char* stage_names[] = {
    "before the receiver opens", "before the sender opens", "between polls", "in the handler",
    "while the receiver sleeps", "when the sender is gone"};

// Values that are wrong by themselves, and values that are wrong by where the lane stands.
std::vector<std::uint64_t> values_for(const detail::lane_slot& slot) {
  const std::uint64_t top = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> values{0,          1,          7,       8,  lane_size, lane_size + 8,
                                    1ULL << 32, 1ULL << 63, top - 7, top};
  for (const std::uint64_t at : {slot.head.load(), slot.done.load(), slot.tail.load()}) {
    for (const std::uint64_t distance : {std::uint64_t{4}, std::uint64_t{8}, lane_size})
      values.insert(values.end(), {at + distance, at - distance});
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

class control_words : public hostile_channel {
 protected:
  // Each lane can be taken, and what is sent there arrives.
  void expect_all_lanes_usable(receiver& in) {
    std::vector<std::string> got;
    std::vector<sender> all;
    const bool taken = poll_until(in, got, [&] {
      if (auto next = sender::open("shm://victim", sending()))
        all.push_back(std::move(*next));
      return all.size() == lanes;
    });
    ASSERT_TRUE(taken) << all.size() << " lanes usable";
    got.clear();
    for (sender& each : all)
      ASSERT_TRUE(each.send(as_bytes("healed"))) << "lane " << each.lane();
    const auto healed = [&] { return std::count(got.begin(), got.end(), "healed") == lanes; };
    EXPECT_TRUE(poll_until(in, got, healed));
  }
};

class ControlWord : public control_words, public ::testing::WithParamInterface<word_of_lane> {
 protected:
  // One incarnation of the channel, with that value written at `when`. Returns how many there are to
  // choose from at that stage.
  std::size_t attack(stage when, std::size_t which_value) {
    problems_.clear();
    receiver in = open_receiver();
    raw_segment file = raw();
    std::uint32_t lane = 0;
    std::size_t choice = 0;
    const auto strike = [&](stage now_at) {
      if (now_at != when)
        return;
      const auto values = values_for(file.slot(lane));
      choice = std::max(choice, values.size());
      GetParam().in(file.slot(lane)).store(values[which_value % values.size()]);
      file.header().ready[0].fetch_or(std::uint64_t{1} << lane);
    };
    {
      sender earlier = open_sender();  // leaves something, so that the words are not all zero
      EXPECT_EQ(earlier.lane(), lane);
      EXPECT_TRUE(earlier.send(as_bytes("left behind by a predecessor")));
    }
    in.close();
    strike(stage::before_receiver);
    in = open_receiver();
    strike(stage::before_sender);
    sender victim = open_sender();
    sender good = open_sender();
    lane = victim.lane();
    std::vector<std::string> from_good;
    std::size_t from_others = 0;
    const auto handler = [&](const received_message& m) {
      ASSERT_LE(m.bytes.size(), message_limit);
      const std::string text = copy_of(m.bytes);
      if (m.lane == good.lane()) {
        from_good.push_back(text);
      } else {
        ++from_others;
        strike(stage::in_handler);
      }
    };
    for (int i = 0; i < 3; ++i) {
      (void)victim.send(as_bytes("whatever becomes of it"));
      EXPECT_TRUE(good.send(as_bytes("good")));
      strike(stage::between_polls);
      (void)in.poll(handler);
      if (in.prepare_sleep()) {
        strike(stage::asleep);
        (void)victim.send(as_bytes("rings"));
        in.finish_sleep();
      }
    }
    // One fresh record in the victim's lane, too few to fill it, whatever its words say.
    EXPECT_LE(from_others, 64U);
    victim.close();
    strike(stage::sender_gone);
    (void)in.poll(handler);
    EXPECT_EQ(from_good.size(), 3U);
    EXPECT_LE(problems_.size(), 1U) << problems_.back().text();
    if (!problems_.empty()) {
      EXPECT_EQ(problems_[0].code(), errc::quarantined) << problems_[0].text();
      EXPECT_GE(in.stats().quarantined, 1U);
    }
    good.close();
    expect_all_lanes_usable(in);
    (void)in.remove();
    return choice;
  }
};

TEST_P(ControlWord, OfOneLaneHarmsThatLaneAtMost) {
  for (const stage when : stages) {
    std::size_t choice = 1;
    for (std::size_t value = 0; value < choice; ++value) {
      SCOPED_TRACE(std::string{stage_names[static_cast<int>(when)]} + ", value " +
                   std::to_string(value));
      choice = attack(when, value);
      ASSERT_GT(choice, 10U) << "nothing was attacked";
      if (HasFailure())
        return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, ControlWord, ::testing::ValuesIn(words_of_lane),
                         [](const auto& each) { return std::string{each.param.name}; });

class LanePositions : public control_words {};

// A lane may be made to stand anywhere, also where positions are about to overflow.
TEST_F(LanePositions, GoOnAcrossTheEndOfAllNumbers) {
  for (const std::uint64_t before_end :
       {std::uint64_t{8}, std::uint64_t{72}, std::uint64_t{80}, std::uint64_t{1024}, lane_size}) {
    SCOPED_TRACE(before_end);
    open_receiver().close();
    raw_segment file = raw();
    const std::uint64_t start = std::uint64_t{0} - before_end;
    detail::lane_slot& slot = file.slot(0);
    for (detail::shared_word* word : {&slot.head, &slot.done, &slot.handling, &slot.tail})
      word->store(start);
    receiver in = open_receiver();
    sender out = open_sender();
    std::vector<std::string> got;
    std::vector<std::string> sent;
    for (int i = 0; i < 200; ++i) {
      const std::string message = "message " + std::to_string(i) + std::string(50, '.');
      if (out.send(as_bytes(message)))
        sent.push_back(message);
      if (i % 7 == 0)
        collect(in, got);
    }
    EXPECT_TRUE(poll_until(in, got, [&] { return got.size() == sent.size(); }));
    EXPECT_EQ(got, sent);
    EXPECT_EQ(sent.size(), 200U);
    EXPECT_TRUE(problems_.empty());
    (void)in.remove();
  }
}

TEST_F(LanePositions, AreNeverTakenFromABrokenLaneAtOpening) {
  for (const std::uint64_t off : {std::uint64_t{1}, std::uint64_t{4}, std::uint64_t{7}}) {
    open_receiver().close();
    raw_segment file = raw();
    detail::lane_slot& slot = file.slot(0);
    for (detail::shared_word* word : {&slot.head, &slot.done, &slot.handling, &slot.tail})
      word->store(lane_size - off);  // consistent with one another, but no record starts there
    receiver in = open_receiver();
    ASSERT_EQ(problems_.size(), 1U);
    EXPECT_EQ(problems_[0].code(), errc::quarantined);
    EXPECT_NE(problems_[0].text().find("lane 0"), std::string::npos) << problems_[0].text();
    sender out = open_sender();
    ASSERT_TRUE(out.send(as_bytes("healed")));
    std::vector<std::string> got;
    EXPECT_TRUE(poll_until(in, got, [&] { return got.size() == 1; }));
    (void)in.remove();
    problems_.clear();
  }
}

// Of all its words a free lane is judged by those that receivers write.
TEST_F(LanePositions, OfAFreeLaneAreMadeGoodWhenASenderComes) {
  for (const word_of_lane& word : words_of_lane) {
    for (const std::uint64_t value : {std::uint64_t{2}, std::uint64_t{8}, ~std::uint64_t{7}}) {
      SCOPED_TRACE(std::string{word.name} + " = " + std::to_string(value));
      receiver in = open_receiver();
      raw_segment file = raw();
      word.in(file.slot(lanes - 1)).store(value);
      expect_all_lanes_usable(in);
      (void)in.remove();
      if (HasFatalFailure() || HasNonfatalFailure())
        return;
    }
  }
}

class HeaderWord : public hostile_channel {};

TEST_F(HeaderWord, OfAnyValueCrashesAndStopsNobodyWhoPolls) {
  receiver in = open_receiver();
  sender out = open_sender();
  raw_segment file = raw();
  std::vector<std::string> got;
  std::size_t sent = 0;
  const std::uint64_t values[] = {0, 1, 7, 0xffffffff, 1ULL << 32, 1ULL << 63, ~0ULL};
  auto* const words = reinterpret_cast<detail::shared_word*>(&file.header());
  for (std::size_t i = 0; i < sizeof(detail::segment_header) / 8; ++i) {
    for (const std::uint64_t value : values) {
      words[i].store(value);
      sent += out.send(as_bytes("m")) ? 1 : 0;
      collect(in, got);
      if (in.prepare_sleep()) {
        words[i].store(value);
        sent += out.send(as_bytes("m")) ? 1 : 0;
        in.finish_sleep();
      }
      collect(in, got);
    }
  }
  EXPECT_GT(sent, 1000U);
  EXPECT_EQ(got.size(), sent);
}

TEST_F(HeaderWord, ReadyWakesLanesThatHaveNothingWithoutHarm) {
  receiver in = open_receiver();
  raw_segment file = raw();
  std::vector<std::string> got;
  for (int i = 0; i < 100; ++i) {
    for (auto& word : file.header().ready)
      word.store(~std::uint64_t{0});
    EXPECT_EQ(collect(in, got), 0U);
  }
  EXPECT_TRUE(problems_.empty());
  EXPECT_EQ(in.wait(0ns), errc::timed_out);
}

}  // namespace
}  // namespace atbus::hostile
