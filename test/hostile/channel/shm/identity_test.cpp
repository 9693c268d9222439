// A file that has a segment's name but not its header, or not all of it: refused by both sides with
// an error that names what is wrong, what was found and what was expected; and left as it was.
#include <limits>

#include "hostile/channel/shm/hostile_channel.h"

namespace atbus::hostile {
namespace {

using detail::segment_identity;

class SegmentIdentity : public hostile_channel {
 protected:
  void SetUp() override { open_receiver().close(); }

  // What both sides say; the file must not change by it.
  void expect_refusal(errc code, std::initializer_list<std::string> facts) {
    const std::string before = content();
    const auto in = receiver::open("shm://victim", receiving_any_geometry());
    const auto out = sender::open("shm://victim", sending());
    ASSERT_FALSE(in);
    ASSERT_FALSE(out);
    for (const error& e : {in.error(), out.error()}) {
      EXPECT_EQ(e.code(), code) << e.text();
      EXPECT_TRUE(is_printable(e.text())) << e.text();
      EXPECT_NE(e.text().find("victim"), std::string::npos) << e.text();
      for (const std::string& fact : facts)
        EXPECT_NE(e.text().find(fact), std::string::npos) << "'" << fact << "' in: " << e.text();
    }
    EXPECT_EQ(content(), before);
  }
  void expect_refusal_after(const std::function<void(segment_identity&)>& change, errc code,
                            std::initializer_list<std::string> facts) {
    raw_segment file = raw();
    segment_identity& id = file.header().identity;
    const segment_identity good = id;
    change(id);
    expect_refusal(code, facts);
    id = good;
  }

 private:
  // An explicit geometry that differs is an error of its own.
  [[nodiscard]] receiver_options receiving_any_geometry() const {
    receiver_options o = receiving();
    o.lanes = 0;
    o.lane_size = o.message_limit = 0;
    return o;
  }
  [[nodiscard]] std::string content() const {
    const int fd = ::open(directory_.segment_path("victim").c_str(), O_RDONLY | O_CLOEXEC);
    std::string bytes(64 * 1024, '\0');
    const ssize_t n = pread(fd, bytes.data(), bytes.size(), 0);
    ::close(fd);
    bytes.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return bytes;
  }
};

TEST_F(SegmentIdentity, OfAnotherMagicIsNoSegment) {
  expect_refusal_after([](segment_identity& id) { std::memcpy(id.magic, "otherSEG", 8); },
                       errc::not_a_segment, {"otherSEG", "atbusSEG"});
}

TEST_F(SegmentIdentity, IsShownPrintablyWhenItsMagicIsNot) {
  expect_refusal_after([](segment_identity& id) { std::memcpy(id.magic, "\x1b[31m\xff\n\r", 8); },
                       errc::not_a_segment, {"atbusSEG"});
}

TEST_F(SegmentIdentity, OfAnOlderOrNewerVersionIsRefusedWithBothVersions) {
  for (const std::uint32_t version : {0U, detail::layout_version + 1, 0xffffffffU}) {
    expect_refusal_after([&](segment_identity& id) { id.version = version; },
                         errc::version_mismatch,
                         {std::to_string(version), std::to_string(detail::layout_version)});
  }
}

TEST_F(SegmentIdentity, WithAnotherHeaderOrSlotSizeIsRefused) {
  for (const std::uint32_t size : {0U, 1U, 2040U, 4096U, 0xffffffffU}) {
    expect_refusal_after([&](segment_identity& id) { id.header_size = size; },
                         errc::geometry_mismatch,
                         {std::to_string(size), std::to_string(sizeof(detail::segment_header))});
    expect_refusal_after([&](segment_identity& id) { id.slot_size = size; },
                         errc::geometry_mismatch,
                         {std::to_string(size), std::to_string(sizeof(detail::lane_slot))});
  }
}

TEST_F(SegmentIdentity, WithAnImpossibleNumberOfLanesIsRefused) {
  for (const std::uint32_t count : {0U, detail::max_lanes + 1, 0x80000000U, 0xffffffffU}) {
    expect_refusal_after([&](segment_identity& id) { id.lane_count = count; },
                         errc::geometry_mismatch,
                         {std::to_string(count), std::to_string(detail::max_lanes)});
  }
}

TEST_F(SegmentIdentity, WithAnotherPossibleNumberOfLanesContradictsItself) {
  for (const std::uint32_t count : {1U, 2U, 4U, detail::max_lanes}) {
    expect_refusal_after([&](segment_identity& id) { id.lane_count = count; },
                         errc::geometry_mismatch, {});
  }
}

TEST_F(SegmentIdentity, WithAnImpossibleLaneSizeIsRefused) {
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2048}, std::uint64_t{5000},
        detail::max_lane_size * 2, std::uint64_t{1} << 63,
        std::numeric_limits<std::uint64_t>::max()}) {
    expect_refusal_after([&](segment_identity& id) { id.lane_size = size; },
                         errc::geometry_mismatch,
                         {std::to_string(size), std::to_string(detail::min_lane_size),
                          std::to_string(detail::max_lane_size)});
  }
}

