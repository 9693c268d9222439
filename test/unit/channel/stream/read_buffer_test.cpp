// Bytes between a socket and a handler: where they lie, when they move, how much memory they take.
#include "channel/stream/read_buffer.h"

#include <stdexcept>

#include "stream_bytes.h"
#include "test.h"

namespace atbus::detail {
namespace {

// One connection: a stream that arrives in parts of any size, and what was made of it.
class connection {
 public:
  connection(read_space& space, byte_string stream, const hello& own = receiving_end(true))
      : buffer{space, own}, stream_{std::move(stream)} {}

  // Lets the kernel hand over at most `most` more bytes. Returns how many came.
  std::size_t read(std::size_t most) {
    mutable_bytes place;
    const status prepared = buffer.prepare(place);
    EXPECT_TRUE(prepared) << prepared.text();
    EXPECT_FALSE(place.empty());
    const std::size_t count = std::min({most, place.size(), stream_.size() - position_});
    if (count != 0)
      std::memcpy(place.data(), stream_.data() + position_, count);
    position_ += count;
    buffer.received(count);
    EXPECT_LE(buffer.memory(), buffer.memory_limit());
    return count;
  }

  walk_end walk(std::size_t most_frames = SIZE_MAX) {
    const walk_end ended = buffer.walk([this, &most_frames](frame_kind kind, bytes_view payload) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(payload.data()) % 8, 0U);
      frames.push_back(copy_of(kind, payload));
      return --most_frames == 0 ? frame_flow::stop : frame_flow::go_on;
    });
    EXPECT_LE(buffer.memory(), buffer.memory_limit());
    return ended;
  }

  [[nodiscard]] bool at_end() const { return position_ == stream_.size(); }
  [[nodiscard]] bool matches(const hello& own = receiving_end(true)) const {
    const found expected = read_all(stream_, own);
    return frames == expected.frames && buffer.reader().fault() == expected.fault &&
           buffer.pending() == expected.left;
  }

  read_buffer buffer;
  std::vector<handed_out> frames;

 private:
  byte_string stream_;
  std::size_t position_ = 0;
};

byte_string stream_of(std::initializer_list<std::size_t> lengths) {
  byte_string stream = opened_stream(true);
  std::uint8_t fill = 0;
  for (const std::size_t length : lengths)
    append(stream, data_frame(byte_string(length, std::byte{++fill}), true));
  return stream;
}

TEST(ReadBuffer, HandsOutWhatWasReadWithoutMemoryOfItsOwn) {
  read_space space{64 * 1024};
  connection one{space, stream_of({8, 100, 0, 3})};
  EXPECT_NE(one.read(SIZE_MAX), 0U);
  EXPECT_EQ(one.walk(), walk_end::needs_more);
  EXPECT_TRUE(one.matches());
  EXPECT_EQ(one.buffer.memory(), 0U);
}

TEST(ReadBuffer, ReadsAtTheSamePlaceAgainWhenNothingIsLeft) {
  read_space space{64 * 1024};
  connection one{space, stream_of({8, 8})};
  mutable_bytes first;
  ASSERT_TRUE(one.buffer.prepare(first));
  EXPECT_EQ(first.size(), space.size());
  (void)one.read(frame_size(hello_size));
  (void)one.walk();
  mutable_bytes second;
  ASSERT_TRUE(one.buffer.prepare(second));
  EXPECT_EQ(second.data(), first.data());
}

TEST(ReadBuffer, MovesNothingButAPartialTail) {
  read_space space{64 * 1024};
  connection one{space, stream_of({24, 24, 24})};
  (void)one.read(frame_size(hello_size) + 2 * frame_size(24) + 10);
  (void)one.walk();
  EXPECT_EQ(one.buffer.pending(), 10U);
  mutable_bytes place;
  ASSERT_TRUE(one.buffer.prepare(place));
  EXPECT_EQ(place.size(), space.size() - 10);
  while (one.read(1) != 0)
    (void)one.walk();
  EXPECT_TRUE(one.matches());
  EXPECT_EQ(one.buffer.memory(), 0U);
}

TEST(ReadBuffer, LeavesALongTailWhereItIsWhileThereIsRoom) {
  read_space space{64 * 1024};
  connection one{space, stream_of({20000})};
  mutable_bytes start;
  ASSERT_TRUE(one.buffer.prepare(start));
  (void)one.read(frame_size(hello_size) + 10000);
  (void)one.walk();
  mutable_bytes place;
  ASSERT_TRUE(one.buffer.prepare(place));
  EXPECT_EQ(place.data(), start.data() + frame_size(hello_size) + 10000);
  (void)one.read(SIZE_MAX);
  (void)one.walk();
  EXPECT_TRUE(one.matches());
}

