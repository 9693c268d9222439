// A read-only view of a segment, for inspection: it reads with pread, and queries locks without taking them.
// If the file shrinks, a read is short, and no signal is raised. Unwritten pages stay unwritten.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "atbus/inspect.hpp"
#include "channel/shm/segment.h"
#include "channel/shm/segment_layout.h"
#include "system/guarded_file.h"

namespace atbus::detail {

// A copy of `Size` bytes of shared words; fields are read by their offset.
template <std::size_t Size>
struct word_copy {
  std::array<std::uint64_t, Size / 8> words{};

  [[nodiscard]] std::uint64_t at(std::size_t offset) const noexcept { return words[offset / 8]; }
  template <class Record>
  [[nodiscard]] Record record_at(std::size_t offset) const noexcept {
    Record record;
    std::memcpy(&record, &words[offset / 8], sizeof record);
    return record;
  }
};
using header_copy = word_copy<sizeof(segment_header)>;
using slot_copy = word_copy<sizeof(lane_slot)>;

class segment_view {
 public:
  // Errors: not_found, and those of open_segment about a file that is not a segment.
  [[nodiscard]] static result<segment_view> open(const segment_name& name);
  // Uses a descriptor without owning it.
  segment_view(int fd, const segment_geometry& geometry) noexcept : fd_(fd), geometry_(geometry) {}

  [[nodiscard]] int descriptor() const noexcept { return fd_; }
  [[nodiscard]] const segment_geometry& geometry() const noexcept { return geometry_; }

  // False if the file has fewer bytes.
  [[nodiscard]] bool read(std::uint64_t offset, void* to, std::size_t size) const noexcept;
  [[nodiscard]] bool read_header(header_copy& to) const noexcept;
  // Copies a slot. Retries a bounded number of times until its positions fit together.
  [[nodiscard]] bool read_slot(std::uint32_t lane, slot_copy& to) const noexcept;
  // One word of a lane's slot; 0 if it can't be read.
  [[nodiscard]] std::uint64_t slot_word(std::uint32_t lane, std::size_t offset) const noexcept;

  // Whether the positions in a slot are possible.
  [[nodiscard]] bool is_possible(const slot_copy& slot) const noexcept;
  // Whether another open file description holds that lock.
  [[nodiscard]] bool is_held(std::uint64_t byte) const noexcept;

 private:
  guarded_file owned_;
  int fd_ = -1;
  segment_geometry geometry_;
};

// Records of one lane, from `from` on. Defined in inspect_records.cpp.
enum class walk_start : std::uint8_t { head, done };
[[nodiscard]] records_report walk_records(const segment_view& view, std::uint32_t lane,
                                          walk_start from, const records_options& options);

[[nodiscard]] process_note note_of(const receiver_note& note);
[[nodiscard]] process_note note_of(const open_record& note);

// The files of a directory whose name begins with `prefix`, without it, in order.
[[nodiscard]] result<std::vector<std::string>> names_in(const std::string& directory,
                                                        std::string_view prefix);

// The segment called `name`, if the name is valid.
[[nodiscard]] result<segment_name> named_segment(std::string_view name,
                                                 const std::string& directory);

// As inspect_segment, for a name that need not be valid.
[[nodiscard]] segment_report describe(const segment_name& wanted);

}  // namespace atbus::detail
