// What a reader hands out, what it refuses, and that the split of the stream changes neither.
#include "channel/stream/frame_reader.h"

#include <initializer_list>
#include <stdexcept>

#include "core/crc32c.h"
#include "stream_bytes.h"
#include "test.h"

namespace atbus::detail {
namespace {

byte_string control(std::initializer_list<int> payload, bool checksums) {
  byte_string bytes;
  for (const int value : payload)
    bytes.push_back(static_cast<std::byte>(value));
  return raw_control_frame(bytes, checksums);
}

constexpr std::uint64_t checked = frame_checked_bit;

// A header on its own, such as a frame that never comes would have.
byte_string header(std::uint64_t words) {
  byte_string bytes(8);
  store_little_endian(bytes.data(), words);
  return bytes;
}

// The fault that `bytes` make behind a good opening.
found after_opening(bytes_view bytes, bool checksums) {
  byte_string stream = opened_stream(checksums);
  append(stream, bytes);
  return read_all(stream, receiving_end(checksums));
}

class FrameReader : public ::testing::TestWithParam<bool> {
 protected:
  static bool checksums() { return GetParam(); }
  static frame_fault fault_of(bytes_view bytes) { return after_opening(bytes, checksums()).fault; }
};
INSTANTIATE_TEST_SUITE_P(Agreed, FrameReader, ::testing::Bool(), [](const auto& with) {
  return std::string{with.param ? "WithChecksums" : "WithoutChecksums"};
});

TEST_P(FrameReader, HandsOutEachFrameInOrderInPlace) {
  byte_string stream = opened_stream(checksums());
  std::vector<std::size_t> offsets;
  for (std::size_t length = 0; length < 200; ++length) {
    offsets.push_back(stream.size() + frame_header_size);
    append(stream, data_frame(byte_string(length, static_cast<std::byte>(length)), checksums()));
  }
  frame_reader reader{receiving_end(checksums())};
  std::size_t next = 0;
  const std::byte* at = stream.data();
  const walk_end ended =
      reader.walk(at, stream.data() + stream.size(), [&](frame_kind kind, bytes_view payload) {
        if (kind == frame_kind::control)
          return frame_flow::go_on;
        EXPECT_EQ(payload.data(), stream.data() + offsets.at(next));
        EXPECT_EQ(payload.size(), next);
        ++next;
        return frame_flow::go_on;
      });
  EXPECT_EQ(ended, walk_end::needs_more);
  EXPECT_EQ(next, offsets.size());
  EXPECT_EQ(at, stream.data() + stream.size());
  EXPECT_EQ(reader.needed(), frame_header_size);
}

TEST_P(FrameReader, StopsWhenItsHandlerAsksAndGoesOnThere) {
  byte_string stream = opened_stream(checksums());
  for (int i = 0; i < 10; ++i)
    append(stream, data_frame(as_bytes("message"), checksums()));
  frame_reader reader{receiving_end(checksums())};
  const std::byte* at = stream.data();
  const std::byte* const end = at + stream.size();
  std::size_t count = 0;
  const auto one = [&count](frame_kind, bytes_view) {
    ++count;
    return frame_flow::stop;
  };
  for (std::size_t i = 1; i <= 11; ++i) {
    ASSERT_EQ(reader.walk(at, end, one), walk_end::stopped);
    ASSERT_EQ(count, i);
  }
  EXPECT_EQ(reader.walk(at, end, one), walk_end::needs_more);
}

TEST_P(FrameReader, IsBehindAFrameWhoseHandlerThrows) {
  byte_string stream = opened_stream(checksums());
  append(stream, data_frame(as_bytes("bad"), checksums()));
  const std::size_t good = stream.size();
  append(stream, data_frame(as_bytes("good"), checksums()));
  frame_reader reader{receiving_end(checksums())};
  const std::byte* at = stream.data();
  const std::byte* const end = at + stream.size();
  const auto throwing = [](frame_kind kind, bytes_view) {
    return kind == frame_kind::data ? throw std::runtime_error{"handler"} : frame_flow::go_on;
  };
  EXPECT_THROW((void)reader.walk(at, end, throwing), std::runtime_error);
  EXPECT_EQ(at, stream.data() + good);
  EXPECT_THROW((void)reader.walk(at, end, throwing), std::runtime_error);
  EXPECT_EQ(reader.walk(at, end, throwing), walk_end::needs_more);
}

TEST_P(FrameReader, SaysHowMuchTheNextFrameNeeds) {
  const byte_string frame = data_frame(byte_string(50, std::byte{1}), checksums());
  for (std::size_t there = 0; there < frame.size(); ++there) {
    const found result = after_opening(bytes_view{frame}.first(there), checksums());
    EXPECT_EQ(result.end, walk_end::needs_more);
    EXPECT_EQ(result.left, there);
    EXPECT_EQ(result.needed, there < 8 ? 8 : frame.size());
  }
}

TEST_P(FrameReader, AcceptsTheLimitAndNotAByteMore) {
  const std::uint32_t limit = receiving_end(checksums()).payload_max;
  EXPECT_EQ(fault_of(data_frame(byte_string(limit), checksums())), frame_fault::none);
  // The header alone is enough, whatever the checksum says.
  const found beyond = after_opening(header(limit + 1), checksums());
  EXPECT_EQ(beyond.fault, frame_fault::too_large);
  EXPECT_EQ(beyond.problem, errc::protocol_error);
  EXPECT_NE(beyond.problem.text().find("65537 bytes, the limit 65536"), std::string::npos)
      << beyond.problem.text();
  EXPECT_EQ(fault_of(header(frame_payload_max)), frame_fault::too_large);
  EXPECT_EQ(fault_of(header(frame_length_mask)), frame_fault::too_large);
  EXPECT_EQ(fault_of(header(checked | (limit + 1))), frame_fault::too_large);
  EXPECT_EQ(fault_of(header(checked | frame_length_mask)), frame_fault::too_large);
}

TEST(FrameReaderLimit, CanBeAllThatAFrameHolds) {
  hello own = receiving_end(true);
  own.payload_max = frame_payload_max;
  byte_string stream = opened_stream(true);
  append(stream, header(checked | frame_payload_max));
  const found result = read_all(stream, own);
  EXPECT_EQ(result.fault, frame_fault::none);
  EXPECT_EQ(result.needed, std::size_t{frame_payload_max} + 8);
  append(stream, header(checked | (frame_payload_max + 1)));
  stream.erase(stream.end() - 16, stream.end() - 8);
  EXPECT_EQ(read_all(stream, own).fault, frame_fault::too_large);
}

TEST_P(FrameReader, RefusesHeadersThatNoPeerWrites) {
  for (std::uint64_t kind = 2; kind < 16; ++kind) {
    EXPECT_EQ(fault_of(header(kind << 28)), frame_fault::unknown_kind);
    EXPECT_EQ(fault_of(header(kind << 28 | checked)), frame_fault::unknown_kind);
  }
  EXPECT_EQ(fault_of(header(0x10000000)), frame_fault::truncated_control);
  EXPECT_EQ(fault_of(header(0x10000003)), frame_fault::truncated_control);
  EXPECT_EQ(fault_of(header(0x18000003)), frame_fault::truncated_control);
  EXPECT_EQ(fault_of(header(0x10000000 + control_payload_max + 1)), frame_fault::control_too_large);
  EXPECT_EQ(fault_of(header(0x18000000 + control_payload_max + 1)), frame_fault::control_too_large);
  EXPECT_EQ(fault_of(header(0x80000000)), frame_fault::unknown_kind);
  EXPECT_EQ(fault_of(header(0xffffffff)), frame_fault::unknown_kind);
  EXPECT_EQ(fault_of(header(0xffffffffffffffff)), frame_fault::unknown_kind);
}

TEST_P(FrameReader, KnowsTheControlFramesAndWhereTheyBelong) {
  EXPECT_EQ(fault_of(control({2, 0, 0, 0}, checksums())), frame_fault::none);
  EXPECT_EQ(fault_of(control({2, 0, 0, 0, 0}, checksums())), frame_fault::overlong_control);
  EXPECT_EQ(fault_of(control({2, 0, 1, 0}, checksums())), frame_fault::reserved_bits);
  EXPECT_EQ(fault_of(control({3, 0, 0, 0}, checksums())), frame_fault::truncated_control);
  EXPECT_EQ(fault_of(control({0, 0, 0, 0}, checksums())), frame_fault::unknown_control);
  EXPECT_EQ(fault_of(control({4, 0, 0, 0, 7, 0, 0, 0}, checksums())), frame_fault::none);
  EXPECT_EQ(fault_of(control({4, 0, 0, 0}, checksums())), frame_fault::truncated_control);
  EXPECT_EQ(fault_of(control({4, 0, 0, 1, 7, 0, 0, 0}, checksums())), frame_fault::reserved_bits);
  EXPECT_EQ(fault_of(control({5, 0, 0, 0}, checksums())), frame_fault::unknown_control);
  EXPECT_EQ(fault_of(control({0xff, 0x7f, 0, 0}, checksums())), frame_fault::unknown_control);
  EXPECT_EQ(fault_of(opened_stream(checksums())), frame_fault::unexpected_control);
}

TEST_P(FrameReader, PassesOverControlFramesThatMayBeIgnored) {
  byte_string bytes = control({4, 0x80, 0xff, 0xff, 1, 2, 3}, checksums());
  append(bytes, control({0xff, 0xff, 0, 0}, checksums()));
  append(bytes, data_frame(as_bytes("after"), checksums()));
  const found result = after_opening(bytes, checksums());
  EXPECT_EQ(result.fault, frame_fault::none);
  ASSERT_EQ(result.frames.size(), 2U);
  EXPECT_EQ(result.frames[0].kind, frame_kind::control);
  EXPECT_EQ(result.frames[1], copy_of(frame_kind::data, as_bytes("after")));
}

TEST_P(FrameReader, SwitchesToLanesOnlyIfBothOfferedThem) {
  byte_string stream;
  hello theirs = sending_end(checksums());
  theirs.offers_lanes = false;
  append(stream, hello_frame(theirs));
  append(stream, control({2, 0, 0, 0}, checksums()));
  EXPECT_EQ(read_all(stream, receiving_end(checksums())).fault, frame_fault::unexpected_control);
}

TEST_P(FrameReader, TakesNothingAfterAGoodbye) {
  byte_string stream = opened_stream(checksums());
  append(stream, goodbye_frame(errc::timed_out, checksums()));
  frame_reader reader{receiving_end(checksums())};
  std::size_t controls = 0;
  const auto count = [&controls](frame_kind kind, bytes_view) {
    controls += kind == frame_kind::control;
    return frame_flow::go_on;
  };
  const std::byte* at = stream.data();
  const std::byte* const end = at + stream.size();
  EXPECT_EQ(reader.walk(at, end, count), walk_end::needs_more);
  EXPECT_EQ(controls, 2U);
  EXPECT_TRUE(reader.goodbye());
  EXPECT_EQ(reader.goodbye_reason(), errc::timed_out);
  EXPECT_EQ(reader.walk(at, end, count), walk_end::needs_more) << "the end is no fault";

  const std::byte one_more{0};
  at = &one_more;
  EXPECT_EQ(reader.walk(at, at + 1, count), walk_end::failed);
  EXPECT_EQ(reader.fault(), frame_fault::after_goodbye);
}

TEST_P(FrameReader, HandsOutNothingAfterAFault) {
  byte_string stream = opened_stream(checksums());
  append(stream, header(0xffffffff));
  frame_reader reader{receiving_end(checksums())};
  std::size_t frames = 0;
  const auto count = [&frames](frame_kind, bytes_view) {
    ++frames;
    return frame_flow::go_on;
  };
  const std::byte* at = stream.data();
  EXPECT_EQ(reader.walk(at, at + stream.size(), count), walk_end::failed);
  const byte_string good = data_frame(as_bytes("good"), checksums());
  at = good.data();
  EXPECT_EQ(reader.walk(at, at + good.size(), count), walk_end::failed);
  EXPECT_EQ(frames, 1U);
  EXPECT_EQ(reader.fault(), frame_fault::unknown_kind);
}

TEST(FrameReaderChecksum, FindsEveryBitThatFlipsInAFrame) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{64}}) {
    const byte_string good = data_frame(byte_string(length, std::byte{0x5a}), true);
    for (std::size_t bit = 0; bit < 8 * (8 + length); ++bit) {
      byte_string bad = good;
      bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      append(bad, byte_string(200));  // so that a longer length finds bytes
      const found result = after_opening(bad, true);
      ASSERT_EQ(result.end, bit < 32 && result.fault == frame_fault::none ? walk_end::needs_more
                                                                          : walk_end::failed);
      ASSERT_EQ(result.frames.size(), 1U) << "bit " << bit;  // the hello
    }
  }
}

