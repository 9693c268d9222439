#include "channel/stream/frame_queue.h"

#include <algorithm>
#include <array>
#include <string>

#include "atbus/detail/block_ring.hpp"
#include "atbus/detail/malloc_queue.hpp"
#include "core/error_text.h"

namespace atbus::detail {
error check_frame_queue(const frame_queue_options& options, const std::string& text) {
  if (options.message_limit > frame_payload_max) {
    return {errc::invalid_argument, text + ": a message limit of " +
                                        std::to_string(options.message_limit) + " is above 64 MiB"};
  }
  if (options.bytes > send_queue::no_limit / 2 ||
      options.blocks > send_queue::no_limit / 2 / frame_block_size)
    return {errc::invalid_argument, text + ": the send buffer is larger than any memory"};
  return {};
}

std::unique_ptr<send_queue> make_frame_queue(const frame_queue_options& options,
                                             chunk_cache* shared) {
  const std::uint64_t least = 2 * frame_size(options.message_limit);
  if (options.buffer == send_buffer_kind::growing) {
    const std::uint64_t limit =
        std::max(options.bytes == 0 ? frame_queue_size_default : options.bytes, least);
    if (shared != nullptr)
      return std::make_unique<malloc_queue>(limit, *shared);
    return std::make_unique<malloc_queue>(
        malloc_queue::options{.byte_limit = limit, .chunks = {.idle_bytes = limit}});
  }
  const std::uint64_t blocks =
      options.blocks == 0 ? frame_queue_size_default / frame_block_size : options.blocks;
  return std::make_unique<block_ring>(block_ring::options{
      .blocks = std::max(blocks, (least + frame_block_size - 1) / frame_block_size),
      .block_size = frame_block_size});
}

error check_queued_lengths(const send_queue& queue, std::uint64_t limit) noexcept {
  std::uint64_t longest = 0;
  for_each_frame(queue,
                 [&](bytes_view m, bool) { longest = std::max<std::uint64_t>(longest, m.size()); });
  if (longest <= limit)
    return {};
  return error_of(errc::message_too_large, [&]() -> error {
    return {errc::message_too_large, "the peer takes messages of up to " + std::to_string(limit) +
                                         " bytes, and one of " + std::to_string(longest) +
                                         " is queued; raise its limit"};
  });
}

frame_measure measure_frames(const send_queue& queue, std::uint64_t written,
                             std::size_t messages_max) {
  frame_measure sum;
  const std::uint64_t bytes_written = written - queue.released();
  queue.for_each_unreleased([&](bytes_view run) {
    for (std::size_t at = 0; at != run.size() && sum.messages != messages_max;) {
      const std::size_t size =
          frame_size(frame_length(load_little_endian<std::uint32_t>(run.data() + at)));
      if (sum.bytes + size <= bytes_written) {
        ++sum.written_messages;
        sum.written_bytes += size;
      } else if (sum.bytes < bytes_written) {
        sum.begun = size;
      }
      ++sum.messages;
      sum.bytes += size;
      at += size;
    }
    return sum.messages != messages_max;
  });
  return sum;
}

}  // namespace atbus::detail
