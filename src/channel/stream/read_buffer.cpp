#include "channel/stream/read_buffer.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace atbus::detail {
namespace {

constexpr std::size_t page = 4096;

// A partial frame up to this size moves back to the space. This bounds the copying that a peer can cause by
// sending byte by byte. Own memory up to this size is kept.
constexpr std::size_t small_frame = 4096;

// The least allocation: the size of a read when the space is not available.
constexpr std::size_t smallest_step = 16 * 1024;

}  // namespace

read_space::read_space(std::size_t size) noexcept
    : size_{std::max((size + page - 1) & ~(page - 1), page)} {}

read_space::~read_space() {
  assert(user_ == nullptr && "a read_buffer outlives its space");
}

std::byte* read_space::take(read_buffer& user) noexcept {
  if (!memory_)
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(page, size_)));
  if (!memory_ || (user_ != nullptr && user_ != &user && !user_->give_way()))
    return nullptr;
  user_ = &user;
  return memory_.get();
}

std::size_t read_buffer::memory_limit() const noexcept {
  const std::size_t largest_frame =
      frame_size(std::max(reader_.payload_max(), control_payload_max));
  return std::max({largest_frame, space_->size(), smallest_step});
}

status read_buffer::prepare(mutable_bytes& place) noexcept {
  place = {};
  prepared_ = 0;
  if (walking_ || !may_read_)
    return errc::invalid_argument;
  const std::size_t needed = pending() == 0 ? frame_header_size : reader_.needed();
  if (in_space() && needed <= space_->size()) {
    make_room_in_space();
  } else if (in_space() || needed > small_frame || !move_to_space()) {
    const std::size_t capacity = own_capacity_for(needed);
    if (!move_to_own(capacity))
      return {errc::out_of_memory, capacity};
  }
  place = {base_ + (end_ - base_), static_cast<std::size_t>(base_ + capacity_ - end_)};
  prepared_ = place.size();
  return {};
}

void read_buffer::received(std::size_t bytes) noexcept {
  assert(bytes <= prepared_ && "more was read than there was room");
  end_ += std::min(bytes, prepared_);
  prepared_ = 0;
}

// Grows with the bytes that have arrived, so that memory follows what the peer has really sent.
std::size_t read_buffer::own_capacity_for(std::size_t needed) const noexcept {
  return std::max({std::min(needed, 2 * pending()), smallest_step, own_capacity_});
}

void read_buffer::settle_at(std::byte* base, std::size_t capacity, std::size_t kept) noexcept {
  if (kept != 0 && next_ != base)
    std::memmove(base, next_, kept);
  base_ = base;
  capacity_ = capacity;
  next_ = base;
  end_ = base + kept;
}

void read_buffer::make_room_in_space() noexcept {
  const std::size_t kept = pending();
  const auto room = static_cast<std::size_t>(base_ + capacity_ - end_);
  // Always move a short tail: reads at the front of the space stay in the cache.
  if (kept <= small_frame || room < std::max(reader_.needed() - kept, capacity_ / 2))
    settle_at(base_, capacity_, kept);
}

bool read_buffer::move_to_space() noexcept {
  std::byte* const space = space_->take(*this);
  if (space == nullptr)
    return false;
  settle_at(space, space_->size(), pending());
  if (own_capacity_ > small_frame) {
    own_.reset();
    own_capacity_ = 0;
  }
  return true;
}

bool read_buffer::move_to_own(std::size_t capacity) noexcept {
  const std::size_t kept = pending();
  const bool were_there = base_ != nullptr && base_ == own_.get();
  if (were_there)
    settle_at(base_, capacity_, kept);  // to the front, because realloc copies from there
  if (own_capacity_ < capacity) {
    auto* const larger = static_cast<std::byte*>(std::realloc(own_.get(), capacity));
    if (larger == nullptr)
      return false;
    (void)own_.release();
    own_.reset(larger);
    own_capacity_ = capacity;
  }
  if (were_there)
    next_ = own_.get();
  settle_at(own_.get(), own_capacity_, kept);
  space_->leave(*this);
  return true;
}

bool read_buffer::leave_space() noexcept {
  const bool kept = !in_space() || give_way();
  space_->leave(*this);
  space_ = nullptr;
  return kept;
}

bool read_buffer::give_way() noexcept {
  if (walking_)
    return false;
  if (pending() != 0)
    return move_to_own(std::max((pending() + page - 1) & ~(page - 1), own_capacity_));
  space_->leave(*this);
  base_ = nullptr;
  next_ = end_ = nullptr;
  capacity_ = 0;
  return true;
}

}  // namespace atbus::detail