TEST(FrameReaderChecksum, DoesNotCoverThePadding) {
  byte_string frame = data_frame(as_bytes("hello"), true);
  frame.back() = std::byte{0xff};
  EXPECT_EQ(after_opening(frame, true).fault, frame_fault::none);
}

TEST(FrameReaderChecksum, IsWrongInTheThousandthFrame) {
  byte_string stream = opened_stream(true);
  for (int i = 1; i <= 1000; ++i)
    append(stream, data_frame(as_bytes("message"), true));
  stream[stream.size() - 16 + 4] ^= std::byte{1};
  const found result = read_all(stream, receiving_end(true));
  EXPECT_EQ(result.fault, frame_fault::bad_checksum);
  EXPECT_EQ(result.problem, errc::protocol_error);
  EXPECT_EQ(result.frames.size(), 1000U);  // with the hello
}

TEST_P(FrameReader, RefusesAChecksumInAnUncheckedFrame) {
  for (byte_string frame :
       {data_frame(as_bytes("hello"), false), control({2, 0, 0, 0}, false), header(1)}) {
    frame[4] = std::byte{1};
    EXPECT_EQ(fault_of(frame), frame_fault::unexpected_checksum);
  }
}

// The other end did not know yet, or did not mind the work.
TEST(FrameReaderChecksum, MayBeThereThoughNoneIsAgreedOn) {
  byte_string bytes;
  append(bytes, data_frame(as_bytes("early"), true));
  append(bytes, data_frame({}, true));
  append(bytes, control({4, 0x80, 0, 0}, true));
  append(bytes, data_frame(as_bytes("later"), false));
  append(bytes, data_frame(as_bytes("late, and checked"), true));
  append(bytes, goodbye_frame(errc::ok, true));
  const found result = after_opening(bytes, false);
  EXPECT_EQ(result.fault, frame_fault::none);
  EXPECT_EQ(result.left, 0U);
  ASSERT_EQ(result.frames.size(), 6U);
  EXPECT_EQ(result.frames[1], copy_of(frame_kind::data, as_bytes("early")));
  EXPECT_EQ(result.frames[2], copy_of(frame_kind::data, {}));
  EXPECT_EQ(result.frames[3], copy_of(frame_kind::data, as_bytes("later")));
  EXPECT_EQ(result.frames[4], copy_of(frame_kind::data, as_bytes("late, and checked")));
}

