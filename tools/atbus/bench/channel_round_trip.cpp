// Workers of `bench latency`: one message there, one back, over any two addresses.
#include "atbus/bench/channel_open.h"
#include "atbus/bench/round_trip.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

class channel_end {
 public:
  channel_end(worker& self, receiver& inbox, sender& out) noexcept
      : self_{self}, inbox_{inbox}, out_{out}, length_{self.work().lengths().longest()} {}

  bool send(std::uint64_t number) {
    auto slot = out_.claim(length_);
    if (!slot) {
      throw std::runtime_error("claim: " + slot.why().text());
    }
    fill(number, slot.bytes().data(), length_);
    slot.commit();
    return true;
  }

  bool receive(std::uint64_t number, std::uint64_t& wrong) {
    const auto handler = [number, &wrong](std::span<const std::byte> message) {
      wrong += intact(number, message.data(), message.size()) ? 0 : 1;
    };
    return look_until_stopped(self_, inbox_, [&] { return inbox_.poll(handler) != 0; });
  }

 private:
  worker& self_;
  receiver& inbox_;
  sender& out_;
  std::uint64_t length_;
};

// Each side listens first, and then sends to where the other one does.
template <class Trips>
void between_channels(worker& self, const char* address, Trips&& trips) {
  const std::size_t other = 1 - self.index();
  receiver inbox = open_receiver(self.work(), address);
  self.listening(inbox.address());
  if (!self.wait_for(other, worker_state::listening)) {
    return;
  }
  sender out = open_sender(self.work(), self.address_of(other));
  channel_end end{self, inbox, out};
  trips(end);
  remove(inbox);
}

}  // namespace

void ping_over_channels(worker& self) {
  between_channels(self, self.work().reply_address.data(),
                   [&](channel_end& end) { ping_through(self, end); });
}

void pong_over_channels(worker& self) {
  between_channels(self, self.work().address.data(),
                   [&](channel_end& end) { pong_through(self, end); });
}

}  // namespace atbus::bench
