/// @file
/// Inspects and cleans the shared-memory segments of a host from outside, for operators. `atbus
/// shm` uses this.
///
/// ```cpp
/// auto all = atbus::list_segments();
/// if (!all) return all.error().print(), 1;
/// for (const auto& one : *all) std::cout << one.name << ' ' << name(one.state) << '\n';
/// ```
///
/// Inspection disturbs no process: files are opened read-only and read with pread; locks are
/// queried (F_OFD_GETLK), never taken. Every value of a segment is treated as hostile: positions
/// and lengths are checked before they are followed, walks are bounded, names are printable. A
/// value that a living process changes meanwhile appears with its old or its new content; a record
/// overwritten during the read is left out.
///
/// Only `clean_segment` and `clean_segments` change anything, and only segments that no living
/// process holds. The kernel's locks decide that, not a timer or a pid.
///
/// Ownership: reports are plain values. Threads: any; calls share nothing. Segments of mem:// exist
/// in their process only and can't be seen here.
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

/// Who uses a segment.
enum class segment_state : std::uint8_t {
  live,     ///< A living receiver owns it.
  waiting,  ///< No receiver lives, but living senders hold lanes.
  orphan,   ///< No living process holds it; its messages wait for a receiver.
  retired,  ///< It was removed, but the removing process died before the name was gone.
  invalid,  ///< It is no segment this version can read: see segment_report::problem.
};
/// The name of a state as written above.
ATBUS_API std::string_view name(segment_state state) noexcept;

/// Who uses a lane.
enum class lane_state : std::uint8_t {
  unused,  ///< It has no sender, and nothing is in it.
  held,    ///< A living sender holds it.
  orphan,  ///< Its sender has ended; the receiver frees it once it is drained.
};
/// The name of a state as written above.
ATBUS_API std::string_view name(lane_state state) noexcept;

/// What a process wrote about itself, for display only: atbus decides nothing by it.
struct process_note {
  std::uint32_t pid = 0;        ///< Its pid, in its own pid namespace; 0: nothing was written.
  std::uint64_t opened_at = 0;  ///< When it opened its end: nanoseconds since 1970.
  std::string program;          ///< Its name, printable.
};

/// What a lane of a segment holds, and who uses it.
struct lane_report {
  /// Number of the lane, from 0.
  std::uint32_t index = 0;
  /// Who uses the lane.
  lane_state state = lane_state::unused;
  /// The last sender here, as far as the receiver has read.
  process_note sender;
  /// The sender's session: random, new for each sender::open.
  std::uint64_t session = 0;

  // Positions, in bytes since the lane was made; see doc/design/segment.md.
  std::uint64_t head = 0;      ///< The sender may overwrite what lies before.
  std::uint64_t handling = 0;  ///< End of the record whose handler was entered last.
  std::uint64_t done = 0;      ///< End of the last record that is finished.
  std::uint64_t tail = 0;      ///< End of the last published record.
  /// False if the positions contradict each other.
  bool possible = true;
  /// Bytes from done to tail, headers and padding included; 0 if not possible.
  std::uint64_t waiting_bytes = 0;
  std::uint64_t reserved_bytes = 0;  ///< Memory taken for the lane.

  bool parked = false;       ///< The receiver looks here only after the sender signals it.
  bool retired = false;      ///< The sender has been told that the segment was removed.
  bool quarantined = false;  ///< The receiver found impossible values here and no longer reads it.
  bool withdrawn = false;    ///< The sender is withdrawing its records.
  bool wants_space = false;  ///< The sender waits for room.
  /// The sender fences after each message: a kernel has no membarrier, or many of its messages wake the receiver.
  bool sender_fences = false;
  /// Counters of the lane.
  channel_stats stats;
};

/// What a segment is, who uses it and what it holds. For an invalid segment, nothing after
/// `problem` is set.
struct segment_report {
  std::string name;  ///< Its name, as in shm://name.
  std::string path;  ///< Path of its file.
  /// Who uses the segment.
  segment_state state = segment_state::invalid;
  error problem;  ///< Why it is invalid; else no error.

  /// Number of lanes.
  std::uint32_t lane_count = 0;
  /// Bytes of each lane.
  std::uint64_t lane_size = 0;
  /// Largest message in payload bytes.
  std::uint64_t message_limit = 0;
  /// Length of the file in bytes.
  std::uint64_t file_size = 0;
  std::uint64_t allocated_bytes = 0;  ///< Bytes of memory in use.
  std::uint64_t created_at = 0;       ///< When it was made: nanoseconds since 1970.
  /// Random; each segment has its own, also under the same name.
  std::uint64_t segment_id = 0;
  process_note receiver;                ///< The living receiver, or the last one.
  std::uint64_t generation = 0;         ///< How many receivers have opened it.
  bool sleeping = false;                ///< The receiver waits for its doorbell.
  bool receiver_is_fenceless = false;   ///< The receiver's kernel refuses membarrier.
  std::uint64_t receiver_wake_ups = 0;  ///< Sleeps that a sender ended.
  /// How often the receiver has slept.
  std::uint64_t sleeps = 0;
  std::uint64_t short_sleeps = 0;  ///< Sleeps cut to 1 ms, because a kernel refuses membarrier.
  std::uint64_t connections_refused = 0;  ///< Connections refused at the doorbell.
  std::uint64_t barriers = 0;             ///< Membarrier calls of the receiver.

