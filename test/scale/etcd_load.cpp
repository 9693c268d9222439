// What directories in etcd cost an etcd, by their number. Each is a relay's: it announces one record, keeps its lease,
// and follows all others. All are in this process, on one thread; the etcd is a real one, of its own.
//
// usage: etcd_load URL PID DIRECTORIES
//   URL, PID   of an etcd that runs and is empty
//
// Prints a line of JSON: what start, 20 s of rest, and a newcomer have cost.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/etcd.hpp"

namespace {

using namespace atbus;
using namespace std::chrono_literals;

struct usage {
  double cpu_s = 0;
  std::uint64_t memory = 0;
};

// proc(5)
usage usage_of(const std::string& pid) {
  std::ifstream file{"/proc/" + pid + "/stat"};
  std::string text;
  std::getline(file, text);
  std::istringstream fields{text.substr(text.rfind(')') + 2)};
  std::vector<std::string> all;
  for (std::string one; fields >> one;)
    all.push_back(one);
  if (all.size() < 22) {
    std::fprintf(stderr, "there is no process %s\n", pid.c_str());
    std::exit(1);
  }
  const double ticks = std::stod(all[11]) + std::stod(all[12]);
  return {.cpu_s = ticks / static_cast<double>(sysconf(_SC_CLK_TCK)),
          .memory = std::stoull(all[21]) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))};
}

class crowd {
 public:
  crowd(std::string url, std::size_t count)
      : url_(std::move(url)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    for (std::size_t at = 0; at < count; ++at)
      add(std::chrono::seconds{1});
  }
  crowd(const crowd&) = delete;
  crowd& operator=(const crowd&) = delete;
  ~crowd() { close(epoll_); }

  void add(std::chrono::milliseconds jitter) {
    auto made = etcd_directory::open({.endpoints = {url_}, .start_jitter = jitter});
    if (!made) {
      made.error().print();
      std::exit(1);
    }
    const std::uint64_t id = all_.size() + 1;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = all_.size();
    epoll_ctl(epoll_, EPOLL_CTL_ADD, (*made)->descriptor(), &event);
    all_.push_back(*made);
    (void)all_.back()->announce({.id = bus_id{id},
                                 .addresses = {"ipv4://10.0.0.1:" + std::to_string(id)},
                                 .place = tree_place::relay});
    poll(*all_.back());
  }
  void run_for(std::chrono::nanoseconds time) {
    for (const auto end = now() + time; now() < end;)
      turn();
  }
  // How long it takes, in ms.
  double run_until_all_know_all() {
    const auto start = now();
    while (!all_know_all()) {
      if (now() - start > 120s) {
        std::fprintf(stderr, "not all know all others\n");
        std::exit(1);
      }
      turn();
    }
    return std::chrono::duration<double, std::milli>(now() - start).count();
  }
  [[nodiscard]] std::uint64_t requests() const {
    std::uint64_t sum = 0;
    for (const auto& one : all_)
      sum += one->stats().requests;
    return sum;
  }

 private:
  static void poll(etcd_directory& one) {
    if (const error bad = one.poll(); !bad)
      bad.print();
  }
  void turn() {
    epoll_event ready[64];
    const int count = epoll_wait(epoll_, ready, 64, 10);
    for (int at = 0; at < count; ++at) {
      const std::uint64_t which = ready[at].data.u64;
      poll(*all_[which]);
    }
  }
  [[nodiscard]] bool all_know_all() const {
    for (const auto& one : all_) {
      if (one->stats().records != all_.size())
        return false;
    }
    return true;
  }

  std::string url_;
  int epoll_;
  std::vector<std::shared_ptr<etcd_directory>> all_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: etcd_load URL PID DIRECTORIES\n");
    return 2;
  }
  rlimit files{};  // a handful for each directory
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const std::string pid = argv[2];
  const std::size_t count = std::stoul(argv[3]);
  const usage before = usage_of(pid);
  crowd all{argv[1], count};
  const double start_ms = all.run_until_all_know_all();
  const usage started = usage_of(pid);
  const std::uint64_t to_start = all.requests();
  all.run_for(20s);
  const usage rested = usage_of(pid);
  const std::uint64_t in_rest = all.requests() - to_start;
  all.add(0ms);
  const double newcomer_ms = all.run_until_all_know_all();
  const usage after = usage_of(pid);
  std::printf(
      "{\"directories\": %zu, \"start_ms\": %.0f, \"start_requests\": %llu, \"start_cpu_s\": %.2f, "
      "\"requests_per_s\": %.1f, \"core\": %.4f, \"memory\": %llu, \"newcomer_ms\": %.1f, "
      "\"newcomer_cpu_ms\": %.0f}\n",
      count, start_ms, static_cast<unsigned long long>(to_start), started.cpu_s - before.cpu_s,
      static_cast<double>(in_rest) / 20, (rested.cpu_s - started.cpu_s) / 20,
      static_cast<unsigned long long>(rested.memory), newcomer_ms,
      1000 * (after.cpu_s - rested.cpu_s));
}