TEST_P(FrameReader, VerifiesEveryFrameThatCarriesAChecksum) {
  for (byte_string frame : {data_frame(as_bytes("hello"), true), control({2, 0, 0, 0}, true)}) {
    frame[4] ^= std::byte{1};
    EXPECT_EQ(fault_of(frame), frame_fault::bad_checksum);
    store_little_endian<std::uint32_t>(frame.data() + 4, 0);
    EXPECT_EQ(fault_of(frame), frame_fault::bad_checksum) << "0 passes as none";
  }
  // Behind frames of the other sort too.
  byte_string bytes = data_frame(as_bytes("first"), checksums());
  append(bytes, data_frame(as_bytes("second"), true));
  bytes.back() ^= std::byte{1};  // padding
  EXPECT_EQ(fault_of(bytes), frame_fault::none);
  bytes[bytes.size() - 8] ^= std::byte{1};
  EXPECT_EQ(fault_of(bytes), frame_fault::bad_checksum);
}

TEST(FrameReaderChecksum, IsMissedWhereItIsAgreedOn) {
  const found data = after_opening(data_frame(as_bytes("hello"), false), true);
  EXPECT_EQ(data.fault, frame_fault::missing_checksum);
  EXPECT_EQ(data.problem, errc::protocol_error);
  EXPECT_EQ(data.frames.size(), 1U);  // the hello
  EXPECT_EQ(after_opening(header(5), true).fault, frame_fault::missing_checksum)
      << "waits for the rest";
  EXPECT_EQ(after_opening(goodbye_frame(errc::ok, false), true).fault,
            frame_fault::missing_checksum);
  byte_string second = data_frame(as_bytes("one"), true);
  append(second, data_frame(as_bytes("two"), false));
  EXPECT_EQ(after_opening(second, true).fault, frame_fault::missing_checksum);
  // Whichever end asked for them.
  byte_string stream;
  append(stream, hello_frame(sending_end(false)));
  append(stream, data_frame(as_bytes("hello"), false));
  EXPECT_EQ(read_all(stream, receiving_end(true)).fault, frame_fault::missing_checksum);
  EXPECT_EQ(read_all(stream, receiving_end(false)).fault, frame_fault::none);
}

