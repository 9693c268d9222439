#include <chrono>

#include "atbus/clock.hpp"
#include "atbus/receiver.hpp"
#include "child_process.h"
#include "numbered_message.h"
#include "storm.h"

namespace atbus::test {
namespace {

constexpr const char* address = "shm://storm?lanes=7&lane_size=16K&message_limit=4000";

// Checks each message against what earlier receivers, dead or alive, wrote down.
class storm_receiver {
 public:
  storm_receiver(const storm_world& world, std::uint32_t instance, std::uint64_t seed)
      : world_(world), memory_(world.memory()), incarnation_(instance), random_(seed) {}

  void run() {
    for (;;) {
      receiver_options options;
      options.directory = world_.directory();
      auto inbox = receiver::open(address, options);
      if (!inbox) {
        world_.violation("receiver::open: " + inbox.error().text());
        return;
      }
      inbox->on_problem([this](const error& e) { world_.violation(e.text()); });
      memory_.receiver_is_open.set(incarnation_);
      receive(*inbox);
      // Closed in an orderly way and opened again.
      incarnation_ = memory_.receiver_incarnations.fetch_add(1) + 1;
    }
  }

 private:
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  void receive(receiver& inbox) {
    for (std::uint64_t rounds = 100 + pick(5000); rounds != 0; --rounds) {
      const poll_limits limits{.messages = 1 + pick(500)};
      const std::size_t n = inbox.poll([this](const received_message& m) { take(m); }, limits);
      if (n != 0)
        memory_.progress.add();
      if (n == 0 && pick(4) != 0) {
        const status s = inbox.wait(std::chrono::hours{1});
        if (!s)
          world_.violation("wait: " + s.text());
      }
    }
  }

  void take(const received_message& m) {
    message_stamp stamp;
    if (!read_message(m.bytes, stamp) || stamp.sender == 0 || stamp.sender >= most_incarnations) {
      world_.violation("a torn message was delivered");
      return;
    }
    sender_incarnation& sender = memory_.senders[stamp.sender];
    const std::uint64_t last = sender.delivered.load();
    const std::uint32_t last_receiver = sender.last_receiver.load();
    const auto complain = [&](const char* what) {
      world_.violation("message " + std::to_string(stamp.number) + " of incarnation " +
                       std::to_string(stamp.sender) + " after " + std::to_string(last) + ": " +
                       what);
    };
    if (m.redelivered) {
      memory_.marks.fetch_add(1);
      if (last_receiver == incarnation_)
        complain("marked, though the same receiver had one before");
    }
    if (stamp.number == last && m.redelivered)
      sender.repeated.fetch_add(1);
    else if (stamp.number != last + 1)
      complain(stamp.number == last ? "again, without a mark" : "out of order");
    sender.last_receiver.store(incarnation_);
    sender.delivered.store(stamp.number);
    memory_.deliveries.fetch_add(1);
    if (pick(256) == 0) {
      // Be killed in a handler more often than its few instructions would let us.
      const auto end = now() + std::chrono::microseconds{50};
      while (now() < end) {
      }
    }
  }

  const storm_world& world_;
  storm_memory& memory_;
  std::uint32_t incarnation_;
  std::mt19937_64 random_;
};

}  // namespace

int storm_world::run_receiver(std::uint32_t instance) const {
  storm_receiver{*this, instance, seed_ * 999'983 + instance}.run();
  return 1;
}

}  // namespace atbus::test
