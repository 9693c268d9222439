// A worker's end of a connection, with nothing but send(2) and recv(2). Errors are thrown as
// std::runtime_error; the run reports them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "atbus/bench/worker.h"

namespace atbus::bench {

class bare_socket {
 public:
  // Takes the worker's own end of work().sockets and closes its copy of the other.
  explicit bare_socket(worker& self);
  ~bare_socket();
  bare_socket(const bare_socket&) = delete;
  bare_socket& operator=(const bare_socket&) = delete;

  // Reads what is there, up to `size` bytes; when nothing is, looks again for spin_ns and then
  // sleeps. 0: the other side has finished or is gone.
  std::size_t read(std::byte* to, std::size_t size, std::int64_t spin_ns);

  // Sleeps while the kernel has no room. False: the other side is gone.
  [[nodiscard]] bool write(const std::byte* from, std::size_t size);

  // Lets the other side's read() end when everything is read.
  void close_writing() noexcept;

 private:
  std::size_t sleep_for_bytes(std::byte* to, std::size_t size);

  worker& self_;
  std::size_t other_;
  int descriptor_;
};

}  // namespace atbus::bench
