// Workers of a bare connection: bytes without meaning, as fast as the kernel takes them.
#include <cstring>
#include <memory>

#include "atbus/bench/bare_socket.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {

void read_from_socket(worker& self) {
  const workload& work = self.work();
  const auto buffer = std::make_unique<std::byte[]>(work.read_bytes);
  bare_socket socket{self};
  if (!self.wait_for_start()) {
    return;
  }
  std::uint64_t bytes = 0;
  while (const std::size_t got = socket.read(buffer.get(), work.read_bytes, work.spin_ns)) {
    bytes += got;
    self.progress(bytes / work.write_bytes);
  }
  self.finish({.messages = bytes / work.write_bytes, .bytes = bytes});
}

void write_to_socket(worker& self) {
  const workload& work = self.work();
  const auto buffer = std::make_unique<std::byte[]>(work.write_bytes);
  std::memset(buffer.get(), 1, work.write_bytes);
  bare_socket socket{self};
  if (!self.wait_for_start()) {
    return;
  }
  std::uint64_t writes = 0;
  // One at least: a run that begins late on a busy machine still has a figure.
  do {
    if (!socket.write(buffer.get(), work.write_bytes)) {
      break;
    }
    ++writes;
  } while (!self.stopped());
  self.finish({.messages = writes, .bytes = writes * work.write_bytes});
  socket.close_writing();
}

}  // namespace atbus::bench
