#include "node_crew.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <utility>

namespace atbus::test {
namespace {

bool is_tcp(way through) {
  return through != way::shm && through != way::lanes && through != way::unix_socket;
}

// Those of the proxies too: a connection would not end while a child holds it.
void close_what_was_inherited() {
  (void)syscall(SYS_close_range, 3U, ~0U, 0U);
}

}  // namespace

disturbances& disturbances::operator+=(const disturbances& other) {
  kills += other.kills;
  stops += other.stops;
  leaves += other.leaves;
  cuts += other.cuts;
  stalls += other.stalls;
  return *this;
}

std::string disturbances::text() const {
  return std::to_string(kills) + " kills, " + std::to_string(stops) + " stops, " +
         std::to_string(leaves) + " leaves, " + std::to_string(cuts) + " cuts, " +
         std::to_string(stalls) + " stalls";
}

entrance::entrance(way through, bus_id whose, const std::string& directory) {
  if (through == way::shm || through == way::tcp_then_shm)
    listens.push_back("shm://round-" + whose.to_hex());
  if (through == way::shm) {
    dials = listens.front();
    return;
  }
  std::string at = "unix://" + directory + "/" + whose.to_hex();
  if (is_tcp(through)) {
    port.emplace(through == way::ipv6 ? "ipv6://::1:0" : "ipv4://127.0.0.1:0");
    at = port->address();
  }
  listens.push_back(at);
  if (through == way::lanes) {
    dials = at;
    return;
  }
  proxy = std::make_unique<fault_proxy>(at);
  dials = proxy->address();
}

node_crew::node_crew(crew_plan plan, std::mt19937_64& random)
    : plan_(std::move(plan)),
      random_(random),
      book_(plan_.rules),
      members_(plan_.members.size()),
      stopped_(plan_.members.size()) {
  for (std::uint32_t role = 0; role != size(); ++role)
    start(role);
}

node_crew::~node_crew() {
  for (child_process& one : members_)
    one.kill_and_wait();
  // Named inboxes outlive their nodes; private ones and reports those that were killed last.
  for (const auto& file : std::filesystem::directory_iterator{"/dev/shm"}) {
    const std::string name = file.path().filename();
    for (const member_plan& one : plan_.members) {
      if (name.ends_with(".round-" + one.id.to_hex()) ||
          name.find(".atbus-" + one.id.to_hex() + "-") != std::string::npos ||
          name.starts_with("atbus-node." + one.id.to_hex() + "-"))
        (void)unlink(file.path().c_str());
    }
  }
}

void node_crew::start(std::uint32_t role) {
  stopped_[role] = false;
  members_[role] = child_process{[this, role, seed = random_()] {
    close_what_was_inherited();
    orders_->begun.add();
    return node_member{plan_.members, role, book_, *orders_, seed}.run();
  }};
  // Until then what the proxies close is not closed.
  if (!orders_->begun.wait(++processes_))
    book_.violation("a member does not begin");
}

void node_crew::rest(std::uint32_t longest_us) {
  const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(pick(longest_us)) * 1000};
  nanosleep(&pause, nullptr);
}

void node_crew::kill_one(std::uint32_t role) {
  kill(members_[role].pid(), SIGKILL);
  if (const std::string how = members_[role].wait_end(); how != "signal 9")
    book_.violation("a member ended by itself: " + how);
  book_.killed(role);
  ++happened_.kills;
  if (pick(2) == 0)
    rest(20'000);
  start(role);
}

void node_crew::toggle(std::uint32_t role) {
  kill(members_[role].pid(), stopped_[role] ? SIGCONT : SIGSTOP);
  stopped_[role] = !stopped_[role];
  happened_.stops += stopped_[role] ? 1 : 0;
}

void node_crew::strike_network(fault_proxy& at) {
  const direction way_there = pick(2) == 0 ? direction::to_server : direction::to_client;
  switch (pick(6)) {
    case 0:
      ++happened_.cuts;
      return at.cut();
    case 1:
      ++happened_.cuts;
      return at.reset();
    case 2:  // until the next one
      ++happened_.stalls;
      return at.set(way_there, {.stall_at = 0});
    case 3:  // within a message
      ++happened_.cuts;
      return at.set(way_there, {.cut_at = 1000 + pick(100'000)});
    case 4:
      return at.refuse();
    default:
      at.set({});
      return at.accept();
  }
}

void node_crew::strike() {
  const std::uint32_t role = pick(pick(4) == 0 ? 2 : size());  // the root of a tree more often
  fault_proxy* const network = plan_.entrances[role].proxy.get();
  const std::uint32_t what = pick(network != nullptr ? 10 : 5);
  if (what < 2)
    return kill_one(role);
  if (what < 4)
    return toggle(role);
  if (what > 4)
    return strike_network(*network);
  ++happened_.leaves;
  orders_->leave[role].add();
}

void node_crew::disturb() {
  for (std::uint32_t left = (6 + pick(10)) * (1 + size() / 8); left != 0; --left) {
    rest(25'000);
    strike();
  }
}

std::string node_crew::settle() {
  for (std::uint32_t role = 0; role != size(); ++role) {
    if (stopped_[role])
      toggle(role);
    if (fault_proxy* const network = plan_.entrances[role].proxy.get(); network != nullptr) {
      network->set({});
      network->accept();
    }
  }
  orders_->quiet.set(1);
  bool in_time = book_.wait_settled();
  if (in_time) {
    orders_->roll_call.set(1);
    in_time = orders_->called.wait(size(), 2 * patience) && book_.wait_settled();
  }
  if (!in_time) {
    const std::string what = book_.account();
    return what.empty() ? "all was settled too late" : what;
  }
  const std::string how = finish();
  return how.empty() ? book_.account() : how;
}

std::string node_crew::finish() {
  std::vector<std::uint32_t> order(size());
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), random_);
  std::uint32_t last = 1;
  for (const std::uint32_t role : order) {
    orders_->finish[role].set(std::exchange(last, 2));
    if (const std::string how = members_[role].wait_end(); how != "exit 0")
      return "a member has not ended as it should: " + how;
  }
  return {};
}

}  // namespace atbus::test
