#include "member.h"

#include <ctime>

#include "child_process.h"
#include "numbered_message.h"

namespace atbus::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t largest_message = 20'000;

}  // namespace

int member::run() {
  while (!finishing())
    live();
  return 0;
}

void member::live() {
  const member_plan& plan = plans_[role_];
  const std::uint32_t life = book_.born(role_);
  const std::uint32_t orders = orders_.leave[role_].get();
  bool in_shutdown = false;
  node own{plan.id, plan.options};
  own.on_message([&](const message& m) { handled(life, m); });
  own.on_undelivered([&](const undelivered& u) {
    book_.reported(life, u, in_shutdown);
    book_.tell_progress();
  });
  for (const std::string& address : plan.listens) {
    if (const error bad = own.listen(address); !bad)
      book_.violation("listen: " + bad.text());
  }
  if (!plan.dials.empty()) {
    if (const error bad = own.connect(plans_[1 - role_].id, plan.dials); !bad)
      book_.violation("connect: " + bad.text());
  }
  while (!finishing() && orders_.leave[role_].get() == orders) {
    send_some(own, life);
    if (own.poll({.messages = 1 + pick(200)}) != 0)
      book_.tell_progress();
    (void)own.wait(std::chrono::microseconds{100 + pick(1000)});
  }
  in_shutdown = true;
  const bool first_to_finish = finishing() && !orders_.finish[1 - role_].get();
  const status how = own.shutdown(first_to_finish ? std::chrono::nanoseconds{20s} : pick(3) * 20ms);
  if (first_to_finish && !how)
    book_.violation("it shuts down, with all settled: " + how.text());
  book_.ended(life);
  book_.tell_progress();
}

void member::handled(std::uint32_t life, const message& what) {
  book_.delivered(life, what);
  if (what.source() != plans_[1 - role_].id || what.destination() != plans_[role_].id)
    book_.violation("a message from " + what.source().to_string() + " to " +
                    what.destination().to_string());
  if (pick(128) == 0) {
    // To be killed or stopped in a handler more often than its few instructions would let us.
    const timespec pause{.tv_sec = 0, .tv_nsec = 200'000};
    nanosleep(&pause, nullptr);
  }
}

void member::send_some(node& from, std::uint32_t life) {
  if (orders_.quiet.get() != 0)
    return;
  for (std::uint32_t left = pick(8) == 0 ? pick(60) : pick(4); left != 0; --left) {
    if (!book_.may_send(life) || !send_one(from, life))
      return;
  }
}

status member::send_one(node& from, std::uint32_t life) {
  const bus_id to = plans_[1 - role_].id;
  const std::uint32_t size =
      static_cast<std::uint32_t>(smallest_message) + pick(pick(16) == 0 ? largest_message : 200);
  status how;
  if (pick(4) == 0) {
    node_slot slot = from.claim(to, 0, largest_message + smallest_message);
    if (slot) {
      write_message(slot.bytes().first(size), life, book_.attempt(life));
      slot.commit(size);
    }
    how = slot.why();
  } else {
    std::vector<std::byte> bytes(size);
    write_message(bytes, life, book_.attempt(life));
    how = from.send(to, 0, bytes);
  }
  if (how)
    book_.accepted(life);
  else if (!(how == errc::would_block || how == errc::no_route || how == errc::not_connected))
    book_.violation("send: " + how.text());
  return how;
}

}  // namespace atbus::test