  channel_stats stats;              ///< Sums over all lanes.
  std::uint32_t held_lanes = 0;     ///< Lanes that living senders hold.
  std::uint32_t used_lanes = 0;     ///< Lanes that are held or have something in them.
  std::uint64_t waiting_bytes = 0;  ///< Sum over all lanes.
  std::vector<lane_report> lanes;   ///< All lanes, by index.
};

/// How far the receiver has come with a record.
enum class record_state : std::uint8_t {
  handled,   ///< It was handled; its space is not given back yet.
  handling,  ///< A handler has it, or had it when its receiver died.
  waiting,   ///< No handler has had it.
};
/// The name of a state as written above.
ATBUS_API std::string_view name(record_state state) noexcept;

/// One record of a lane.
struct record_report {
  /// Where the record begins, in bytes since the lane was made.
  std::uint64_t position = 0;
  /// What it is: "message", "padding", "open", or "impossible", which ends the walk.
  std::string_view kind;
  std::uint64_t length = 0;  ///< Payload bytes.
  /// How far the receiver has come with it.
  record_state state = record_state::waiting;
  std::vector<std::byte> first_bytes;  ///< The first bytes of the payload.
};

/// Records of a lane: the oldest and the newest ones.
struct records_report {
  std::vector<record_report> near_head;  ///< The first records, in order.
  std::uint64_t left_out = 0;            ///< Records between the two.
  std::vector<record_report> near_tail;  ///< The last records, in order.
  std::uint64_t waiting_messages = 0;    ///< Messages from `done` on.
  /// Their payload bytes.
  std::uint64_t waiting_payload_bytes = 0;
  /// Whether the walk came to the end. False: it met impossible bytes, its bound, or a receiver
  /// that went on.
  bool complete = true;
};

/// How much inspect_records reports.
struct records_options {
  std::size_t near_head = 8;  ///< At most this many records from the oldest on.
  /// At most this many records up to the newest.
  std::size_t near_tail = 8;
  /// At most this many payload bytes of each record.
  std::size_t first_bytes = 32;
  std::uint64_t most_records = 1'000'000;  ///< The walk ends after this many.
};

/// Reports every file in `directory` that is named like a segment, sorted by name. Errors:
/// not_found, system_error (the directory can't be read).
ATBUS_API result<std::vector<segment_report>> list_segments(
    const std::string& directory = "/dev/shm");

/// Reports one segment, `name` as in shm://name. An invalid segment is a report, not an error.
/// Errors: invalid_name, not_found, system_error.
ATBUS_API result<segment_report> inspect_segment(std::string_view name,
                                                 const std::string& directory = "/dev/shm");

/// Reports the records of one lane. Errors: as inspect_segment; invalid_argument (no such lane);
/// for an invalid segment, what is wrong with it.
ATBUS_API result<records_report> inspect_records(std::string_view name, std::uint32_t lane,
                                                 const std::string& directory = "/dev/shm",
                                                 const records_options& options = {});

/// What clean_segment and clean_segments remove.
struct clean_options {
  /// Where the segments are.
  std::string directory = "/dev/shm";
  /// Also removes files that have a segment's name but are no segment that this version can read.
  /// The kernel's locks protect such a file too, but nothing tells which messages it holds.
  bool force = false;
  bool dry_run = false;  ///< Only reports what would be done.
};

/// What became of a file.
enum class clean_outcome : std::uint8_t {
  removed,  ///< It is gone.
  held,     ///< It was left alone: a living process holds it.
  invalid,  ///< It was left alone: no segment this version can read, and `force` was not given.
  failed,   ///< The system refused.
};
/// The name of an outcome as written above.
ATBUS_API std::string_view name(clean_outcome outcome) noexcept;

/// What clean_segment did with a segment, and the messages that were lost with it.
struct clean_report {
  /// Name of the segment, as in shm://name.
  std::string name;
  /// What became of it.
  clean_outcome outcome = clean_outcome::removed;
  std::string why;  ///< Why it was left alone, and which process holds it; empty if removed.
  std::vector<std::string> removed;  ///< Paths of the files that were removed.
  /// Messages that were in it and that no receiver has handled.
  std::uint64_t undelivered_messages = 0;
  std::uint64_t undelivered_bytes = 0;  ///< Payload bytes of these.
  /// Whether all were counted. False: there may have been more; some bytes were invalid.
  bool counted = true;
};

/// Removes a segment that no living process holds, with its doorbell; or a doorbell without a
/// segment. A segment that is left alone is a report, not an error. Errors: invalid_name,
/// not_found.
ATBUS_API result<clean_report> clean_segment(std::string_view name,
                                             const clean_options& options = {});

/// Cleans everything in the directory as clean_segment does, one report each. Errors: not_found,
/// system_error (the directory can't be read).
ATBUS_API result<std::vector<clean_report>> clean_segments(const clean_options& options = {});

}  // namespace atbus