TEST_P(FrameReader, FindsAFlippedCheckedBit) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{64}}) {
    byte_string frame = data_frame(byte_string(length, std::byte{0x5a}), true);
    frame[3] ^= std::byte{0x08};
    EXPECT_EQ(fault_of(frame), frame_fault::unexpected_checksum);
    frame = data_frame(byte_string(length, std::byte{0x5a}), false);
    frame[3] ^= std::byte{0x08};
    EXPECT_EQ(fault_of(frame), frame_fault::bad_checksum);
  }
  byte_string frame = control({2, 0, 0, 0}, true);
  frame[3] ^= std::byte{0x08};
  EXPECT_EQ(fault_of(frame), frame_fault::unexpected_checksum);
}

TEST(FrameReaderChecksum, IsNotOmittedFromAnOpening) {
  byte_string stream = opened_stream(false);
  store_little_endian<std::uint32_t>(stream.data() + 4, 0);
  EXPECT_EQ(read_all(stream, receiving_end(false)).fault, frame_fault::bad_checksum);
  stream[3] ^= std::byte{0x08};
  EXPECT_EQ(read_all(stream, receiving_end(false)).fault, frame_fault::bad_opening);
  stream = opened_stream(false);
  stream[3] ^= std::byte{0x08};
  EXPECT_EQ(read_all(bytes_view{stream}.first(8), receiving_end(false)).fault,
            frame_fault::bad_opening);
}

