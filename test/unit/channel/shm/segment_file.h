// A segment in a directory of its own, and a pen to spoil it with.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "atbus/inspect.hpp"
#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "channel/shm/segment_layout.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus::test {

class SegmentFile : public ::testing::Test {
 protected:
  receiver open_receiver(const std::string& name = "zone") {
    auto opened = receiver::open(
        "shm://" + name,
        {.lanes = 4, .lane_size = 4096, .message_limit = 1024, .directory = directory.path()});
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  sender open_sender(const std::string& name = "zone") {
    auto opened = sender::open("shm://" + name, {.directory = directory.path()});
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  static std::size_t drain(receiver& inbox) {
    std::size_t count = 0;
    while (const std::size_t n = inbox.poll([](bytes_view) {}))
      count += n;
    return count;
  }
  // An orphan with these messages in lane 0.
  void leave_behind(const std::vector<std::string>& messages) {
    auto inbox = open_receiver();
    auto out = open_sender();
    for (const std::string& text : messages)
      ASSERT_TRUE(out.send(as_bytes(text)));
  }

  [[nodiscard]] segment_report look(const std::string& name = "zone") const {
    auto report = inspect_segment(name, directory.path());
    EXPECT_TRUE(report) << report.error().text();
    return report ? *report : segment_report{};
  }
  [[nodiscard]] std::string path(const std::string& file_name) const {
    return directory.path() + "/" + file_name;
  }
  [[nodiscard]] std::string segment_path() const { return path("atbus-segment.zone"); }
  void make_file(const std::string& file_name, const std::string& bytes) const {
    std::ofstream{path(file_name), std::ios::binary} << bytes;
    EXPECT_EQ(chmod(path(file_name).c_str(), 0600), 0);
  }
  [[nodiscard]] std::string content() const {
    std::ostringstream bytes;
    bytes << std::ifstream{segment_path(), std::ios::binary}.rdbuf();
    return std::move(bytes).str();
  }

  template <class Value>
  void spoil(std::uint64_t offset, const Value& value) const {
    const int fd = open(segment_path().c_str(), O_RDWR);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(pwrite(fd, &value, sizeof value, static_cast<off_t>(offset)),
              static_cast<ssize_t>(sizeof value));
    close(fd);
  }
  void spoil_slot(std::uint32_t lane, std::size_t field, std::uint64_t value) const {
    spoil(detail::header_space + lane * sizeof(detail::lane_slot) + field, value);
  }
  [[nodiscard]] static std::uint64_t lane_offset(std::uint32_t lane) {
    return detail::segment_geometry{4, 4096, 1024}.lane_offset(lane);
  }

  scratch_directory directory;
};

}  // namespace atbus::test
