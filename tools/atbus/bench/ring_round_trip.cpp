// Workers of the bare ring: one message there, one back.
#include "atbus/bench/bare_ring.h"
#include "atbus/bench/round_trip.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

// Two rings lie in the arena: there, and back.
class ring_end {
 public:
  ring_end(worker& self, bool asks) noexcept
      : self_{self},
        out_{ring(asks ? 0 : 1), ring_capacity(self.work())},
        in_{ring(asks ? 1 : 0), ring_capacity(self.work())},
        length_{self.work().lengths().longest()} {}

  bool send(std::uint64_t number) noexcept {
    // There is room: at most one message is on its way.
    if (std::byte* const at = out_.claim(length_); at != nullptr) [[likely]] {
      fill(number, at, length_);
      out_.publish();
    }
    return true;
  }

  bool receive(std::uint64_t number, std::uint64_t& wrong) noexcept {
    if (!look_until_stopped(self_, [this] { return in_.look() != 0; })) {
      return false;
    }
    in_.drain([&](const std::byte* at, std::uint64_t length) {
      wrong += intact(number, at, length) ? 0 : 1;
    });
    in_.give_back();
    return true;
  }

 private:
  std::byte* ring(std::uint64_t index) const noexcept {
    return self_.block().arena() + index * ring_arena_bytes(ring_capacity(self_.work()));
  }

  worker& self_;
  ring_writer out_;
  ring_reader in_;
  std::uint64_t length_;
};

}  // namespace

void ping_over_rings(worker& self) {
  ring_end end{self, true};
  ping_through(self, end);
}

void pong_over_rings(worker& self) {
  ring_end end{self, false};
  pong_through(self, end);
}

}  // namespace atbus::bench