// The first eight bytes are enough: nobody waits for the rest.
TEST(FrameReaderOpening, RefusesOtherProtocolsAtOnce) {
  const std::string_view first_words[] = {
      "GET / HTTP/1.1\r\n\r\n",
      "SSH-2.0-",
      "PRI * HTTP/2.0",
      "*1\r\n$4\r\nPING\r\n",
      {"\x16\x03\x01\x02\x00\x01\x00\x01", 8},
      {"\x05\x01\x00\0\0\0\0\0", 8},
      {"\0\0\0\0\0\0\0\0", 8},
      {"\xff\xff\xff\xff\xff\xff\xff\xff", 8},
  };
  for (const std::string_view words : first_words) {
    const found result = read_all(as_bytes(words), receiving_end(true));
    EXPECT_EQ(result.fault, frame_fault::bad_opening) << words;
    EXPECT_EQ(result.problem, errc::protocol_error);
    EXPECT_TRUE(result.frames.empty());
  }
}

TEST(FrameReaderOpening, ComesFirst) {
  EXPECT_EQ(read_all(data_frame(as_bytes("hello"), true), receiving_end(true)).fault,
            frame_fault::bad_opening);
  EXPECT_EQ(read_all(goodbye_frame(errc::ok, true), receiving_end(true)).fault,
            frame_fault::bad_opening);
  byte_string padded(40);
  padded[0] = std::byte{3};  // a goodbye as long as a hello
  EXPECT_EQ(read_all(raw_control_frame(padded, true), receiving_end(true)).fault,
            frame_fault::bad_opening);
}

TEST(FrameReaderOpening, TellsBothRangesWhenNoVersionFits) {
  hello theirs = sending_end(true);
  theirs.version_min = 7;
  theirs.version_max = 9;
  const found result = read_all(hello_frame(theirs), receiving_end(true));
  EXPECT_EQ(result.fault, frame_fault::no_common_version);
  EXPECT_EQ(result.problem, errc::version_mismatch);
  EXPECT_NE(result.problem.text().find("speaks versions 7 to 9, this one version 1."),
            std::string::npos)
      << result.problem.text();
}

TEST(FrameReaderOpening, NoticesItsOwn) {
  EXPECT_EQ(read_all(hello_frame(receiving_end(true)), receiving_end(true)).fault,
            frame_fault::own_opening);
}