TEST(ReadBuffer, AssemblesAFrameLargerThanTheSpaceOnce) {
  read_space space{4096};
  hello own = receiving_end(true);
  own.payload_max = 1 << 20;
  connection one{space, stream_of({1 << 20, 5, 1 << 20}), own};
  while (one.read(SIZE_MAX) != 0)
    (void)one.walk();
  EXPECT_TRUE(one.matches(own));
  EXPECT_EQ(one.frames.size(), 4U);
  EXPECT_EQ(one.buffer.memory_limit(), frame_size(1 << 20));
  mutable_bytes place;
  ASSERT_TRUE(one.buffer.prepare(place));
  EXPECT_EQ(one.buffer.memory(), 0U) << "kept what it no longer needs";
}

TEST(ReadBuffer, ReservesWhatHasArrivedAndNotWhatWasAnnounced) {
  read_space space{4096};
  hello own = receiving_end(true);
  own.payload_max = frame_payload_max;
  byte_string stream = opened_stream(true);
  stream.resize(stream.size() + 8 + 100000);
  store_little_endian<std::uint64_t>(stream.data() + frame_size(hello_size),
                                     frame_checked_bit | frame_payload_max);
  connection one{space, stream, own};
  while (one.read(1000) != 0) {
    (void)one.walk();
    ASSERT_LE(one.buffer.memory(), std::max<std::size_t>(16 * 1024, 2 * one.buffer.pending()));
  }
  EXPECT_GE(one.buffer.pending(), 100000U);
}

TEST(ReadBuffer, RefusesALengthBeyondTheLimitBeforeItReservesAnything) {
  read_space space{4096};
  byte_string stream = opened_stream(true);
  stream.resize(stream.size() + 8);
  store_little_endian<std::uint64_t>(stream.data() + frame_size(hello_size),
                                     frame_checked_bit | frame_payload_max);
  connection one{space, stream};
  (void)one.read(SIZE_MAX);
  EXPECT_EQ(one.walk(), walk_end::failed);
  EXPECT_EQ(one.buffer.reader().fault(), frame_fault::too_large);
  EXPECT_EQ(one.buffer.memory(), 0U);
  mutable_bytes place;
  EXPECT_EQ(one.buffer.prepare(place), errc::invalid_argument) << "reads on after a fault";
}

TEST(ReadBuffer, GivesWayToOthersAndKeepsItsTail) {
  read_space space{64 * 1024};
  connection first{space, stream_of({100, 200, 3000, 20000, 1})};
  connection second{space, stream_of({7, 30000, 8, 9})};
  // The second one ends sooner; parts of 1100 bytes leave tails of every kind.
  for (;;) {
    const std::size_t came = first.read(1100) + second.read(1100);
    (void)first.walk();
    (void)second.walk();
    if (came == 0)
      break;
  }
  EXPECT_TRUE(first.matches());
  EXPECT_TRUE(second.matches());
}

TEST(ReadBuffer, KeepsLittleForAnIdleConnection) {
  read_space space{64 * 1024};
  connection idle{space, stream_of({100})};
  (void)idle.read(SIZE_MAX);
  (void)idle.walk();
  connection half{space, stream_of({100})};
  (void)half.read(frame_size(hello_size) + 50);
  (void)half.walk();
  connection other{space, stream_of({100})};
  (void)other.read(SIZE_MAX);
  EXPECT_EQ(idle.buffer.memory(), 0U);
  EXPECT_LE(half.buffer.memory(), 4096U);
  EXPECT_LE(sizeof(read_buffer), 256U);
  (void)half.read(SIZE_MAX);
  (void)half.walk();
  EXPECT_TRUE(half.matches());
}

// One byte at a time, another connection always in between: the frame lies in memory of its own and
// is not copied forth and back.
TEST(ReadBuffer, DoesNotCopyALargeFrameForEachByteOfIt) {
  read_space space{64 * 1024};
  connection slow{space, stream_of({50000})};
  connection other{space, stream_of({})};
  (void)slow.read(frame_size(hello_size) + 8 + 30000);
  (void)slow.walk();
  (void)other.read(1);
  mutable_bytes place;
  ASSERT_TRUE(slow.buffer.prepare(place));
  const std::byte* const stays = place.data();
  for (std::ptrdiff_t i = 0; i < 100; ++i) {
    (void)other.read(1);
    (void)other.walk();
    ASSERT_TRUE(slow.buffer.prepare(place));
    ASSERT_EQ(place.data(), stays + i);
    (void)slow.read(1);
    (void)slow.walk();
  }
  while (slow.read(SIZE_MAX) != 0)
    (void)slow.walk();
  EXPECT_TRUE(slow.matches());
}

