// The ciphertext side of a TLS session: what OpenSSL reads from a socket and writes to it.
//
// Guarantees:
//  - Reading takes nothing from the kernel beyond what OpenSSL has room for, and stops after a short read: a
//    further system call would find nothing.
//  - Ciphertext to be sent waits in one buffer of tls_output_size. OpenSSL is told to wait when it is full.
//  - sent_plain() counts a record's plaintext when the kernel has taken the whole record, and not before.
//  - OpenSSL never sees an end of file or a failed system call. It is told to wait, and the session asks
//    here. So a failure that passes, such as lack of memory in the kernel, does not end the session.
//
// The descriptor is the caller's. One thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "atbus/bytes.hpp"
#include "tls/tls_buffers.h"

struct bio_st;
struct bio_method_st;

namespace atbus::detail {

struct bio_method_free {
  void operator()(bio_method_st* method) const noexcept;
};
using bio_method = std::unique_ptr<bio_method_st, bio_method_free>;

class tls_wire {
 public:
  explicit tls_wire(tls_buffers& buffers) noexcept : buffers_(&buffers) {}
  tls_wire(const tls_wire&) = delete;
  tls_wire& operator=(const tls_wire&) = delete;
  ~tls_wire();

  // The functions through which OpenSSL calls a wire. Null: no memory.
  [[nodiscard]] static bio_method make_method() noexcept;
  // A BIO on this wire, which must outlive it. Null: no memory.
  [[nodiscard]] bio_st* make_bio(const bio_method_st& method) noexcept;

  // Goes to another thread, which settles it in with buffers of its own. It may end in between.
  void leave_buffers() noexcept { buffers_ = nullptr; }
  void settle_in(tls_buffers& buffers) noexcept { buffers_ = &buffers; }

  // --- reading

  // Allows OpenSSL to read until it has got `most` bytes or the kernel has no more. 0: not at all.
  void allow_reading(int fd, std::size_t most) noexcept {
    fd_ = fd;
    allowed_ = most;
    drained_ = false;
    in_vain_ = false;
  }
  // Whether OpenSSL has asked for bytes and got none.
  [[nodiscard]] bool asked_in_vain() const noexcept { return in_vain_; }
  // Whether a further read would find nothing.
  [[nodiscard]] bool drained() const noexcept { return drained_; }
  // The other end has ended the stream.
  [[nodiscard]] bool at_end() const noexcept { return at_end_; }
  // The errno of a failed read, once; 0 if none has failed.
  [[nodiscard]] int take_read_error() noexcept { return std::exchange(read_error_, 0); }
  // Bytes read so far.
  [[nodiscard]] std::size_t bytes_read() const noexcept { return bytes_read_; }

  // --- writing

  // Makes sure that there is an output buffer. False: no memory.
  [[nodiscard]] bool open_output() noexcept;
  [[nodiscard]] std::size_t pending() const noexcept { return end_ - begin_; }
  // Bytes that the output buffer still takes.
  [[nodiscard]] std::size_t room() const noexcept {
    return output_ == nullptr ? 0 : tls_output_size - end_;
  }
  // Sends what is pending. False: some is left, and errno says why.
  [[nodiscard]] bool send_pending(int fd) noexcept;
  // The latest record in the output buffer is complete. `plain`: bytes of plaintext in it.
  void end_record(std::size_t plain) noexcept;
  // Bytes of plaintext whose whole records the kernel has taken.
  [[nodiscard]] std::uint64_t sent_plain() const noexcept { return sent_plain_; }
  // Forgets what is pending.
  void drop_pending() noexcept;
  // Forgets what is pending and all that OpenSSL writes from now on.
  void end_output() noexcept {
    drop_pending();
    output_ended_ = true;
  }

 private:
  friend struct wire_calls;  // the functions of make_method
  [[nodiscard]] ssize_t take(mutable_bytes place) noexcept;
  [[nodiscard]] std::size_t put(bytes_view bytes) noexcept;
  void count_sent_records() noexcept;

  // Most records of plaintext in the output buffer: all but the last are full.
  static constexpr std::size_t records_max = tls_batch_plain_max / tls_record_plain_max + 1;
  struct record {
    std::uint32_t end = 0;  // of its ciphertext in the output buffer
    std::uint32_t plain = 0;
  };

  tls_buffers* buffers_;
  tls_output output_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::array<record, records_max> records_;
  std::size_t first_record_ = 0;  // that has not left
  std::size_t record_count_ = 0;
  std::uint64_t sent_plain_ = 0;
  std::size_t allowed_ = 0;
  std::size_t bytes_read_ = 0;
  int fd_ = -1;
  int read_error_ = 0;
  bool drained_ = false;
  bool in_vain_ = false;
  bool at_end_ = false;
  bool output_ended_ = false;
};

}  // namespace atbus::detail