TEST(FrameReaderOpening, IsReported) {
  const byte_string stream = opened_stream(false);
  frame_reader reader{receiving_end(false)};
  const std::byte* at = stream.data();
  EXPECT_FALSE(reader.opened());
  (void)reader.walk(at, at + stream.size(), [&reader](frame_kind kind, bytes_view payload) {
    EXPECT_EQ(kind, frame_kind::control);
    EXPECT_EQ(payload.size(), hello_size);
    EXPECT_TRUE(reader.opened());
    return frame_flow::go_on;
  });
  EXPECT_EQ(reader.agreed(), (agreement{.version = 1,
                                        .checksums = false,
                                        .lanes = true,
                                        .send_payload_max = 64 * 1024,
                                        .peer_session = 2}));
  EXPECT_FALSE(reader.goodbye());
  EXPECT_TRUE(reader.problem());
}

// Random lengths, kinds and flipped bits, whole and cut at every place; each part in memory of its
// very size, so that a sanitizer sees what is read beyond it.
TEST(FrameReaderSplit, ChangesNothing) {
  std::mt19937 random{11};
  for (int round = 0; round < 60; ++round) {
    const bool checksums = random() % 2 == 0;
    byte_string stream = opened_stream(checksums);
    for (int i = 0; i < 5; ++i) {
      const auto of_either_sort = [&] { return checksums || random() % 2 == 0; };
      append(stream, data_frame(byte_string(random() % 40, std::byte{7}), of_either_sort()));
      if (random() % 4 == 0)
        append(stream, control({5, 0x80, 0, 0}, of_either_sort()));
    }
    if (random() % 2 == 0)
      stream[random() % stream.size()] ^= static_cast<std::byte>(1U << (random() % 8));
    const found whole = read_all(stream, receiving_end(checksums));

    for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
      frame_reader reader{receiving_end(checksums)};
      std::vector<handed_out> frames;
      const auto keep = [&frames](frame_kind kind, bytes_view payload) {
        frames.push_back(copy_of(kind, payload));
        return frame_flow::go_on;
      };
      const auto first = std::make_unique<std::byte[]>(cut);
      std::copy_n(stream.data(), cut, first.get());
      const std::byte* at = first.get();
      (void)reader.walk(at, first.get() + cut, keep);
      const auto from = static_cast<std::size_t>(at - first.get());
      const auto rest = std::make_unique<std::byte[]>(stream.size() - from);
      std::copy_n(stream.data() + from, stream.size() - from, rest.get());
      at = rest.get();
      (void)reader.walk(at, rest.get() + stream.size() - from, keep);
      ASSERT_EQ(frames, whole.frames) << "cut at " << cut;
      ASSERT_EQ(reader.fault(), whole.fault) << "cut at " << cut;
    }
  }
}

// Every order of checked and unchecked frames, byte by byte.
TEST(FrameReaderSplit, ChangesNothingWhereCheckedAndUncheckedFramesAlternate) {
  constexpr unsigned frames = 6;
  for (unsigned sorts = 0; sorts < 1U << frames; ++sorts) {
    byte_string stream = opened_stream(false);
    for (unsigned i = 0; i < frames; ++i) {
      const bool with_checksum = (sorts >> i & 1) != 0;
      append(stream, i == 3 ? control({2, 0, 0, 0}, with_checksum)
                            : data_frame(byte_string(i * 3, std::byte{1}), with_checksum));
    }
    const found whole = read_all(stream, receiving_end(false));
    ASSERT_EQ(whole.frames.size(), 1 + frames);
    ASSERT_EQ(whole.left, 0U);

    frame_reader reader{receiving_end(false)};
    std::vector<handed_out> handed;
    const std::byte* at = stream.data();
    for (std::size_t there = 1; there <= stream.size(); ++there) {
      const walk_end ended =
          reader.walk(at, stream.data() + there, [&handed](frame_kind kind, bytes_view payload) {
            handed.push_back(copy_of(kind, payload));
            return frame_flow::go_on;
          });
      ASSERT_EQ(ended, walk_end::needs_more);
      ASSERT_GT(at + reader.needed(), stream.data() + there);
    }
    EXPECT_EQ(handed, whole.frames);
    EXPECT_EQ(at, stream.data() + stream.size());
  }
}

}  // namespace
}  // namespace atbus::detail