TEST(ReadBuffer, KeepsWhatAHandlerLeftWhileOthersRead) {
  read_space space{64 * 1024};
  connection stopped{space, stream_of({10, 20, 30, 40})};
  connection other{space, stream_of({1000, 1000})};
  (void)stopped.read(SIZE_MAX);
  EXPECT_EQ(stopped.walk(2), walk_end::stopped);
  mutable_bytes place;
  EXPECT_EQ(stopped.buffer.prepare(place), errc::invalid_argument) << "messages wait";
  EXPECT_TRUE(place.empty());
  (void)other.read(SIZE_MAX);
  (void)other.walk();
  EXPECT_EQ(stopped.walk(1), walk_end::stopped);
  EXPECT_EQ(stopped.walk(), walk_end::needs_more);
  EXPECT_TRUE(stopped.matches());
  EXPECT_TRUE(other.matches());
}

TEST(ReadBuffer, LetsAHandlerReadAnotherConnectionOfTheSameSpace) {
  read_space space{64 * 1024};
  connection outer{space, stream_of({100, 200})};
  connection inner{space, stream_of({300, 20000, 400})};
  (void)outer.read(SIZE_MAX);
  (void)outer.buffer.walk([&](frame_kind kind, bytes_view payload) {
    (void)inner.read(5000);
    (void)inner.walk();
    outer.frames.push_back(copy_of(kind, payload));  // after the other has read
    return frame_flow::go_on;
  });
  EXPECT_TRUE(outer.matches());
  while (inner.read(SIZE_MAX) != 0)
    (void)inner.walk();
  EXPECT_TRUE(inner.matches());
}

TEST(ReadBuffer, IsNotWalkedFromInsideItsOwnHandler) {
  read_space space{4096};
  connection one{space, stream_of({1, 2})};
  (void)one.read(SIZE_MAX);
  std::size_t seen = 0;
  (void)one.buffer.walk([&](frame_kind, bytes_view) {
    EXPECT_EQ(one.walk(), walk_end::stopped);
    mutable_bytes place;
    EXPECT_EQ(one.buffer.prepare(place), errc::invalid_argument);
    ++seen;
    return frame_flow::go_on;
  });
  EXPECT_EQ(seen, 3U);
  EXPECT_TRUE(one.frames.empty());
}

TEST(ReadBuffer, GoesOnBehindAFrameWhoseHandlerThrew) {
  read_space space{4096};
  connection one{space, stream_of({1, 2})};
  (void)one.read(SIZE_MAX);
  EXPECT_THROW((void)one.buffer.walk([](frame_kind, bytes_view) -> frame_flow {
    throw std::runtime_error{"handler"};
  }),
               std::runtime_error);
  EXPECT_EQ(one.walk(), walk_end::needs_more);
  EXPECT_EQ(one.frames.size(), 2U);  // without the hello
}

TEST(ReadBuffer, LeavesTheSpaceWhenItIsDestroyed) {
  read_space space{4096};
  {
    connection gone{space, stream_of({100})};
    (void)gone.read(60);
    (void)gone.walk();
  }
  connection next{space, stream_of({100})};
  (void)next.read(SIZE_MAX);
  (void)next.walk();
  EXPECT_TRUE(next.matches());
}

TEST(ReadBuffer, HandsOutTheSameHoweverManyTakeTurns) {
  std::mt19937 random{5};
  for (int round = 0; round < 200; ++round) {
    read_space space{4096U << (random() % 5)};
    std::vector<std::unique_ptr<connection>> all;
    for (int i = 0; i < 4; ++i) {
      byte_string stream = opened_stream(true);
      while (stream.size() < 60000) {
        const std::size_t length = random() % (std::size_t{1} << (random() % 16));
        append(stream, data_frame(byte_string(length, std::byte{3}), true));
      }
      all.push_back(std::make_unique<connection>(space, std::move(stream)));
    }
    std::vector<bool> may_read(all.size(), true);
    for (bool busy = true; busy;) {
      busy = false;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (may_read[i])
          (void)all[i]->read(random() % 30000);
        const bool stops = random() % 3 == 0;
        may_read[i] = all[i]->walk(stops ? 1 + random() % 4 : SIZE_MAX) == walk_end::needs_more;
        busy = busy || !may_read[i] || !all[i]->at_end();
      }
    }
    for (const auto& one : all)
      ASSERT_TRUE(one->matches());
  }
}

}  // namespace
}  // namespace atbus::detail
