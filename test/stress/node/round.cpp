#include "round.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>

namespace atbus::test {
namespace {

using namespace std::chrono_literals;

// Ids of this process: rounds of other processes share /dev/shm with ours.
bus_id make_id(std::uint32_t role) {
  return bus_id{static_cast<std::uint64_t>(getpid()) * 2 + role};
}

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

one_round::one_round(way through, std::uint64_t seed)
    : random_(seed),
      ids_{make_id(0), make_id(1)},
      entrances_{{{through, ids_[0], directory_.path()}, {through, ids_[1], directory_.path()}}},
      book_(choose(through)) {
  start(0);
  start(1);
}

one_round::~one_round() {
  for (child_process& one : members_)
    one.kill_and_wait();
  // Named inboxes outlive their nodes, private ones those that were killed last.
  for (const auto& file : std::filesystem::directory_iterator{"/dev/shm"}) {
    const std::string name = file.path().filename();
    for (const bus_id id : ids_) {
      if (name.ends_with(".round-" + id.to_hex()) ||
          name.find(".atbus-" + id.to_hex() + "-") != std::string::npos)
        (void)unlink(file.path().c_str());
    }
  }
}

// What this round's nodes are like.
ledger_rules one_round::choose(way through) {
  ledger_rules rules;
  rules.wishes = {true, pick(2) == 0};
  node_options options;
  options.retry(2ms, 20ms);
  if (is_tcp(through))
    options.token("a secret of the rounds");
  if (pick(2) == 0)
    options.ping_interval(20ms).fault_tolerance(2);
  if (pick(2) == 0)
    options.send_buffer_size(256 * 1024);
  if (pick(4) == 0) {
    options.restart(restart_policy::report);
    rules.reports_restarts = true;
  }
  if (pick(4) == 0) {
    options.message_deadline(5ms);
    rules.deadline = true;
  }
  if (const auto policy = static_cast<overflow_policy>(pick(8));
      policy <= overflow_policy::disconnect) {
    options.overflow(policy);
    rules.drops = policy != overflow_policy::would_block;
  }
  for (std::uint32_t role = 0; role != 2; ++role) {
    plans_[role] = {
        .id = ids_[role],
        .listens = rules.wishes[1 - role] ? entrances_[role].listens : std::vector<std::string>{},
        .dials = rules.wishes[role] ? entrances_[1 - role].dials : std::string{},
        .options = options};
  }
  return rules;
}

void one_round::start(std::uint32_t role) {
  stopped_[role] = false;
  members_[role] = child_process{[this, role, seed = random_()] {
    close_what_was_inherited();
    orders_->begun.add();
    return member{plans_, role, book_, *orders_, seed}.run();
  }};
  // Until then what the proxies close is not closed.
  if (!orders_->begun.wait(++processes_))
    book_.violation("a member does not begin");
}

void one_round::rest(std::uint32_t longest_us) {
  const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(pick(longest_us)) * 1000};
  nanosleep(&pause, nullptr);
}

void one_round::kill_one(std::uint32_t role) {
  kill(members_[role].pid(), SIGKILL);
  if (const std::string how = members_[role].wait_end(); how != "signal 9")
    book_.violation("a member ended by itself: " + how);
  book_.killed(role);
  ++happened_.kills;
  if (pick(2) == 0)
    rest(20'000);
  start(role);
}

void one_round::toggle(std::uint32_t role) {
  kill(members_[role].pid(), stopped_[role] ? SIGCONT : SIGSTOP);
  stopped_[role] = !stopped_[role];
  happened_.stops += stopped_[role] ? 1 : 0;
}

void one_round::strike_network(fault_proxy& at) {
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

void one_round::strike() {
  const std::uint32_t role = pick(2);
  fault_proxy* const network = entrances_[role].proxy.get();
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

std::string one_round::run() {
  for (std::uint32_t left = 6 + pick(10); left != 0; --left) {
    rest(25'000);
    strike();
  }
  for (std::uint32_t role = 0; role != 2; ++role) {
    if (stopped_[role])
      toggle(role);
    if (fault_proxy* const network = entrances_[role].proxy.get(); network != nullptr) {
      network->set({});
      network->accept();
    }
  }
  orders_->quiet.set(1);
  if (!book_.wait_settled()) {
    const std::string what = book_.account();
    return what.empty() ? "all was settled too late" : what;
  }
  const std::uint32_t first = pick(2);
  for (const std::uint32_t role : {first, 1 - first}) {
    orders_->finish[role].set(1);
    if (const std::string how = members_[role].wait_end(); how != "exit 0")
      return "a member has not ended as it should: " + how;
  }
  return book_.account();
}

}  // namespace atbus::test
