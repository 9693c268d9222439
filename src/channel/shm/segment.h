// A segment as one process holds it: its name, descriptor and mappings. Making, opening, checking and
// removing segments.
//
// A `shm://` segment is a file in a tmpfs directory. A `mem://` segment is a memfd known by name
// inside this process only. A handed segment is a memfd without a name, which its receiver passes to
// the senders of a Unix socket. All share the code for locks, bells, layout and protocol.
//
// Guarantees:
//  - A segment gets its name only when it is complete: it is built without one and then linked.
//  - No byte of a file is used before its owner, mode, size, magic, version and geometry are checked.
//  - Only a process that holds the receiver's lock on a file unlinks it, after marking it retired.
#pragma once

#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "atbus/status.hpp"
#include "channel/shm/segment_layout.h"
#include "system/kernel.h"

namespace atbus::detail {

inline constexpr std::string_view segment_prefix = "atbus-segment.";
inline constexpr std::string_view bell_prefix = "atbus-bell.";

struct segment_name {
  bool in_process = false;  // mem://
  bool handed = false;      // handed over through a socket; neither flag: shm://
  std::string name;  // checked by the address parser; a handed segment has the socket's address
  std::string directory;  // of the file, if it has one

  [[nodiscard]] std::string text() const {
    return handed ? name : (in_process ? "mem://" : "shm://") + name;
  }
  // True if the segment has no file in a directory.
  [[nodiscard]] bool in_memory() const noexcept { return in_process || handed; }
  [[nodiscard]] std::string file_name() const { return std::string{segment_prefix} + name; }
  [[nodiscard]] std::string bell_name() const { return std::string{bell_prefix} + name; }
  // The bell's name before it is renamed into place. No segment's name has a '~', so no other segment's
  // bell has this name.
  [[nodiscard]] std::string new_bell_name() const { return bell_name() + "~"; }
  // For error texts.
  [[nodiscard]] std::string path() const { return directory + "/" + file_name(); }
};

inline constexpr const char* default_directory = "/dev/shm";

// Most attempts to open a name that other processes replace at the same time. Each round ends in success,
// an error, or a name that has changed.
inline constexpr int name_rounds_max = 1000;
// The connections and the locks of a dying process end one after the other. The longest wait for the locks.
inline constexpr std::chrono::nanoseconds dying_time = std::chrono::seconds{1};
// The longest sleep of an end that may not be woken: the kernel refuses membarrier and the other end has not
// confirmed that it fences, or the kernel has no memory for a ring.
inline constexpr std::chrono::nanoseconds short_sleep = std::chrono::milliseconds{1};

// Mapped memory with one owner; not inherited by a forked child.
class mapping {
 public:
  mapping() = default;
  mapping(std::byte* base, std::size_t size) noexcept : base_(base), size_(size) {}
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;
  ~mapping() {
    if (base_ != nullptr)
      kernel().munmap(base_, size_);
  }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // For a forked child, where the pages are not mapped: forgets them without unmapping.
  void abandon() noexcept { base_ = nullptr; }

 private:
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
};

[[nodiscard]] result<std::shared_ptr<mapping>> map_shared(int fd, std::uint64_t offset,
                                                          std::uint64_t size,
                                                          const std::string& what);

class segment {
 public:
  segment_name name;
  file fd;
  segment_geometry geometry;
  std::shared_ptr<mapping> control;  // header and lane table
  std::shared_ptr<mapping> lanes;    // all lanes, or the one of a sender
  std::uint64_t lanes_base = 0;      // file offset at which `lanes` begins

  [[nodiscard]] segment_header& header() const noexcept {
    return *reinterpret_cast<segment_header*>(control->base());
  }
  [[nodiscard]] lane_slot& slot(std::uint32_t lane) const noexcept {
    return reinterpret_cast<lane_slot*>(control->base() + geometry.table_offset())[lane];
  }
  [[nodiscard]] std::byte* lane_data(std::uint32_t lane) const noexcept {
    return lanes->base() + (geometry.lane_offset(lane) - lanes_base);
  }

  // The receiver's description of itself, safe to print.
  [[nodiscard]] std::string describe_receiver() const;

  // Called in the child after a fork.
  void abandon() noexcept;
};

// Builds a segment without a name.
[[nodiscard]] result<segment> build_segment(segment_name name, const segment_geometry& geometry);
// Names it; `receiver_exists` if the name is taken: the caller opens that segment.
[[nodiscard]] error link_segment(const segment& built);
// Opens the segment of that name, checks it, and maps the header and the lane table. errc::not_found if the
// name does not exist.
[[nodiscard]] result<segment> open_segment(segment_name name);
// A new descriptor of a handed segment, to pass to a sender. It shares no lock with the receiver's.
[[nodiscard]] result<file> share_segment(const segment& built);
// The segment behind such a descriptor, checked and mapped as by open_segment; `text` names it in errors.
// Refuses a segment that could shrink while it is in use.
[[nodiscard]] result<segment> adopt_segment(file fd, std::string text);
// Whether the file, open for reading at least, is a segment that this process may use.
[[nodiscard]] result<segment_geometry> check_segment_file(const segment_name& name, int fd);
// True if the name still leads to this file.
[[nodiscard]] bool is_named(const segment& opened);
// The same segment again, for another thread of this process. They share the locks.
[[nodiscard]] result<segment> duplicate_segment(const segment& opened);
// Marks the segment retired, alerts all senders, and removes its name and its bell's. The caller holds the
// receiver's lock. Throws std::bad_alloc; the segment is as it was then, or the next receiver removes the
// rest of it.
[[nodiscard]] error retire_segment(const segment& opened);

// Maps all lanes (receiver), or one (sender).
[[nodiscard]] error map_all_lanes(segment& opened);
[[nodiscard]] error map_lane(segment& opened, std::uint32_t lane);
// Reserves the lane's memory, so that touching it can't fail later. The text of errc::no_space tells how
// much was wanted and free.
[[nodiscard]] error reserve_lane(const segment& opened, std::uint32_t lane);
// Gives the memory back. The caller holds the lane's lock.
void release_lane_memory(const segment& opened, std::uint32_t lane) noexcept;

// The directory of a named segment, open as a path; empty for mem://.
[[nodiscard]] result<file> open_directory(const segment_name& name);
// errc::no_space: the directory can hold no more files, however much memory is left.
[[nodiscard]] error no_inode_error(const segment_name& name);

// Bytes from outside as printable text: control characters and non-ASCII become '?', and the first NUL
// ends the text.
[[nodiscard]] std::string printable(const char* text, std::size_t size);

}  // namespace atbus::detail
