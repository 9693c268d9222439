// Send queues of frames: making, measuring and listing them.
//
// Pure book-keeping; the queue's thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "atbus/bytes.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/detail/chunk_cache.hpp"
#include "atbus/detail/send_queue.hpp"
#include "atbus/status.hpp"
#include "channel/common/frame.h"

namespace atbus::detail {

// The default size of a queue, in bytes.
inline constexpr std::uint64_t frame_queue_size_default = std::uint64_t{4} << 20;
// The size of a block of a fixed queue, in bytes.
inline constexpr std::uint64_t frame_block_size = build_settings::data_node_size;

struct frame_queue_options {
  send_buffer_kind buffer = send_buffer_kind::fixed;
  std::uint64_t bytes = 0;   // growing queue; 0: 4 MiB
  std::uint64_t blocks = 0;  // fixed queue; 0: blocks for 4 MiB
  std::uint64_t message_limit = 0;
};

// From the options of a sender or of a connection.
template <class Options>
[[nodiscard]] frame_queue_options queue_options(const Options& of) {
  return {.buffer = of.buffer,
          .bytes = of.send_buffer_size,
          .blocks = of.send_buffer_number,
          .message_limit = of.message_limit == 0
                               ? static_cast<std::uint64_t>(build_settings::message_limit)
                               : of.message_limit};
}

// Claims room for a message of that length and for further ones: at most up to the next write, in `due`
// bytes, and up to the end of the queue's chunk.
[[nodiscard]] inline status claim_frames(send_queue& queue, std::size_t length, std::uint64_t due,
                                         mutable_bytes& place) noexcept {
  constexpr std::uint64_t most = 64 * 1024;
  return queue.claim_up_to(
      frame_size(length),
      static_cast<std::size_t>(std::min<std::uint64_t>({due, most, queue.byte_limit() / 8})),
      place);
}

// invalid_argument if the queue is larger than any memory, or the message limit larger than any frame.
[[nodiscard]] error check_frame_queue(const frame_queue_options& options, const std::string& text);
// Makes a queue in which the longest message fits beside a partly written one. `shared`: the cache of chunks
// for a growing queue, or null.
[[nodiscard]] std::unique_ptr<send_queue> make_frame_queue(const frame_queue_options& options,
                                                           chunk_cache* shared = nullptr);

// Passes the messages in the queue, in order, to `each(bytes_view, bool written)`, and returns their number.
// A frame counts as written when all its bytes were, over any link. The queue begins with a frame, because
// only whole frames are released.
template <class Each>
std::size_t for_each_frame(const send_queue& queue, Each&& each) {
  std::size_t count = 0;
  std::uint64_t end = queue.released();
  queue.for_each_unreleased([&](bytes_view run) {
    for (std::size_t at = 0; run.size() - at >= frame_header_size;) {
      const auto word = load_little_endian<std::uint32_t>(run.data() + at);
      const std::size_t size = frame_size(frame_length(word));
      if (size > run.size() - at)
        break;
      end += size;
      each(bytes_view{run.data() + at + frame_header_size, frame_length(word)},
           end <= queue.ever_written());
      ++count;
      at += size;
    }
    return true;
  });
  return count;
}

// message_too_large if the queue holds a message above the peer's limit: the peer would always refuse it.
[[nodiscard]] error check_queued_lengths(const send_queue& queue, std::uint64_t limit) noexcept;

// The oldest frames of a queue, in bytes.
struct frame_measure {
  std::size_t messages = 0;
  std::size_t bytes = 0;
  std::size_t written_messages = 0;  // completely written ones
  std::size_t written_bytes = 0;
  std::size_t begun = 0;  // bytes of a partly written frame; 0: none
};
// Measures at most so many messages. `written`: the queue's count up to which its bytes count as written.
[[nodiscard]] frame_measure measure_frames(const send_queue& queue, std::uint64_t written,
                                           std::size_t messages_max);

}  // namespace atbus::detail
