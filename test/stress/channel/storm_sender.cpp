#include <unistd.h>

#include <csignal>
#include <ctime>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

#include "atbus/sender.hpp"
#include "child_process.h"
#include "numbered_message.h"
#include "storm.h"

namespace atbus::test {
namespace {

constexpr std::size_t largest_message = 1500;

// A sending process: opens again and again, each time as a new incarnation.
class storm_sender {
 public:
  storm_sender(const storm_world& world, std::uint32_t slot, std::uint64_t seed)
      : world_(world), memory_(world.memory()), slot_(slot), random_(seed) {}

  void run() {
    while (memory_.finish.get() == 0) {
      stand_still_if_calm();
      sender_options options;
      options.directory = world_.directory();
      auto out = sender::open("shm://storm", options);
      if (!out) {
        // Every lane may be full of what the dead left, until a receiver comes.
        if (!(out.error() == errc::not_found || out.error() == errc::no_free_lane))
          world_.violation("sender::open: " + out.error().text());
        const timespec pause{.tv_sec = 0, .tv_nsec = 200'000};
        nanosleep(&pause, nullptr);
        continue;
      }
      id_ = memory_.sender_incarnations.fetch_add(1) + 1;
      require(id_ < most_incarnations, "too many lives");
      live(*out);
    }
  }

 private:
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }
  sender_incarnation& mine() { return memory_.senders[id_]; }

  void live(sender& out) {
    const std::uint64_t most = 1 + pick(20'000);
    number_ = 0;
    while (number_ < most && memory_.finish.get() == 0) {
      stand_still_if_calm();
      const status s = send_some(out);
      if (s)
        continue;
      if (!(s == errc::would_block)) {
        world_.violation("send: " + s.text());
        return;
      }
      if (pick(8) == 0 && !out.receiver_alive() && take_back(out))
        return;
      const status w = out.wait_writable(std::chrono::milliseconds{1 + pick(50)});
      if (!w && !(w == errc::timed_out))
        world_.violation("wait_writable: " + w.text());
      if (pick(64) == 0)
        fork_a_child_that_does_nothing();
    }
  }

  status send_some(sender& out) {
    switch (pick(8)) {
      case 0:
        return send_batch(out);
      case 1:
        return claim_and_give_up(out);
      case 2:
        return send_claimed(out);
      default:
        return send_copied(out);
    }
  }

  std::size_t random_size() {
    return smallest_message + pick(pick(4) == 0 ? largest_message - smallest_message : 100);
  }

  void accept(std::uint64_t upto) {
    number_ = upto;
    mine().accepted.store(upto);
  }

  status send_copied(sender& out) {
    std::array<std::byte, largest_message> bytes;
    const std::span<std::byte> message{bytes.data(), random_size()};
    write_message(message, id_, number_ + 1);
    mine().attempted.store(number_ + 1);
    const status s = out.send(message);
    if (s)
      accept(number_ + 1);
    return s;
  }

  status send_claimed(sender& out) {
    auto slot = out.claim(largest_message);
    if (!slot)
      return slot.why();
    const std::size_t size = random_size();
    write_message(slot.bytes().first(size), id_, number_ + 1);
    mine().attempted.store(number_ + 1);
    slot.commit(size);
    accept(number_ + 1);
    return {};
  }

  status claim_and_give_up(sender& out) {
    auto slot = out.claim(random_size());
    if (!slot)
      return slot.why();
    std::memset(slot.bytes().data(), 0xee, slot.bytes().size());
    return {};
  }

  status send_batch(sender& out) {
    status s;
    std::uint64_t last = number_;
    const std::uint64_t goal = number_ + 1 + pick(20);
    mine().attempted.store(goal);
    {
      auto batch = out.batch();
      std::array<std::byte, largest_message> bytes;
      while (s && last < goal) {
        const std::span<std::byte> message{bytes.data(), random_size()};
        write_message(message, id_, last + 1);
        s = batch.send(message);
        if (s)
          ++last;
      }
    }
    accept(last);
    return s;
  }

  // True: it was taken back, and this incarnation is over.
  bool take_back(sender& out) {
    sender_incarnation& instance = mine();
    instance.taking_back.store(1);
    auto back = out.take_back([this, &instance](bytes_view bytes, errc why) {
      message_stamp stamp;
      if (!read_message(bytes, stamp) || stamp.sender != id_)
        world_.violation("a torn message was taken back");
      if (instance.taken_back.load() == 0)
        instance.first_taken_back.store(stamp.number);
      instance.taken_back.fetch_add(1);
      if (why == errc::outcome_unknown)
        instance.unknown.fetch_add(1);
    });
    if (back) {
      instance.taking_back.store(2);
      return true;
    }
    instance.taking_back.store(0);
    if (!(back.error() == errc::receiver_alive))
      world_.violation("take_back: " + back.error().text());
    return false;
  }

  // It must neither keep our lane when we die, nor disturb it when it ends.
  void fork_a_child_that_does_nothing() {
    const pid_t child = fork();
    if (child != 0)
      return;
    if (fork() == 0) {
      const timespec pause{.tv_sec = 0, .tv_nsec = 30'000'000};
      nanosleep(&pause, nullptr);
    }
    _exit(0);
  }

  void stand_still_if_calm() {
    const std::uint32_t calm = memory_.calm.get();
    if (calm % 2 == 0)
      return;
    memory_.standing_still[slot_].set(calm);
    // For ever, if need be: the test ends us.
    (void)memory_.calm.wait_until([calm](std::uint32_t now) { return now != calm; },
                                  std::chrono::hours{1});
  }

  const storm_world& world_;
  storm_memory& memory_;
  std::uint32_t slot_;
  std::mt19937_64 random_;
  std::uint32_t id_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace

int storm_world::run_sender(std::uint32_t slot, std::uint32_t instance) const {
  signal(SIGCHLD, SIG_IGN);  // no zombies of the children it forks
  storm_sender{*this, slot, seed_ * 1'000'003 + instance}.run();
  return 0;
}

}  // namespace atbus::test
