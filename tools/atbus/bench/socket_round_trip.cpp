// Workers of a bare connection: one message there, one back.
#include <memory>

#include "atbus/bench/bare_socket.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

// Far longer than a round trip; after it a side sleeps, and sees if the other is dead.
constexpr std::int64_t endless_spin_ns = ns_per_s / 10;

class message_end {
 public:
  explicit message_end(worker& self)
      : socket_{self},
        length_{self.work().lengths().longest()},
        spin_ns_{self.work().sleep ? 0 : endless_spin_ns},
        message_{std::make_unique<std::byte[]>(length_)} {}

  std::uint64_t length() const noexcept { return length_; }

  bool send(std::uint64_t number) {
    fill(number, message_.get(), length_);
    return socket_.write(message_.get(), length_);
  }

  // Waits for all of it. False: the other side is gone.
  bool receive() {
    for (std::size_t have = 0; have != length_;) {
      const std::size_t got = socket_.read(message_.get() + have, length_ - have, spin_ns_);
      if (got == 0) {
        return false;
      }
      have += got;
    }
    return true;
  }

  bool holds(std::uint64_t number) const noexcept {
    return intact(number, message_.get(), length_);
  }

  void close_writing() noexcept { socket_.close_writing(); }

 private:
  bare_socket socket_;
  std::uint64_t length_;
  std::int64_t spin_ns_;
  std::unique_ptr<std::byte[]> message_;
};

}  // namespace

void ping_over_sockets(worker& self) {
  message_end end{self};
  const std::uint64_t most = self.work().round_trips;
  histogram& latency = self.block().latency;
  if (!self.wait_for_start()) {
    return;
  }
  worker_figures figures;
  std::int64_t before = now_ns();
  do {
    if (!end.send(figures.messages) || !end.receive()) {
      break;
    }
    figures.corrupt += end.holds(figures.messages) ? 0 : 1;
    const std::int64_t after = now_ns();
    latency.record(static_cast<std::uint64_t>(after - before));
    before = after;
    ++figures.messages;
  } while (!self.stopped() && figures.messages != most);  // 0 is no limit
  figures.bytes = figures.messages * end.length();
  self.finish(figures);
  end.close_writing();
  self.stop_all();
}

void pong_over_sockets(worker& self) {
  message_end end{self};
  if (!self.wait_for_start()) {
    return;
  }
  worker_figures figures;
  while (end.receive()) {
    figures.corrupt += end.holds(figures.messages) ? 0 : 1;
    if (!end.send(figures.messages)) {
      break;
    }
    ++figures.messages;
  }
  self.finish(figures);
}

}  // namespace atbus::bench
