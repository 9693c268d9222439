#include "drill.h"

#include "numbered_message.h"

namespace atbus::test {
namespace {

// A message of this "sender" tells the receiver to remove the segment and leave.
constexpr std::uint32_t farewell_role = most_roles - 1;
// Long enough that a lost wake-up fails the test.
constexpr std::chrono::hours for_ever{1};

}  // namespace

drill::drill(unsigned lanes, kind of) : lanes_(lanes), kind_(of) {}

std::string drill::address() const {
  if (kind_ == kind::stream)
    return "unix://" + directory_.path() + "/drill";
  return "shm://drill?lanes=" + std::to_string(lanes_) + "&lane_size=4096&message_limit=1000";
}

void drill::arrange(std::uint32_t role, step at, std::uint32_t nth, action what) {
  crash_plan& p = plan(role);
  p.at = at;
  p.nth = nth;
  p.what = what;
}

// --- in the processes

result<receiver> drill::open_receiver() const {
  receiver_options options;
  if (kind_ == kind::stream) {
    options.lanes = lanes_;
    options.lane_size = 4096;
    options.message_limit = 1000;
  } else {
    options.directory = directory_.path();
  }
  return receiver::open(address(), options);
}

result<sender> drill::open_sender(sender_options options) const {
  if (kind_ == kind::stream)
    return sender::open(address(), options);
  options.directory = directory_.path();
  return sender::open("shm://drill", options);
}

void drill::record(const received_message& message, std::uint32_t role, bool& farewell) const {
  message_stamp stamp;
  if (!read_message(message.bytes, stamp) || stamp.sender >= most_roles) {
    memory_->torn.add();
    return;
  }
  if (stamp.sender == farewell_role) {
    farewell = true;
    return;
  }
  const std::uint32_t index = memory_->deliveries.get();
  require(index < most_deliveries, "the ledger is full");
  memory_->ledger[index] = {stamp.sender, role, stamp.number, message.redelivered};
  memory_->deliveries.add();
}

void drill::run_receiver(receiver& inbox, std::uint32_t role) const {
  bool farewell = false;
  while (!farewell) {
    if (inbox.poll([&](const received_message& m) { record(m, role, farewell); }) == 0)
      require(static_cast<bool>(inbox.wait(for_ever)), "wait");
  }
  require(static_cast<bool>(inbox.remove()), "remove");
}

child_process drill::start(std::uint32_t role, std::function<void()> body) {
  return child_process{[this, role, body = std::move(body)] {
    follow(plan(role));
    body();
    return 0;
  }};
}

child_process drill::start_receiver(std::uint32_t role, bool held) {
  return start(role, [this, role, held] {
    auto inbox = required(open_receiver());
    memory_->receiver_role.set(role);
    memory_->opened[role].add();
    if (held)
      require(memory_->may_go_on[role].wait(), "not allowed to poll");
    run_receiver(*inbox, role);
  });
}

child_process drill::start_sender(std::uint32_t role, std::function<void(sender&)> body) {
  return start(role, [this, role, body = std::move(body)] {
    auto out = required(open_sender());
    memory_->opened[role].add();
    body(*out);
  });
}

status drill::send_next(sender& out, std::uint32_t role) const {
  std::array<std::byte, message_size> bytes;
  write_message(bytes, role, memory_->accepted[role].get() + 1);
  const status s = out.send(bytes);
  if (s)
    memory_->accepted[role].add();
  else if (s == errc::would_block)
    memory_->refused[role].add();
  return s;
}

void drill::talk(sender& out, std::uint32_t role, std::uint32_t count, std::uint32_t each) const {
  for (std::uint32_t i = 1; i <= count; ++i) {
    if (i % each == 0) {
      const auto end = std::chrono::steady_clock::now() + patience;
      // Another receiver may take over meanwhile: look who sleeps.
      while (!memory_->plans[memory_->receiver_role.get()].asleep.wait(
          1, std::chrono::milliseconds{20})) {
        require(std::chrono::steady_clock::now() < end, "the receiver never slept");
      }
    }
    for (;;) {
      const status s = send_next(out, role);
      if (s)
        break;
      require(s == errc::would_block, s.text());
      const status w = out.wait_writable(patience);
      require(static_cast<bool>(w), w.text());
    }
  }
}

// --- in the test

bool drill::wait_opened(std::uint32_t role) const {
  return memory_->opened[role].wait();
}

void drill::let_go_on(std::uint32_t role, std::uint32_t by) const {
  memory_->may_go_on[role].add(by);
}

std::uint32_t drill::arrived(std::uint32_t sender_role) const {
  std::uint64_t highest = 0;
  const std::uint32_t count = memory_->deliveries.get();
  for (std::uint32_t i = 0; i < count; ++i) {
    const delivery& d = memory_->ledger[i];
    if (d.sender == sender_role)
      highest = std::max(highest, d.number);
  }
  return static_cast<std::uint32_t>(highest);
}

bool drill::wait_arrived(std::uint32_t sender_role, std::uint32_t count) const {
  return memory_->deliveries.wait_until(
      [&](std::uint32_t) { return arrived(sender_role) >= count; });
}

bool drill::wait_all_arrived(std::uint32_t sender_role) const {
  return wait_arrived(sender_role, memory_->accepted[sender_role].get());
}

std::uint32_t drill::marked() const {
  std::uint32_t marks = 0;
  for (std::uint32_t i = 0; i < memory_->deliveries.get(); ++i)
    marks += memory_->ledger[i].redelivered ? 1U : 0U;
  return marks;
}

std::string drill::dismiss(child_process& receiver_process) {
  child_process messenger = start_sender(farewell_role, [](sender& out) {
    std::array<std::byte, smallest_message> bytes;
    write_message(bytes, farewell_role, 1);
    require(static_cast<bool>(out.send(bytes)), "farewell");
  });
  if (const std::string end = messenger.wait_end(); end != "exit 0")
    return "the messenger: " + end;
  return receiver_process.wait_end();
}

std::string drill::account_sender(std::uint32_t role) const {
  const std::string who = "sender " + std::to_string(role) + ": ";
  std::uint64_t last = 0;
  std::uint32_t last_receiver = most_roles;
  for (std::uint32_t i = 0; i < memory_->deliveries.get(); ++i) {
    const delivery& d = memory_->ledger[i];
    if (d.sender != role)
      continue;
    const std::string what = who + "message " + std::to_string(d.number);
    if (d.number != last + 1 && d.number != last)
      return what + " came after " + std::to_string(last);
    if (d.number == last && !d.redelivered)
      return what + " came again without a mark";
    // Only the record that a dead receiver had in hand is marked, so the mark is on its
    // successor's first.
    if (d.redelivered && d.receiver == last_receiver)
      return what + " is marked, though its receiver handled one before";
    last = d.number;
    last_receiver = d.receiver;
  }
  const std::uint64_t accepted = memory_->accepted[role].get();
  const std::uint64_t first_back = memory_->first_taken_back[role].load();
  const std::uint64_t back = memory_->taken_back[role].get();
  const std::uint64_t unknown = memory_->unknown[role].get();
  // A killed sender may have published one that it did not live to note.
  if (back == 0 && (last < accepted || last > accepted + 1))
    return who + std::to_string(accepted) + " accepted, " + std::to_string(last) + " arrived";
  if (back != 0 && (first_back != last + 1 - unknown || back != accepted - first_back + 1)) {
    return who + std::to_string(accepted) + " accepted, " + std::to_string(last) + " arrived, " +
           std::to_string(back) + " taken back from " + std::to_string(first_back);
  }
  return {};
}

std::string drill::account(std::uint32_t receiver_deaths) const {
  if (memory_->torn.get() != 0)
    return "torn messages";
  if (marked() > receiver_deaths)
    return std::to_string(marked()) + " marks for " + std::to_string(receiver_deaths) + " deaths";
  for (std::uint32_t role = 0; role < farewell_role; ++role) {
    if (std::string what = account_sender(role); !what.empty())
      return what;
  }
  return {};
}

}  // namespace atbus::test
