// Holds the bytes of a stream between the kernel and the handler.
//
// Sockets read into one read_space per loop. Each connection has a read_buffer, which borrows the space for
// its turn. A partial frame at the end stays there until another connection needs the space; only then it
// moves to memory of its own. So an idle connection holds almost no memory, and a busy one moves only
// partial tails.
//
//    | handed out | complete frames ... | partial tail |  room for the next read  |
//    base         next                                 end                        base + capacity
//
// Guarantees:
//  - Frames are handed out in place, at multiples of 8.
//  - A frame that fits the space is assembled there. A larger frame, or one above 4 KiB whose tail had to
//    leave the space, is assembled once, in memory of its own that grows as its bytes arrive. So an announced
//    length reserves nothing, and a peer that sends byte by byte causes no copying.
//  - memory() never exceeds memory_limit().
//
// One thread for a space and all its buffers. The space outlives them. A handler may throw, and may
// use other buffers of the same space; it must not destroy the buffer that calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "atbus/bytes.hpp"
#include "atbus/status.hpp"
#include "channel/stream/frame_reader.h"

namespace atbus::detail {

class read_buffer;

struct free_memory {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using malloc_memory = std::unique_ptr<std::byte, free_memory>;

// The memory that the connections of one loop read into, one at a time.
class read_space {
 public:
  // Allocates nothing yet. `size` in bytes, rounded up to whole pages.
  explicit read_space(std::size_t size) noexcept;
  read_space(const read_space&) = delete;
  read_space& operator=(const read_space&) = delete;
  ~read_space();

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  friend class read_buffer;

  // Null if the space is not available: its user is inside a handler, or there is no memory.
  std::byte* take(read_buffer& user) noexcept;
  void leave(const read_buffer& user) noexcept {
    if (user_ == &user)
      user_ = nullptr;
  }

  malloc_memory memory_;
  std::size_t size_;
  read_buffer* user_ = nullptr;
};

class read_buffer {
 public:
  read_buffer(read_space& space, const hello& own) noexcept : space_{&space}, reader_{own} {}
  read_buffer(const read_buffer&) = delete;
  read_buffer& operator=(const read_buffer&) = delete;
  ~read_buffer() {
    if (space_ != nullptr)
      space_->leave(*this);
  }

  // Where the next read goes: at least one byte. Valid until any buffer of the space is prepared.
  // Errors: out_of_memory (wanted), after which a later call may succeed; invalid_argument unless the last
  // walk() ended with needs_more, because messages are waiting.
  [[nodiscard]] status prepare(mutable_bytes& place) noexcept;

  // The read has put `bytes` at the beginning of the place.
  void received(std::size_t bytes) noexcept;

  // Hands out every complete frame, see frame_reader::walk. Called from inside its own handler, it hands out
  // nothing and returns `stopped`.
  template <checksums When = checksums::now, class Handler>
  walk_end walk(Handler&& handler) {
    if (walking_)
      return walk_end::stopped;
    const walking_mark mark{walking_};
    const walk_end ended = reader_.walk<When>(next_, end_, handler);
    may_read_ = ended == walk_end::needs_more;
    return ended;
  }

  // Hands out the control frames before the next message, then lends the run of messages that begins there
  // and returns `stopped`. Their checksums are not verified. The borrower gives the run back before any other
  // call to this buffer, and before any buffer of the space is prepared.
  template <class Handler>
  walk_end lend(frame_run& run, Handler&& handler) {
    run = {};
    const walk_end ended = walk<checksums::later>([&](frame_kind kind, bytes_view payload) {
      if (kind == frame_kind::control)
        return handler(kind, payload);
      run = reader_.run(payload.data() - frame_header_size, end_);
      return frame_flow::stop;
    });
    give_back(run);
    return ended;
  }
  // Returns the rest of a run.
  void give_back(const frame_run& run) noexcept {
    if (run.at != nullptr)
      next_ = run.at;
  }

  // Moves what is in the space to memory of its own, and forgets the space. False: there is no memory; what it held is
  // lost. Another thread may go on with the buffer, in a space of its own.
  [[nodiscard]] bool leave_space() noexcept;
  void settle_in(read_space& space) noexcept { space_ = &space; }

  [[nodiscard]] const frame_reader& reader() const noexcept { return reader_; }
  // As frame_reader::set_limit.
  void set_limit(std::uint32_t payload_max) noexcept { reader_.set_limit(payload_max); }
  void reject(bytes_view message) noexcept { reader_.reject(message); }

  // Bytes received and not handed out. At an end of file: the bytes of an incomplete frame.
  [[nodiscard]] std::size_t pending() const noexcept {
    return static_cast<std::size_t>(end_ - next_);
  }

  // Bytes of memory of its own, and their bound: the largest frame it accepts, or the size of the space if
  // that is larger (after a handler stopped and another connection took the space).
  [[nodiscard]] std::size_t memory() const noexcept { return own_capacity_; }
  [[nodiscard]] std::size_t memory_limit() const noexcept;

 private:
  friend class read_space;

  struct walking_mark {
    explicit walking_mark(bool& mark) noexcept : walking{mark} { walking = true; }
    ~walking_mark() { walking = false; }
    walking_mark(const walking_mark&) = delete;
    walking_mark& operator=(const walking_mark&) = delete;
    bool& walking;
  };

  [[nodiscard]] bool in_space() const noexcept { return space_->user_ == this; }
  // Leaves the space to another user. False: not possible now.
  bool give_way() noexcept;
  bool move_to_space() noexcept;
  bool move_to_own(std::size_t capacity) noexcept;
  void make_room_in_space() noexcept;
  void settle_at(std::byte* base, std::size_t capacity, std::size_t kept) noexcept;
  [[nodiscard]] std::size_t own_capacity_for(std::size_t needed) const noexcept;

  read_space* space_;  // null between two threads
  frame_reader reader_;
  // Points into the space while this buffer uses it, else to `own_`, else null.
  std::byte* base_ = nullptr;
  std::size_t capacity_ = 0;
  const std::byte* next_ = nullptr;
  const std::byte* end_ = nullptr;
  malloc_memory own_;
  std::size_t own_capacity_ = 0;
  std::size_t prepared_ = 0;
  bool may_read_ = true;
  bool walking_ = false;
};

}  // namespace atbus::detail
