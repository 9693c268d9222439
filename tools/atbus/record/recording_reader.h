// Reads a recording: doc/design/record.md, "A recording".
//
// Whatever the bytes of the file are: it ends with a reason, and takes no more memory than a message may have.
// What stands in front of the first damaged packet is read. One thread.
#pragma once

#include <pcap/pcap.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "atbus/bytes.hpp"
#include "protocol/recording_entry.h"

namespace atbus::tool {

class recording_reader {
 public:
  // Throws std::runtime_error with the reason: it can't be read, or is no recording.
  explicit recording_reader(const std::string& path);
  // Takes the file over, also if it throws. `name` is for error texts.
  recording_reader(std::FILE* file, std::string name);

  struct item {
    std::chrono::nanoseconds at;  // since 1970
    detail::recording_entry entry;
    bytes_view payload;  // of the whole message
  };
  // The next entry, with all parts of its message; null: there is no more. Valid until the next call.
  [[nodiscard]] const item* next();

  // What is wrong with the bytes at which it has ended; empty: it has come to the end of the file.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  // Whether the last entry was an end.
  [[nodiscard]] bool has_end() const noexcept { return has_end_; }
  // Messages of which parts are missing. They were left out.
  [[nodiscard]] std::uint64_t incomplete() const noexcept { return incomplete_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  struct closer {
    void operator()(pcap_t* at) const noexcept { pcap_close(at); }
  };

  // False: there is none, or it is none.
  bool read_entry();
  bool end_with(std::string problem);
  // Whether the message is complete with it.
  bool add_part(bytes_view part);
  void drop_parts() noexcept;

  const std::string name_;
  std::unique_ptr<pcap_t, closer> in_;
  item item_;
  bytes_view packet_payload_;
  std::vector<std::byte> message_;  // of several packets
  detail::recording_entry first_;   // part of it
  std::uint32_t parts_read_ = 0;    // of it; 0: there is none
  std::uint64_t packets_ = 0;
  std::string problem_;
  bool has_end_ = false;
  std::uint64_t incomplete_ = 0;
};

}  // namespace atbus::tool
