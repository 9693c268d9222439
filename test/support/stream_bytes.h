// Streams of frames for tests: made by hand from the documented bytes, and taken apart again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/bytes.hpp"
#include "channel/common/frame.h"
#include "channel/stream/frame_reader.h"
#include "channel/stream/opening.h"

namespace atbus::detail {

using byte_string = std::vector<std::byte>;

inline void append(byte_string& stream, bytes_view bytes) {
  stream.insert(stream.end(), bytes.begin(), bytes.end());
}

inline byte_string data_frame(bytes_view payload, bool checked) {
  byte_string frame(frame_size(payload.size()));
  std::byte* const place = begin_frame(frame.data(), frame_kind::data, payload.size());
  if (!payload.empty())
    std::memcpy(place, payload.data(), payload.size());
  if (checked)
    seal_frame(frame.data());
  return frame;
}

// A control frame with any bytes in it.
inline byte_string raw_control_frame(bytes_view payload, bool checked) {
  byte_string frame = data_frame(payload, false);
  store_little_endian(frame.data(), make_frame_word(frame_kind::control, payload.size()));
  if (checked)
    seal_frame(frame.data());
  return frame;
}

// The two ends of the tests' streams. They agree on checksums if `checksums`.
inline hello receiving_end(bool checksums) {
  return {.wants_checksums = checksums, .offers_lanes = true, .session = 1};
}
inline hello sending_end(bool checksums) {
  return {.wants_checksums = checksums, .offers_lanes = true, .session = 2};
}

inline byte_string opened_stream(bool checksums) {
  byte_string stream;
  append(stream, hello_frame(sending_end(checksums)));
  return stream;
}

// What a reader hands out, copied.
struct handed_out {
  frame_kind kind;
  byte_string payload;
  friend bool operator==(const handed_out&, const handed_out&) = default;
};

inline handed_out copy_of(frame_kind kind, bytes_view payload) {
  return {kind, byte_string(payload.begin(), payload.end())};
}

// Everything a fresh reader finds in the whole stream.
struct found {
  std::vector<handed_out> frames;
  frame_fault fault = frame_fault::none;
  std::size_t left = 0;  // bytes behind the last frame handed out
  walk_end end = walk_end::needs_more;
  std::size_t needed = 0;
  error problem;
};

inline found read_all(bytes_view stream, const hello& own) {
  frame_reader reader{own};
  found result;
  const std::byte* at = stream.data();
  result.end = reader.walk(at, stream.data() + stream.size(),
                           [&result](frame_kind kind, bytes_view payload) {
                             result.frames.push_back(copy_of(kind, payload));
                             return frame_flow::go_on;
                           });
  result.fault = reader.fault();
  result.left = stream.size() - static_cast<std::size_t>(at - stream.data());
  result.needed = reader.needed();
  result.problem = reader.problem();
  return result;
}

}  // namespace atbus::detail
