#include "node_member.h"

#include <ctime>

#include "child_process.h"
#include "numbered_message.h"

namespace atbus::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t largest_message = 20'000;
constexpr std::uint32_t shortest_turn_us = 100;

}  // namespace

int node_member::run() {
  while (!finishing())
    live();
  return 0;
}

void node_member::live() {
  const member_plan& plan = plans_[role_];
  const std::uint32_t instance = book_.born(role_);
  const std::uint32_t orders = orders_.leave[role_].get();
  bool in_shutdown = false;
  node own{plan.id, plan.options};
  own.on_message([&](const message& m) { handled(instance, m); });
  own.on_undelivered([&](const undelivered& u) {
    book_.reported(instance, u, in_shutdown);
    book_.tell_progress();
  });
  for (const std::string& address : plan.listens) {
    if (const error bad = own.listen(address); !bad)
      book_.violation("listen: " + bad.text());
  }
  for (const auto& [id, address] : plan.connects) {
    if (const error bad = own.connect(id, address); !bad)
      book_.violation("connect: " + bad.text());
  }
  while (!finishing() && orders_.leave[role_].get() == orders) {
    send_some(own, instance);
    call_the_roll(own, instance);
    if (own.poll({.messages = 1 + pick(200)}) != 0)
      book_.tell_progress();
    (void)own.wait(std::chrono::microseconds{shortest_turn_us +
                                             pick(plan.longest_turn_us - shortest_turn_us)});
  }
  in_shutdown = true;
  const bool first_to_finish = orders_.finish[role_].get() == 1;
  const status how = own.shutdown(first_to_finish ? std::chrono::nanoseconds{20s} : pick(3) * 20ms);
  if (first_to_finish && !how)
    book_.violation("it shuts down, with all settled: " + how.text());
  book_.ended(instance);
  book_.tell_progress();
}

void node_member::handled(std::uint32_t instance, const message& what) {
  book_.delivered(instance, what);
  if (pick(128) == 0) {
    // To be killed or stopped in a handler more often than its few instructions would let us.
    const timespec pause{.tv_sec = 0, .tv_nsec = 200'000};
    nanosleep(&pause, nullptr);
  }
}

void node_member::send_some(node& from, std::uint32_t instance) {
  if (orders_.quiet.get() != 0)
    return;
  const member_plan& plan = plans_[role_];
  for (std::uint32_t left = pick(8) == 0 ? pick(60) : pick(4); left != 0; --left) {
    const bool required = plan.requires_some && pick(2) == 0;
    const std::uint32_t to = plan.partners[pick(static_cast<std::uint32_t>(plan.partners.size()))];
    if (!book_.may_send() ||
        !send_one(from, instance, to,
                  required ? delivery_policy::require : delivery_policy::report))
      return;
  }
}

void node_member::call_the_roll(node& from, std::uint32_t instance) {
  if (orders_.roll_call.get() == 0)
    return;
  for (; called_ != plans_.size(); ++called_) {
    if (called_ != role_ && !send_one(from, instance, called_, delivery_policy::require))
      return;  // the next turn goes on
    if (called_ + 1 == plans_.size())
      orders_.called.add();
  }
}

status node_member::send_one(node& from, std::uint32_t instance, std::uint32_t to,
                             delivery_policy policy) {
  const std::uint32_t size =
      static_cast<std::uint32_t>(smallest_message) + pick(pick(16) == 0 ? largest_message : 200);
  const std::uint32_t number = book_.attempt(instance, to);
  status how;
  if (policy == delivery_policy::report && pick(4) == 0) {
    node_slot slot = from.claim(plans_[to].id, plain_message, largest_message + smallest_message);
    if (slot) {
      write_message(slot.bytes().first(size), instance, number);
      slot.commit(size);
    }
    how = slot.why();
  } else {
    std::vector<std::byte> bytes(size);
    write_message(bytes, instance, number);
    how = from.send(plans_[to].id,
                    policy == delivery_policy::require ? required_message : plain_message, bytes,
                    policy);
  }
  book_.sent(number, static_cast<bool>(how));
  if (!(how || how == errc::would_block || how == errc::no_route || how == errc::not_connected))
    book_.violation("send: " + how.text());
  return how;
}

}  // namespace atbus::test
