// Options and counters shared by all kinds of channel. Plain values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "atbus/core/build_settings.hpp"

namespace atbus {

// Options of `receiver::open`. What the address says (`shm://name?lanes=16&lane_size=4M`) goes
// before what stands here. Number and size of lanes and the message limit are properties of the
// segment: whoever opens an existing one gets the segment's own, and an explicit wish that differs
// is an error.
struct receiver_options {
  // Most senders at a time, 1 to 4096. 0: 64.
  std::uint32_t lanes = 0;
  // Bytes per lane; rounded up to a power of two, 4 KiB to 1 GiB. 0: 1 MiB, or what the message
  // limit needs. Must be at least 2 x (message_limit + 8), so that the largest message always finds
  // room.
  std::uint64_t lane_size = 0;
  // Largest message in payload bytes, inclusive, at most 64 MiB. 0: ATBUS_MACRO_MSG_LIMIT of the
  // build (64 KiB).
  std::uint64_t message_limit = 0;
  // Hand each message to the handler as a private copy, for when a sender's process is not trusted
  // to leave alone what it has sent. Costs one copy.
  bool copy_on_receive = false;
  // Touch all pages of a lane when a sender takes it, instead of at first use.
  bool prefault = false;
  // Longest time that `wait` spins before it sleeps. How long it really spins follows from how soon
  // messages came lately; an idle receiver does not spin. 0: never.
  std::chrono::nanoseconds spin = std::chrono::microseconds{50};
  // Directory of shm:// segments: a tmpfs shared by the processes that are to meet. Not used by
  // mem://.
  std::string directory = "/dev/shm";
};

// Options of `sender::open`. Number and size of lanes and the message limit are the segment's.
struct sender_options {
  // Touch all pages of the lane at once, instead of at first use.
  bool prefault = false;
  // As for a receiver, before `wait_writable` sleeps.
  std::chrono::nanoseconds spin = std::chrono::microseconds{50};
  // As for a receiver: the same directory, or they don't meet.
  std::string directory = "/dev/shm";
};

// How much one `poll` may do. It ends earlier when nothing is left to deliver.
struct poll_limits {
  std::size_t messages = 4096;
  // Checked about every 32 messages; 0: no limit.
  std::chrono::nanoseconds time{0};
};

// Counters of a channel. They live in the segment, so that any process can read them (`atbus shm
// show`); they count from the creation of the segment, across restarts of either side.
struct channel_stats {
  std::uint64_t messages = 0;         // whose handler was run, also if it threw
  std::uint64_t bytes = 0;            // their payload
  std::uint64_t full = 0;             // claims and sends refused with would_block
  std::uint64_t wake_ups = 0;         // doorbell rings sent by senders
  std::uint64_t space_rings = 0;      // rings sent back to senders that waited for space
  std::uint64_t redelivered = 0;      // handed out again after a receiver died in its handler
  std::uint64_t quarantined = 0;      // lanes found with impossible values
  std::uint64_t padding_bytes = 0;    // skipped at the ends of rings
  std::uint64_t high_water_mark = 0;  // most bytes ever seen waiting in a lane
};

}  // namespace atbus
