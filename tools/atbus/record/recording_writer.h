// Writes a recording: doc/design/record.md, "A recording".
//
// What is flushed survives the death of the process. A disk without room ends the recording: the file keeps
// what the last flush has written, and an entry that says how many messages are missing, if that fits.
//
// One thread. Errors are exceptions: std::runtime_error with the reason, for people.
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

class recording_writer {
 public:
  // Makes the file, for its owner only. With `replace` it may be there.
  explicit recording_writer(std::string path, bool replace = false);
  // Closes it, flushed or not. Errors are lost: flush before.
  ~recording_writer();
  recording_writer(const recording_writer&) = delete;
  recording_writer& operator=(const recording_writer&) = delete;

  // `at` is the time since 1970. A message longer than a packet is written in parts.
  void write(std::chrono::nanoseconds at, detail::recording_entry entry, bytes_view payload);
  void flush();

  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  // Those for which lost entries stand.
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  struct closer {
    void operator()(pcap_t* at) const noexcept { pcap_close(at); }
    void operator()(pcap_dumper_t* at) const noexcept { pcap_dump_close(at); }
  };

  void put(std::chrono::nanoseconds at, const detail::recording_entry& entry, bytes_view payload);
  [[noreturn]] void fail(int code);
  void say_not_written(std::uint64_t missing);

  const std::string path_;
  const std::unique_ptr<pcap_t, closer> format_;
  std::unique_ptr<pcap_dumper_t, closer> out_;
  std::FILE* file_ = nullptr;  // that of `out_`
  std::vector<std::byte> packet_;
  std::chrono::nanoseconds last_{0};
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t lost_ = 0;
  // As of the last flush.
  std::uint64_t flushed_messages_ = 0;
  std::uint64_t flushed_bytes_ = 0;
};

}  // namespace atbus::tool