TEST_F(SegmentIdentity, WithAnotherPossibleLaneSizeContradictsItself) {
  for (const std::uint64_t size : {std::uint64_t{131072}, detail::max_lane_size}) {
    expect_refusal_after([&](segment_identity& id) { id.lane_size = size; },
                         errc::geometry_mismatch, {});
  }
}

TEST_F(SegmentIdentity, WithMessagesTooLargeForItsLanesIsRefused) {
  for (const std::uint64_t limit :
       {std::uint64_t{0}, lane_size / 2, lane_size / 2 - 7, detail::max_message_limit + 1,
        std::uint64_t{1} << 63, std::numeric_limits<std::uint64_t>::max()}) {
    expect_refusal_after([&](segment_identity& id) { id.message_limit = limit; },
                         errc::geometry_mismatch,
                         {std::to_string(limit), std::to_string(lane_size)});
  }
}

TEST_F(SegmentIdentity, WithAnotherOffsetOrFileSizeIsRefused) {
  const detail::segment_geometry g = raw().geometry();
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{1} << 40,
                                    std::numeric_limits<std::uint64_t>::max()}) {
    expect_refusal_after([&](segment_identity& id) { id.table_offset = value; },
                         errc::geometry_mismatch,
                         {std::to_string(value), std::to_string(g.table_offset())});
    expect_refusal_after([&](segment_identity& id) { id.lanes_offset = value; },
                         errc::geometry_mismatch,
                         {std::to_string(value), std::to_string(g.lanes_offset())});
    expect_refusal_after([&](segment_identity& id) { id.file_size = value; },
                         errc::geometry_mismatch,
                         {std::to_string(value), std::to_string(g.file_size())});
  }
}

TEST_F(SegmentIdentity, OfAFileCutShortOrTooLongIsRefusedWithBothSizes) {
  const std::uint64_t whole = raw().geometry().file_size();
  for (const std::uint64_t size : {whole - 1, whole + 1, whole - lane_size, whole * 2,
                                   std::uint64_t{4096}, sizeof(segment_identity)}) {
    ASSERT_EQ(truncate(directory_.segment_path("victim").c_str(), static_cast<off_t>(size)), 0);
    expect_refusal(errc::geometry_mismatch, {std::to_string(size), std::to_string(whole)});
  }
}

TEST_F(SegmentIdentity, OfAFileWithoutAHeaderIsNoSegment) {
  for (const std::uint64_t size : {sizeof(segment_identity) - 1, std::size_t{8}, std::size_t{0}}) {
    ASSERT_EQ(truncate(directory_.segment_path("victim").c_str(), static_cast<off_t>(size)), 0);
    expect_refusal(errc::not_a_segment,
                   {std::to_string(size), std::to_string(sizeof(segment_identity))});
  }
}

TEST_F(SegmentIdentity, OfAFileOfZeroesIsNoSegment) {
  raw_segment file = raw();
  std::memset(file.base(), 0, file.size());
  expect_refusal(errc::not_a_segment, {"atbusSEG"});
}

}  // namespace
}  // namespace atbus::hostile
