// The two ends of a lane on plain memory.
#include "atbus/detail/lane.hpp"

#include <deque>

#include "test.h"

namespace atbus::detail {
namespace {

using room = lane_writer::room;

constexpr std::uint64_t ring_size = 256;
constexpr std::uint64_t last_position = ~std::uint64_t{7};  // 2^64 - 8

// A lane, both its ends, and memory around its bytes that must stay as it is.
struct lane {
  explicit lane(std::uint64_t start = 0) {
    std::fill(memory.begin(), memory.end(), untouched);
    slot.tail = slot.head = slot.done = slot.handling = start;
    writer.attach(&slot, data(), ring_size, start);
    reader.slot = &slot;
    reader.data = data();
    reader.mask = ring_size - 1;
    reader.position = reader.tail = reader.head = start;
  }

  std::byte* data() { return memory.data() + ring_size; }

  // As a sender: false if there is no room.
  bool append(const std::string& payload) {
    const std::uint64_t size = record_size(payload.size());
    if (!writer.fits(size) && writer.make_room(size) != room::made)
      return false;
    EXPECT_TRUE(writer.fits(size));
    std::byte* const at = writer.begin(record_kind::message, payload.size());
    EXPECT_GE(at, data() + record_header_size);
    EXPECT_LE(at + payload.size(), data() + ring_size) << "it wraps";
    std::transform(payload.begin(), payload.end(), at, [](char c) { return std::byte(c); });
    writer.append(payload.size());
    return true;
  }
  bool send(const std::string& payload) {
    if (!append(payload))
      return false;
    (void)writer.publish();
    return true;
  }

  // As a receiver: the next message, if there is one.
  std::optional<std::string> take() {
    EXPECT_TRUE(reader.refresh());
    while (reader.available() != 0) {
      const std::byte* const at = reader.data + (reader.position & reader.mask);
      const std::uint64_t header = load_record_header(at);
      const std::uint64_t size = record_size(record_length(header));
      EXPECT_LE(size, reader.available());
      EXPECT_LE((reader.position & reader.mask) + size, ring_size);
      reader.position += size;
      if (record_kind_of(header) == record_kind::padding) {
        ++paddings;
        continue;
      }
      EXPECT_EQ(record_kind_of(header), record_kind::message);
      const auto* const text = reinterpret_cast<const char*>(at + record_header_size);
      return std::string{text, text + record_length(header)};
    }
    return std::nullopt;
  }

  [[nodiscard]] bool surroundings_untouched() const {
    const auto is_untouched = [](std::byte b) { return b == untouched; };
    return std::all_of(memory.begin(), memory.begin() + ring_size, is_untouched) &&
           std::all_of(memory.end() - ring_size, memory.end(), is_untouched);
  }

