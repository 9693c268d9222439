// Workers of a bare connection: one message there, one back.
#include <memory>

#include "atbus/bench/bare_socket.h"
#include "atbus/bench/round_trip.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

// Far longer than a round trip; after it a side sleeps, and sees if the other is dead.
constexpr std::int64_t endless_spin_ns = ns_per_s / 10;

class socket_end {
 public:
  explicit socket_end(worker& self)
      : socket_{self},
        length_{self.work().lengths().longest()},
        spin_ns_{self.work().sleep ? 0 : endless_spin_ns},
        message_{std::make_unique<std::byte[]>(length_)} {}

  bool send(std::uint64_t number) {
    fill(number, message_.get(), length_);
    return socket_.write(message_.get(), length_);
  }

  // Waits for all of it. False: the other side is gone.
  bool receive(std::uint64_t number, std::uint64_t& wrong) {
    for (std::size_t have = 0; have != length_;) {
      const std::size_t got = socket_.read(message_.get() + have, length_ - have, spin_ns_);
      if (got == 0) {
        return false;
      }
      have += got;
    }
    wrong += intact(number, message_.get(), length_) ? 0 : 1;
    return true;
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
  socket_end end{self};
  ping_through(self, end);
  end.close_writing();
}

void pong_over_sockets(worker& self) {
  socket_end end{self};
  pong_through(self, end);
}

}  // namespace atbus::bench
