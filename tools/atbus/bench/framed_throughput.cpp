// Workers of a bare connection that carries messages: the best we can write by hand, and nothing
// that a channel adds: no opening, no states, no limits to hold, one connection, one thread.
//
// A frame is a header and the message, rounded up to 8 bytes. The sender fills a batch of them and
// hands it to the kernel; the receiver reads as much as there is and looks at the messages where
// they lie; only the part of a frame at the end moves to the front.
#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "atbus/bench/bare_socket.h"
#include "atbus/bench/crc32c.h"
#include "atbus/bench/dispatch.h"
#include "atbus/bench/receiving.h"
#include "atbus/bench/tasks.h"
#include "atbus/bench/write_message.h"

namespace atbus::bench {
namespace {

struct frame_header {
  std::uint32_t length;
  std::uint32_t checksum;  // CRC-32C of length and message, or 0
};
static_assert(sizeof(frame_header) == 8);

constexpr std::uint64_t frame_bytes(std::uint64_t length) noexcept {
  return sizeof(frame_header) + ((length + 7) & ~std::uint64_t{7});
}

template <bool Checksum>
std::uint32_t checksum_of(std::uint32_t length, const std::byte* message) noexcept {
  if constexpr (!Checksum) {
    return 0;
  }
  std::byte head[sizeof length];
  std::memcpy(head, &length, sizeof length);
  return crc32c_end(crc32c_add(crc32c_add(crc32c_start, head, sizeof head), message, length));
}

template <check_kind Check, api_kind Api, bool Checksum>
std::uint64_t send_batches(worker& self, bare_socket& socket) {
  const workload& work = self.work();
  const message_lengths lengths = work.lengths();
  const auto own = std::make_unique<std::byte[]>(lengths.longest() + 8);
  const auto batch =
      std::make_unique<std::byte[]>(work.write_bytes + frame_bytes(lengths.longest()));
  const std::byte* const full = batch.get() + work.write_bytes;
  std::uint64_t number = 0;
  // One batch at least: a run that begins late on a busy machine still has a figure.
  do {
    std::byte* at = batch.get();
    while (at < full) {
      const std::uint64_t word = first_word(0, number);
      const std::uint64_t length = lengths.of(word);
      std::byte* const message = at + sizeof(frame_header);
      if constexpr (Api == api_kind::send) {
        write_message<Check>(word, own.get(), length);
        copy_message(message, own.get(), length);
      } else {
        write_message<Check>(word, message, length);
      }
      const auto short_length = static_cast<std::uint32_t>(length);
      const frame_header header{short_length, checksum_of<Checksum>(short_length, message)};
      std::memcpy(at, &header, sizeof header);
      at += frame_bytes(length);
      ++number;
    }
    if (!socket.write(batch.get(), static_cast<std::size_t>(at - batch.get()))) {
      break;
    }
  } while (!self.stopped());
  return number;
}

// Takes the whole frames at the front; returns how many bytes they are.
template <check_kind Check, bool Checksum>
std::size_t take_frames(ledger& account, std::uint64_t& damaged, std::uint64_t longest,
                        const std::byte* const from, const std::size_t size) {
  const std::byte* at = from;
  const std::byte* const end = from + size;
  while (static_cast<std::size_t>(end - at) >= sizeof(frame_header)) {
    frame_header header;
    std::memcpy(&header, at, sizeof header);
    if (header.length > longest) [[unlikely]] {
      throw std::runtime_error("a frame has a length that no message has");
    }
    if (static_cast<std::size_t>(end - at) < frame_bytes(header.length)) {
      break;
    }
    const std::byte* const message = at + sizeof header;
    if (header.checksum != checksum_of<Checksum>(header.length, message)) [[unlikely]] {
      ++damaged;
    }
    account.take<Check>({message, header.length});
    at += frame_bytes(header.length);
  }
  return static_cast<std::size_t>(at - from);
}

template <check_kind Check, bool Checksum>
void receive_batches(worker& self, bare_socket& socket) {
  const workload& work = self.work();
  const std::uint64_t longest = work.lengths().longest();
  const auto buffer = std::make_unique<std::byte[]>(work.read_bytes + frame_bytes(longest));
  ledger account{work.lengths(), 1};
  std::uint64_t damaged = 0;
  std::size_t have = 0;
  while (const std::size_t got = socket.read(buffer.get() + have, work.read_bytes, work.spin_ns)) {
    have += got;
    const std::size_t taken =
        take_frames<Check, Checksum>(account, damaged, longest, buffer.get(), have);
    have -= taken;
    std::memmove(buffer.get(), buffer.get() + taken, have);
    self.progress(account.messages());
  }
  worker_figures figures = figures_from_pair(self, account, now_ns());
  figures.corrupt = std::max(figures.corrupt, damaged);
  self.finish(figures);
}

}  // namespace

void receive_frames(worker& self) {
  bare_socket socket{self};
  if (!self.wait_for_start()) {
    return;
  }
  with_check(self.work().check, [&]<check_kind Check>() {
    self.work().checksum ? receive_batches<Check, true>(self, socket)
                         : receive_batches<Check, false>(self, socket);
  });
}

void send_frames(worker& self) {
  bare_socket socket{self};
  if (!self.wait_for_start()) {
    return;
  }
  const workload& work = self.work();
  std::uint64_t sent = 0;
  with_check_and_api(work, [&]<check_kind Check, api_kind Api>() {
    sent = work.checksum ? send_batches<Check, Api, true>(self, socket)
                         : send_batches<Check, Api, false>(self, socket);
  });
  // First the figures, then the end: the receiver looks for them when it has read everything.
  self.finish({.messages = sent});
  socket.close_writing();
}

}  // namespace atbus::bench