  static constexpr std::byte untouched{0xa5};
  alignas(line_size) std::array<std::byte, 3 * ring_size> memory;
  lane_slot slot{};
  lane_writer writer;
  lane_reader reader;
  unsigned paddings = 0;
};

std::string text_of(std::uint64_t length) {
  std::string text(length, '\0');
  for (std::size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<char>(length + i);
  return text;
}

TEST(Lane, PadsTheEndWhenARecordWouldWrap) {
  lane l{ring_size - 16};
  ASSERT_TRUE(l.send(text_of(9)));  // 24 bytes
  EXPECT_EQ(l.slot.padding_bytes, 16U);
  EXPECT_EQ(load_record_header(l.data() + ring_size - 16),
            make_record_header(record_kind::padding, 8));
  EXPECT_EQ(l.slot.tail, ring_size + 24);
  EXPECT_EQ(l.take(), text_of(9));
}

TEST(Lane, PadsNothingWhenARecordEndsWhereTheRingEnds) {
  lane l{ring_size - 16};
  ASSERT_TRUE(l.send(text_of(8)));
  EXPECT_EQ(l.slot.padding_bytes, 0U);
  EXPECT_EQ(l.slot.tail, ring_size);
  EXPECT_EQ(l.take(), text_of(8));
  ASSERT_TRUE(l.send(text_of(8)));
  EXPECT_EQ(l.take(), text_of(8));
  EXPECT_EQ(l.paddings, 0U);
}

// From 0, and across the overflow of the positions.
TEST(Lane, TakesEverySizeAtEveryPlaceOfTheRing) {
  for (const std::uint64_t lap : {std::uint64_t{0}, std::uint64_t{0} - ring_size}) {
    for (std::uint64_t offset = 0; offset < ring_size; offset += 8) {
      for (std::uint64_t length = 0; record_size(length) <= ring_size / 2; ++length) {
        lane l{lap + offset};
        ASSERT_TRUE(l.send(text_of(length))) << length << " bytes at " << offset;
        ASSERT_EQ(l.take(), text_of(length)) << length << " bytes at " << offset;
        ASSERT_EQ(l.paddings, offset + record_size(length) > ring_size ? 1U : 0U);
        ASSERT_TRUE(l.surroundings_untouched()) << length << " bytes at " << offset;
      }
    }
  }
}

TEST(Lane, HasRoomExactlyWhenHeadIsWhereItWasSaidToBeNeeded) {
  for (const std::uint64_t lap : {std::uint64_t{4} * ring_size, std::uint64_t{0} - ring_size}) {
    for (std::uint64_t offset = 0; offset < ring_size; offset += 8) {
      for (std::uint64_t size = 8; size <= ring_size / 2; size += 8) {
        lane l{lap + offset};
        const std::uint64_t full = l.writer.position() - ring_size;
        const std::uint64_t needed = l.writer.head_needed_for(size);
        ASSERT_LE(needed - full, ring_size) << "more than an empty lane has";
        for (std::uint64_t head = full; head != needed; head += 8) {
          l.slot.head = head;
          ASSERT_EQ(l.writer.make_room(size), room::none);
          ASSERT_FALSE(l.writer.fits(size));
        }
        ASSERT_EQ(l.slot.padding_bytes, 0U) << "padded without room";
        l.slot.head = needed;
        ASSERT_EQ(l.writer.make_room(size), room::made);
        ASSERT_TRUE(l.writer.fits(size));
      }
    }
  }
}

TEST(Lane, RefusesAnImpossibleHead) {
  for (const std::uint64_t position : {std::uint64_t{0}, std::uint64_t{8}, 5 * ring_size + 40,
                                       last_position - ring_size, last_position}) {
    const struct {
      std::uint64_t head;
      room expected;
    } cases[] = {
        {position, room::made},
        {position - ring_size, room::none},
        {position + 8, room::impossible_head},
        {position - ring_size - 8, room::impossible_head},
        {position - 4, room::impossible_head},
        {position - 1, room::impossible_head},
        {position + ring_size, room::impossible_head},
        {position + (std::uint64_t{1} << 63), room::impossible_head},
    };
    for (const auto& c : cases) {
      lane l{position};
      l.slot.head = c.head;
      EXPECT_EQ(l.writer.make_room(8), c.expected) << "head " << c.head << " at " << position;
      EXPECT_EQ(l.writer.fits(8), c.expected == room::made);
      EXPECT_EQ(l.writer.position(), position);
    }
  }
}

TEST(Lane, RefusesAnImpossibleTail) {
  for (const std::uint64_t position : {std::uint64_t{0}, std::uint64_t{8}, 5 * ring_size + 40,
                                       last_position - ring_size, last_position}) {
    const struct {
      std::uint64_t tail;
      bool possible;
    } cases[] = {
        {position + 32, true},
        {position + 40, true},
        {position + ring_size, true},
        {position + 24, false},  // back behind what was seen
        {position, false},
        {position - 8, false},
        {position + 36, false},
        {position + 33, false},
        {position + ring_size + 8, false},
        {position + (std::uint64_t{1} << 63), false},
    };
    for (const auto& c : cases) {
      lane l{position};
      l.slot.tail = position + 32;
      ASSERT_TRUE(l.reader.refresh());
      l.slot.tail = c.tail;
      EXPECT_EQ(l.reader.refresh(), c.possible) << "tail " << c.tail << " at " << position;
      EXPECT_EQ(l.reader.tail, c.possible ? c.tail : position + 32) << "believed";
    }
  }
}

TEST(Lane, ShowsNothingThatWasNotPublished) {
  lane l;
  ASSERT_TRUE(l.append("first"));
  ASSERT_TRUE(l.append("second"));
  EXPECT_EQ(l.take(), std::nullopt);
  (void)l.writer.publish();
  EXPECT_EQ(l.take(), "first");
  EXPECT_EQ(l.take(), "second");
  EXPECT_EQ(l.take(), std::nullopt);
}

TEST(Lane, ForgetsARecordThatWasBegunAndNotAppended) {
  lane l;
  ASSERT_EQ(l.writer.make_room(record_size(5)), room::made);
  (void)l.writer.begin(record_kind::message, 5);
  (void)l.writer.publish();
  EXPECT_EQ(l.take(), std::nullopt);
  ASSERT_TRUE(l.send("another"));
  EXPECT_EQ(l.take(), "another");
}

TEST(Lane, HasNoRoomBehindAClosedWindow) {
  lane l;
  ASSERT_TRUE(l.send("one"));
  EXPECT_TRUE(l.writer.fits(8));
  l.writer.close_window();
  EXPECT_FALSE(l.writer.fits(8));
}

TEST(Lane, CutBackToAPositionGoesOnFromThere) {
  lane l;
  ASSERT_TRUE(l.send("kept"));
  const std::uint64_t kept = l.writer.position();
  ASSERT_TRUE(l.send("taken back"));
  l.writer.rewind(kept);
  EXPECT_EQ(l.slot.tail, kept);
  ASSERT_TRUE(l.send("new"));
  EXPECT_EQ(l.take(), "kept");
  EXPECT_EQ(l.take(), "new");
}

TEST(Lane, TellsTheSenderOfAnAlertUntilItWasSeen) {
  lane l;
  l.writer.alert_seen(0);
  ASSERT_TRUE(l.append("a"));
  EXPECT_FALSE(l.writer.publish());
  l.slot.alert = alert_step | alert_parked;
  ASSERT_TRUE(l.append("b"));
  EXPECT_TRUE(l.writer.publish());
  EXPECT_TRUE(l.writer.publish());
  l.writer.alert_seen(alert_step | alert_parked);
  EXPECT_FALSE(l.writer.publish());
}

TEST(Lane, TellsTheReceiverOfARequest) {
  lane l;
  l.reader.publish_head();
  EXPECT_FALSE(l.reader.has_request());
  l.slot.request = request_space | 64;
  EXPECT_TRUE(l.reader.has_request());
}

TEST(Lane, RemembersTheMostThatEverWaited) {
  lane l{3 * ring_size};
  ASSERT_TRUE(l.send(text_of(100)));
  ASSERT_TRUE(l.send(text_of(20)));
  while (l.take()) {
  }
  l.reader.publish_head();
  ASSERT_TRUE(l.send(text_of(8)));
  ASSERT_TRUE(l.take());
  EXPECT_EQ(l.reader.high_water_mark, record_size(100) + record_size(20));
}

TEST(Lane, IsEmptyBehindThePaddingOfARecordThatWasNeverAppended) {
  constexpr std::uint64_t start = ring_size - 16;
  lane l{start};
  EXPECT_TRUE(l.writer.is_empty_behind(start));
  ASSERT_EQ(l.writer.make_room(record_size(100)), room::made);
  (void)l.writer.begin(record_kind::message, 100);
  EXPECT_EQ(l.writer.position(), ring_size);
  EXPECT_TRUE(l.writer.is_empty_behind(start));
  EXPECT_TRUE(l.writer.is_empty_behind(ring_size));
  EXPECT_FALSE(l.writer.is_empty_behind(start - 8));
  ASSERT_TRUE(l.send("a"));
  EXPECT_FALSE(l.writer.is_empty_behind(start));
  EXPECT_FALSE(l.writer.is_empty_behind(ring_size));
  EXPECT_TRUE(l.writer.is_empty_behind(l.writer.position()));
}

// After the cut, a message ends where the padding ended.
TEST(Lane, IsNotEmptyBehindAMessageThatTookThePlaceOfPadding) {
  constexpr std::uint64_t start = ring_size - 16;
  lane l{start};
  ASSERT_EQ(l.writer.make_room(record_size(100)), room::made);
  l.writer.rewind(start);
  EXPECT_TRUE(l.writer.is_empty_behind(start));
  ASSERT_TRUE(l.send(text_of(8)));
  EXPECT_EQ(l.writer.position(), ring_size);
  EXPECT_FALSE(l.writer.is_empty_behind(start));
}

// What a lane must do, said with a queue.
class lane_model {
 public:
  explicit lane_model(std::uint64_t position) : position_(position), head_(position) {}

  bool append(const std::string& payload) {
    const std::uint64_t size = record_size(payload.size());
    const std::uint64_t rest = ring_size - position_ % ring_size;
    const std::uint64_t padding = size <= rest ? 0 : rest;
    if (position_ - head_ + padding + size > ring_size)
      return false;
    position_ += padding + size;
    appended_.push_back({payload, position_});
    return true;
  }
  void publish() {
    published_.insert(published_.end(), appended_.begin(), appended_.end());
    appended_.clear();
  }
  std::optional<std::string> take() {
    if (published_.empty())
      return std::nullopt;
    const record first = published_.front();
    published_.pop_front();
    done_ = first.end;
    return first.payload;
  }
  void give_back() { head_ = done_.value_or(head_); }

 private:
  struct record {
    std::string payload;
    std::uint64_t end;
  };
  std::uint64_t position_;
  std::uint64_t head_;
  std::optional<std::uint64_t> done_;
  std::deque<record> appended_;
  std::deque<record> published_;
};

TEST(Lane, DoesWhatAQueueDoesInAnyOrderOfOperations) {
  for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{64}, last_position - 1000}) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", from " + std::to_string(start));
      std::mt19937 random{seed};
      lane l{start};
      lane_model model{start};
      unsigned refused = 0;
      unsigned taken = 0;
      for (int i = 0; i < 5000; ++i) {
        switch (random() % 6) {
          case 0:
          case 1: {
            const std::string payload =
                text_of(random() % (ring_size / 2 - record_header_size + 1));
            const bool fits = model.append(payload);
            ASSERT_EQ(l.append(payload), fits) << "operation " << i;
            refused += fits ? 0 : 1;
            break;
          }
          case 2:
            (void)l.writer.publish();
            model.publish();
            break;
          case 3:
          case 4: {
            const auto got = l.take();
            ASSERT_EQ(got, model.take()) << "operation " << i;
            taken += got ? 1 : 0;
            break;
          }
          default:
            l.reader.publish_head();
            model.give_back();
        }
      }
      EXPECT_GT(refused, 50U);
      EXPECT_GT(taken, 500U);
      EXPECT_GT(l.paddings, 50U);
      EXPECT_TRUE(l.surroundings_untouched());
    }
  }
}

}  // namespace
}  // namespace atbus::detail
