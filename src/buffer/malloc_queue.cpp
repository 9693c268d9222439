#include "atbus/detail/malloc_queue.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

namespace atbus {

namespace {
// A limit that keeps all sums of sizes below from overflowing.
constexpr std::size_t most_bytes = std::numeric_limits<std::size_t>::max() / 8;
}  // namespace

struct alignas(16) malloc_queue::chunk {
  chunk* next;
  std::byte* end;        // end of its bytes, once it is no longer the tail
  std::size_t capacity;  // bytes it has room for

  std::byte* begin() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

malloc_queue::malloc_queue(options chosen) noexcept
    : send_queue{std::min(chosen.byte_limit, most_bytes)},
      own_cache_{chosen.chunks},
      cache_{&own_cache_} {}

malloc_queue::malloc_queue(std::size_t byte_limit, chunk_cache& shared) noexcept
    : send_queue{std::min(byte_limit, most_bytes)},
      own_cache_{chunk_cache::options{}},
      cache_{&shared} {}

malloc_queue::~malloc_queue() {
  while (head_.in) {
    chunk* const dropped = head_.in;
    head_.in = dropped->next;
    drop_chunk(dropped);
  }
}

std::byte* malloc_queue::end_of(const chunk* which) const noexcept {
  return which == tail_ ? cursor_ : which->end;
}

status malloc_queue::claim_elsewhere(std::size_t bytes, mutable_bytes& place) noexcept {
  if (claimed_ != 0)
    return {errc::invalid_argument, bytes};
  if (bytes > byte_limit_)
    return {errc::message_too_large, bytes, byte_limit_};
  const std::size_t budget = byte_limit_ - size();
  if (bytes > budget)
    return {errc::would_block, bytes, budget};
  const auto room =
      tail_ ? static_cast<std::size_t>(tail_->begin() + tail_->capacity - cursor_) : 0;
  if (!tail_ || bytes > room) {
    if (tail_ && chunk_bytes_for(bytes) > memory_limit() - memory_) {
      return {errc::would_block, bytes, room};
    }
    if (!append_chunk(bytes))
      return {errc::out_of_memory, bytes};
  }
  // The budget only grows until the cursor gets there, so the fast path stays within the limit.
  const auto left = static_cast<std::size_t>(tail_->begin() + tail_->capacity - cursor_);
  run_end_ = cursor_ + std::min(left, budget);
  return open_claim(bytes, place);
}

std::size_t malloc_queue::memory_limit() const noexcept {
  return 2 * byte_limit_ + 4 * cache_->chunk_bytes();
}

std::size_t malloc_queue::chunk_bytes_for(std::size_t bytes) const noexcept {
  return std::max(bytes + sizeof(chunk), cache_->chunk_bytes());
}

bool malloc_queue::append_chunk(std::size_t bytes) noexcept {
  const std::size_t whole = chunk_bytes_for(bytes);
  void* const memory = whole == cache_->chunk_bytes() ? cache_->take() : std::malloc(whole);
  if (!memory)
    return false;
  chunk* const added = ::new (memory) chunk{nullptr, nullptr, whole - sizeof(chunk)};
  memory_ += whole;
  if (tail_) {
    tail_->end = cursor_;
    tail_->next = added;
  } else {
    head_ = written_to_ = {added, added->begin()};
  }
  before_tail_ = tail_;
  tail_ = added;
  cursor_ = added->begin();
  return true;
}

void malloc_queue::drop_chunk(chunk* dropped) noexcept {
  const std::size_t whole = dropped->capacity + sizeof(chunk);
  memory_ -= whole;
  if (whole == cache_->chunk_bytes()) {
    cache_->give(dropped);
  } else {
    std::free(dropped);
  }
}

void malloc_queue::become_empty() noexcept {
  drop_chunk(tail_);
  head_ = written_to_ = {};
  tail_ = before_tail_ = nullptr;
  cursor_ = run_end_ = nullptr;
}

void malloc_queue::claim_abandoned() noexcept {
  if (!tail_)
    return;
  if (empty())
    return become_empty();
  // Give back a chunk that was taken only for this claim: the previous one may have room for smaller
  // messages.
  if (cursor_ != tail_->begin())
    return;
  chunk* const dropped = tail_;
  tail_ = before_tail_;
  tail_->next = nullptr;
  cursor_ = run_end_ = tail_->end;
  before_tail_ = nullptr;
  drop_chunk(dropped);
}

void malloc_queue::mark_written(std::size_t bytes) noexcept {
  bytes = std::min(bytes, unwritten());
  send_queue::mark_written(bytes);
  while (bytes > 0) {
    const auto here = static_cast<std::size_t>(end_of(written_to_.in) - written_to_.at);
    const std::size_t step = std::min(here, bytes);
    written_to_.at += step;
    bytes -= step;
    if (bytes > 0)
      written_to_ = {written_to_.in->next, written_to_.in->next->begin()};
  }
}

void malloc_queue::release(std::size_t bytes) noexcept {
  assert(bytes <= size() && "more released than is held");
  bytes = std::min(bytes, size());
  released_ += bytes;
  while (head_.in) {
    const auto here = static_cast<std::size_t>(end_of(head_.in) - head_.at);
    const std::size_t step = std::min(here, bytes);
    head_.at += step;
    bytes -= step;
    if (step < here || head_.in == tail_)
      break;
    chunk* const dropped = head_.in;
    head_ = {dropped->next, dropped->next->begin()};
    drop_chunk(dropped);
  }
  if (head_.in == tail_)
    before_tail_ = nullptr;
  // Also if the first unwritten byte was at the end of a chunk that is gone now.
  if (written_ <= released_) {
    written_ = released_;
    written_to_ = head_;
  }
  if (tail_ && empty() && claimed_ == 0)
    become_empty();
}

void malloc_queue::rewind() noexcept {
  send_queue::rewind();
  written_to_ = head_;
}

std::size_t malloc_queue::runs_from(std::uint64_t position, std::span<bytes_view> runs,
                                    std::size_t bytes_max) const noexcept {
  std::size_t filled = 0;
  const bool is_written = position == written_;
  place_in from = is_written ? written_to_ : head_;
  std::size_t before = is_written ? 0 : static_cast<std::size_t>(position - released_);
  while (from.in && filled < runs.size() && bytes_max > 0) {
    auto here = static_cast<std::size_t>(end_of(from.in) - from.at);
    const std::size_t skipped = std::min(here, before);
    before -= skipped;
    here -= skipped;
    from.at += skipped;
    const std::size_t take = std::min(here, bytes_max);
    if (take > 0)
      runs[filled++] = {from.at, take};
    bytes_max -= take;
    from.in = from.in->next;
    from.at = from.in ? from.in->begin() : nullptr;
  }
  return filled;
}

}  // namespace atbus
