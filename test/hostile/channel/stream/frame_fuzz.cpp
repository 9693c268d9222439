// Whatever the bytes of a stream are and however they arrive: the same frames and the same fault as
// from the whole, no byte read outside, no more memory than the bound.
//
// Input: one byte of settings, one that seeds the splits, the stream.
//   settings, bit 0: each end wants checksums
//             bit 1: the checksums of all checked frames are made right before the stream is read, so
//                    that the fuzzer gets past them
//             bit 2: the stream begins with a good opening that is not in the input
//             bits 3-4: the limit, 0, 100, 5000 or 64 Mi bytes
//             bits 5-6: the space, 1, 2, 4 or 16 pages
//             bit 7: a second connection reads the same stream in turns with the first
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "atbus/bytes.hpp"
#include "channel/common/frame.h"
#include "channel/stream/frame_reader.h"
#include "channel/stream/message_run.h"
#include "channel/stream/opening.h"
#include "channel/stream/read_buffer.h"
#include "stream_bytes.h"

namespace {

using namespace atbus::detail;
using atbus::bytes_view;
using atbus::mutable_bytes;

void require(bool held) {
  if (!held)
    std::abort();  // how libFuzzer learns of a broken promise
}

// Small and the same everywhere: a run must be repeatable.
class random_numbers {
 public:
  explicit random_numbers(std::uint32_t seed) noexcept : state_{seed * 2654435761U + 1} {}
  std::size_t below(std::size_t bound) noexcept {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(state_ >> 33) % bound;
  }

 private:
  std::uint64_t state_;
};

struct settings {
  explicit settings(std::uint8_t bits) noexcept
      : checksums{(bits & 1) != 0},
        made_right{(bits & 2) != 0},
        opened{(bits & 4) != 0},
        two{(bits & 128) != 0} {
    constexpr std::uint32_t limits[] = {0, 100, 5000, frame_payload_max};
    limit = limits[(bits >> 3) & 3];
    constexpr std::size_t pages[] = {1, 2, 4, 16};
    space = pages[(bits >> 5) & 3] * 4096;
  }
  [[nodiscard]] hello own() const noexcept {
    hello self = receiving_end(checksums);
    self.payload_max = limit;
    return self;
  }

  bool checksums;
  bool made_right;
  bool opened;
  bool two;
  std::uint32_t limit;
  std::size_t space;
};

class connection {
 public:
  connection(read_space& space, const settings& chosen, const byte_string& stream)
      : buffer_{space, chosen.own()}, stream_{stream} {}

  // False when there is nothing more to do.
  bool turn(random_numbers& random) {
    if (may_read_ && position_ == stream_.size())
      return false;
    if (may_read_)
      read(random);
    std::size_t frames_left = random.below(3) == 0 ? 1 + random.below(3) : SIZE_MAX;
    const auto take = [&](frame_kind kind, bytes_view payload) {
      require(reinterpret_cast<std::uintptr_t>(payload.data()) % 8 == 0);
      frames_.push_back(copy_of(kind, payload));
      return --frames_left == 0 ? frame_flow::stop : frame_flow::go_on;
    };
    message_run run;
    const walk_end ended = buffer_.lend(run.begin(), take);
    may_read_ = ended == walk_end::needs_more;
    if (run.rest().at != nullptr) {
      run.tell(frames_left, [&](bytes_view message) { (void)take(frame_kind::data, message); });
      buffer_.give_back(run.rest());
    }
    require(buffer_.memory() <= buffer_.memory_limit());
    if (run.wrong().data() != nullptr)
      buffer_.reject(run.wrong());
    return buffer_.reader().fault() == frame_fault::none;
  }

  void compare_with(const found& whole) const {
    require(frames_ == whole.frames);
    require(buffer_.reader().fault() == whole.fault);
    // What had not arrived when the fault was found is missing behind it, and nothing else.
    require(buffer_.pending() + (stream_.size() - position_) == whole.left);
    require(static_cast<bool>(buffer_.reader().problem()) == (whole.fault == frame_fault::none));
  }

 private:
  void read(random_numbers& random) {
    mutable_bytes place;
    require(static_cast<bool>(buffer_.prepare(place)));
    require(!place.empty());
    const std::size_t size_class = std::size_t{1} << random.below(14);
    const std::size_t count =
        std::min({1 + random.below(size_class), place.size(), stream_.size() - position_});
    std::memcpy(place.data(), stream_.data() + position_, count);
    position_ += count;
    buffer_.received(count);
    require(buffer_.memory() <= buffer_.memory_limit());
  }

  read_buffer buffer_;
  const byte_string& stream_;
  std::vector<handed_out> frames_;
  std::size_t position_ = 0;
  bool may_read_ = true;
};

// Frame by frame as far as the lengths lead; unchecked frames stay as they are.
void make_right(byte_string& stream) {
  std::size_t at = 0;
  while (stream.size() - at >= frame_header_size) {
    const auto word = load_little_endian<std::uint32_t>(stream.data() + at);
    const std::size_t size = frame_size(frame_length(word));
    if (size > stream.size() - at)
      return;
    if (is_checked(word))
      seal_frame(stream.data() + at);
    at += size;
  }
}

byte_string make_stream(const settings& chosen, bytes_view input) {
  byte_string stream;
  if (chosen.opened)
    stream = opened_stream(chosen.checksums);
  append(stream, input);
  if (chosen.made_right)
    make_right(stream);
  return stream;
}

// In memory of its very size, so that the sanitizer sees a byte too many being read.
found read_whole(const byte_string& stream, const hello& own) {
  const auto exact = std::make_unique<std::byte[]>(stream.size());
  std::copy(stream.begin(), stream.end(), exact.get());
  return read_all({exact.get(), stream.size()}, own);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2)
    return 0;
  const settings chosen{data[0]};
  random_numbers random{data[1]};
  const byte_string stream =
      make_stream(chosen, {reinterpret_cast<const std::byte*>(data + 2), size - 2});
  const found whole = read_whole(stream, chosen.own());
  require((whole.end == walk_end::failed) == (whole.fault != frame_fault::none));
  if (whole.end == walk_end::needs_more) {
    require(whole.needed > whole.left);
    require(whole.needed <= frame_size(std::max(chosen.limit, control_payload_max)));
  }
  for (const handed_out& frame : whole.frames) {
    const bool control = frame.kind == frame_kind::control;
    require(frame.payload.size() <= (control ? control_payload_max : chosen.limit));
  }

  read_space space{chosen.space};
  connection first{space, chosen, stream};
  connection second{space, chosen, stream};
  bool first_goes_on = true;
  bool second_goes_on = chosen.two;
  while (first_goes_on || second_goes_on) {
    first_goes_on = first_goes_on && first.turn(random);
    second_goes_on = second_goes_on && second.turn(random);
  }
  first.compare_with(whole);
  if (chosen.two)
    second.compare_with(whole);
  return 0;
}
