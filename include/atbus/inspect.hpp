// Inspects and cleans the shared-memory segments of a host from outside, for operators. `atbus shm`
// uses this.
//
//   auto all = atbus::list_segments();
//   if (!all) return all.error().print(), 1;
//   for (const auto& one : *all) std::cout << one.name << ' ' << name(one.state) << '\n';
//
// Inspection disturbs no process: files are opened read-only and read with pread; locks are queried
// (F_OFD_GETLK), never taken. Every value of a segment is treated as hostile: positions and lengths
// are checked before they are followed, walks are bounded, names are printable. What a living
// process changes meanwhile appears as old or new; a record overwritten during the read is left
// out.
//
// Only `clean_segment` and `clean_segments` change anything, and only what no living process holds:
// the kernel's locks decide, not a timer or a pid.
//
// Ownership: reports are plain values. Threads: any; calls share nothing. Segments of mem:// exist
// in their process only and can't be seen here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/channel_options.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

enum class segment_state : std::uint8_t {
  live,     // a living receiver owns it
  waiting,  // no receiver lives, but living senders hold lanes
  orphan,   // no living process holds it; its messages wait for a receiver
  retired,  // removed, but the removing process died before the name was gone
  invalid,  // no segment this version can read: see segment_report::problem
};
ATBUS_API std::string_view name(segment_state state) noexcept;

enum class lane_state : std::uint8_t {
  unused,  // no sender, nothing in it
  held,    // a living sender holds it
  orphan,  // its sender has ended; the receiver frees it once it is drained
};
ATBUS_API std::string_view name(lane_state state) noexcept;

// What a process wrote about itself. For operators: nothing is decided by it.
struct process_note {
  std::uint32_t pid = 0;        // in its own pid namespace; 0: nothing was written
  std::uint64_t opened_at = 0;  // nanoseconds since 1970
  std::string program;          // printable
};

struct lane_report {
  std::uint32_t index = 0;
  lane_state state = lane_state::unused;
  process_note sender;        // the last one here, as far as the receiver has read
  std::uint64_t session = 0;  // of the session: random, new for each sender::open

  // Positions, in bytes since the lane was made; see doc/design/segment.md.
  std::uint64_t head = 0;
  std::uint64_t handling = 0;
  std::uint64_t done = 0;
  std::uint64_t tail = 0;
  bool possible = true;  // false: the positions contradict each other
  // Bytes from done to tail, headers and padding included; 0 if not possible.
  std::uint64_t waiting_bytes = 0;
  std::uint64_t reserved_bytes = 0;  // memory taken for the lane

  bool parked = false;         // the receiver looks here only after the sender signals it
  bool retired = false;        // the sender has been told that the segment was removed
  bool quarantined = false;    // the receiver found impossible values here and no longer reads it
  bool withdrawn = false;      // the sender is withdrawing its records
  bool wants_space = false;    // the sender waits for room
  bool sender_fences = false;  // a kernel without membarrier: it fences after each message
  channel_stats stats;
};

struct segment_report {
  std::string name;  // as in shm://name
  std::string path;  // of the file
  segment_state state = segment_state::invalid;
  error problem;  // why it is invalid; else no error

  // From here on, nothing is set for an invalid segment.
  std::uint32_t lane_count = 0;
  std::uint64_t lane_size = 0;
  std::uint64_t message_limit = 0;
  std::uint64_t file_size = 0;
  std::uint64_t allocated_bytes = 0;  // memory in use
  std::uint64_t created_at = 0;       // nanoseconds since 1970
  std::uint64_t segment_id = 0;
  process_note receiver;                // the living one, or the last
  std::uint64_t generation = 0;         // receivers that have opened it
  bool sleeping = false;                // the receiver waits for its doorbell
  bool receiver_is_fenceless = false;   // its kernel refuses membarrier
  std::uint64_t receiver_wake_ups = 0;  // sleeps that a sender ended
  std::uint64_t sleeps = 0;
  std::uint64_t short_sleeps = 0;         // cut to 1 ms, because a kernel refuses membarrier
  std::uint64_t connections_refused = 0;  // at the doorbell
  std::uint64_t barriers = 0;             // membarrier calls of the receiver

