#include "atbus/detail/block_ring.hpp"

#include <algorithm>
#include <limits>
#include <new>

namespace atbus {
namespace {

// Cache lines, so that the first block starts on one.
constexpr std::align_val_t alignment{64};

std::size_t limit_of(const block_ring::options& chosen) noexcept {
  if (chosen.block_size == 0)
    return 0;
  // Differences of pointers into the ring must fit into ptrdiff_t.
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / 2;
  if (chosen.blocks > most / chosen.block_size)
    return 0;
  return chosen.blocks * chosen.block_size;
}

}  // namespace

void block_ring::deleter::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, alignment);
}

block_ring::block_ring(options chosen) noexcept : send_queue{limit_of(chosen)} {}

status block_ring::claim_elsewhere(std::size_t bytes, mutable_bytes& place) noexcept {
  if (claimed_ != 0)
    return {errc::invalid_argument, bytes};
  if (bytes > byte_limit_)
    return {errc::message_too_large, bytes, byte_limit_};
  if (!base_) {
    base_.reset(static_cast<std::byte*>(::operator new(byte_limit_, alignment, std::nothrow)));
    if (!base_)
      return {errc::out_of_memory, byte_limit_};
    restart();
  } else if (empty()) {
    restart();
  }
  const auto room = static_cast<std::size_t>(run_end_ - cursor_);
  if (bytes <= room)
    return open_claim(bytes, place);
  const auto before_head = wrapped_at_ ? 0 : static_cast<std::size_t>(head_ - base_.get());
  if (bytes > before_head)
    return {errc::would_block, bytes, std::max(room, before_head)};
  wrapped_at_ = cursor_;
  cursor_ = base_.get();
  run_end_ = head_;
  return open_claim(bytes, place);
}

void block_ring::claim_abandoned() noexcept {
  // The ring wrapped only for this claim: undo that, so that smaller messages can use the bytes before the
  // end.
  if (!wrapped_at_ || cursor_ != base_.get())
    return;
  cursor_ = wrapped_at_;
  run_end_ = base_.get() + byte_limit_;
  wrapped_at_ = nullptr;
}

void block_ring::restart() noexcept {
  head_ = cursor_ = base_.get();
  run_end_ = base_.get() + byte_limit_;
  wrapped_at_ = nullptr;
}

void block_ring::release(std::size_t bytes) noexcept {
  assert(bytes <= size() && "more released than is held");
  bytes = std::min(bytes, size());
  if (bytes == 0)
    return;
  released_ += bytes;
  written_ = std::max(written_, released_);
  // An open claim must not move; the ring starts again at its base later.
  if (empty() && claimed_ == 0)
    return restart();
  if (wrapped_at_) {
    const auto older = static_cast<std::size_t>(wrapped_at_ - head_);
    if (bytes < older) {
      head_ += bytes;
      run_end_ = head_;
      return;
    }
    bytes -= older;
    head_ = base_.get();
    run_end_ = base_.get() + byte_limit_;
    wrapped_at_ = nullptr;
  }
  head_ += bytes;
}

std::size_t block_ring::runs_from(std::uint64_t position, std::span<bytes_view> runs,
                                  std::size_t bytes_max) const noexcept {
  std::size_t skip = distance(released_, position);
  std::size_t filled = 0;
  const auto add = [&](const std::byte* begin, const std::byte* end) {
    const auto length = static_cast<std::size_t>(end - begin);
    const std::size_t skipped = std::min(skip, length);
    skip -= skipped;
    const std::size_t take = std::min(length - skipped, bytes_max);
    if (take == 0 || filled == runs.size())
      return;
    runs[filled++] = {begin + skipped, take};
    bytes_max -= take;
  };
  if (!wrapped_at_) {
    add(head_, cursor_);
  } else {
    add(head_, wrapped_at_);
    add(base_.get(), cursor_);
  }
  return filled;
}

}  // namespace atbus