  channel_stats stats;              // sums over all lanes
  std::uint32_t held_lanes = 0;     // by living senders
  std::uint32_t used_lanes = 0;     // held, or with something in it
  std::uint64_t waiting_bytes = 0;  // over all lanes
  std::vector<lane_report> lanes;   // all of them, by index
};

enum class record_state : std::uint8_t {
  handled,   // its space is not given back yet
  handling,  // a handler has it, or had it when its receiver died
  waiting,
};
ATBUS_API std::string_view name(record_state state) noexcept;

struct record_report {
  std::uint64_t position = 0;
  std::string_view kind;     // "message", "padding", "open", or "impossible", which ends the walk
  std::uint64_t length = 0;  // payload bytes
  record_state state = record_state::waiting;
  std::vector<std::byte> first_bytes;  // of the payload
};

struct records_report {
  std::vector<record_report> near_head;  // in order
  std::uint64_t left_out = 0;            // records between the two
  std::vector<record_report> near_tail;  // in order
  std::uint64_t waiting_messages = 0;    // from `done` on
  std::uint64_t waiting_payload_bytes = 0;
  // False: the walk met impossible bytes, its bound, or a receiver that went on.
  bool complete = true;
};

struct records_options {
  std::size_t near_head = 8;  // at most this many
  std::size_t near_tail = 8;
  std::size_t first_bytes = 32;
  std::uint64_t most_records = 1'000'000;  // the walk ends there
};

// Reports every file in `directory` that is named like a segment, sorted by name. Errors:
// not_found, system_error (the directory can't be read).
ATBUS_API result<std::vector<segment_report>> list_segments(
    const std::string& directory = "/dev/shm");

// Reports one segment, `name` as in shm://name. An invalid segment is a report, not an error.
// Errors: invalid_name, not_found, system_error.
ATBUS_API result<segment_report> inspect_segment(std::string_view name,
                                                 const std::string& directory = "/dev/shm");

// Reports the records of one lane. Errors: as inspect_segment; invalid_argument (no such lane); for
// an invalid segment, what is wrong with it.
ATBUS_API result<records_report> inspect_records(std::string_view name, std::uint32_t lane,
                                                 const std::string& directory = "/dev/shm",
                                                 const records_options& options = {});

struct clean_options {
  std::string directory = "/dev/shm";
  // Also removes files that have a segment's name but are no segment that this version can read.
  // Kernel locks decide there too, but what is lost with the file is not known.
  bool force = false;
  bool dry_run = false;  // only report what would be done
};

enum class clean_outcome : std::uint8_t {
  removed,
  held,     // left alone: a living process holds it
  invalid,  // left alone: no segment this version can read, and `force` was not given
  failed,   // the system refused
};
ATBUS_API std::string_view name(clean_outcome outcome) noexcept;

struct clean_report {
  std::string name;
  clean_outcome outcome = clean_outcome::removed;
  std::string why;  // what was left alone and which process holds it; empty if removed
  std::vector<std::string> removed;  // paths
  std::uint64_t undelivered_messages = 0;
  std::uint64_t undelivered_bytes = 0;  // payload
  bool counted = true;                  // false: there may have been more; some bytes were invalid
};

// Removes a segment that no living process holds, with its doorbell; or a doorbell without a
// segment. What is left alone is a report, not an error. Errors: invalid_name, not_found.
ATBUS_API result<clean_report> clean_segment(std::string_view name,
                                             const clean_options& options = {});

// The same for everything in the directory, one report each. Errors: not_found, system_error (the
// directory can't be read).
ATBUS_API result<std::vector<clean_report>> clean_segments(const clean_options& options = {});

}  // namespace atbus
