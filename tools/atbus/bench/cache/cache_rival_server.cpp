// Starts memcached or redis as the child of a worker, which stands for it in the run: the child
// inherits the worker's core, and is measured and ended when all clients are over.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "atbus/bench/cache/cache_rival.h"
#include "atbus/bench/cache/cache_socket.h"
#include "atbus/bench/cache/cache_tally.h"
#include "atbus/bench/receiving.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

std::string free_port() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool is_bound = descriptor >= 0 && bind(descriptor, generic, length) == 0 &&
                        getsockname(descriptor, generic, &length) == 0;
  if (descriptor >= 0) {
    close(descriptor);
  }
  if (!is_bound) {
    throw std::runtime_error(std::string{"no TCP port is free: "} + std::strerror(errno));
  }
  return std::to_string(ntohs(address.sin_port));
}

// As somebody sets them who wants a cache: all memory for items, the oldest make way, nothing is
// written to disk. One thread, as the server has one core.
std::vector<std::string> arguments_for(const cache_workload& work, const std::string& address) {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  if (work.system == cache_system::memcached) {
    // An item may have 8 MiB, but at most half of all memory.
    const std::uint64_t item = std::min<std::uint64_t>(8 * mib, work.memory_bytes / 2);
    std::vector<std::string> all{
        "memcached", "-m", std::to_string(work.memory_bytes / mib), "-I", std::to_string(item),
        "-t",        "1"};
    if (work.over_tcp) {
      all.insert(all.end(), {"-l", "127.0.0.1", "-p", address, "-U", "0"});
    } else {
      all.insert(all.end(), {"-s", address});
    }
    if (getuid() == 0) {
      all.insert(all.end(), {"-u", "root"});
    }
    return all;
  }
  std::vector<std::string> all{"redis-server",
                               "--maxmemory",
                               std::to_string(work.memory_bytes),
                               "--maxmemory-policy",
                               "allkeys-lru",
                               "--save",
                               "",
                               "--appendonly",
                               "no",
                               "--daemonize",
                               "no",
                               "--loglevel",
                               "warning"};
  if (work.over_tcp) {
    all.insert(all.end(), {"--bind", "127.0.0.1", "--port", address});
  } else {
    all.insert(all.end(), {"--port", "0", "--unixsocket", address});
  }
  return all;
}

class rival_process {
 public:
  rival_process(const cache_workload& work, const std::string& address,
                const std::string& directory)
      : log_path_{directory + "/log"} {
    std::vector<std::string> arguments = arguments_for(work, address);
    std::vector<char*> argv;
    for (std::string& one : arguments) {
      argv.push_back(one.data());
    }
    argv.push_back(nullptr);
    const int log = open(log_path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent || chdir(directory.c_str()) != 0) {
        _exit(127);
      }
      dup2(log, STDOUT_FILENO);
      dup2(log, STDERR_FILENO);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(log);
    if (pid_ < 0) {
      throw std::runtime_error(std::string{"can't start it: "} + std::strerror(errno));
    }
  }
  ~rival_process() { end(); }
  rival_process(const rival_process&) = delete;
  rival_process& operator=(const rival_process&) = delete;

  // Throws if it has ended.
  void require_alive() {
    if (waitpid(pid_, nullptr, WNOHANG) != pid_) {
      return;
    }
    pid_ = -1;
    std::ifstream log{log_path_};
    std::string text{std::istreambuf_iterator<char>{log}, {}};
    constexpr std::size_t most = 150;
    if (text.size() > most) {
      text.erase(0, text.size() - most);
    }
    throw std::runtime_error("it has ended: " + text);
  }

  [[nodiscard]] std::uint64_t peak_kib() const {
    std::ifstream status{"/proc/" + std::to_string(pid_) + "/status"};
    std::uint64_t kib = 0;
    for (std::string line; std::getline(status, line);) {
      if (std::sscanf(line.c_str(), "VmHWM: %" SCNu64, &kib) == 1) {
        break;
      }
    }
    return kib;
  }

  // Fields 14 and 15 of proc_pid_stat(5), behind the name in parentheses.
  [[nodiscard]] std::int64_t cpu_ns() const {
    std::ifstream stat{"/proc/" + std::to_string(pid_) + "/stat"};
    std::string line;
    std::getline(stat, line);
    std::int64_t user_ticks = 0;
    std::int64_t system_ticks = 0;
    std::sscanf(line.c_str() + std::min(line.rfind(')') + 1, line.size()),
                " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNd64 " %" SCNd64, &user_ticks,
                &system_ticks);
    return (user_ticks + system_ticks) * (ns_per_s / sysconf(_SC_CLK_TCK));
  }

  void end() noexcept {
    if (pid_ <= 0) {
      return;
    }
    kill(pid_, SIGTERM);
    for (int step = 0; step != 200; ++step) {
      if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
        pid_ = -1;
        return;
      }
      sleep_ns(10'000'000);
    }
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  std::string log_path_;
  pid_t pid_ = -1;
};

}  // namespace

bool is_rival_installed(cache_system system) {
  const char* const path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string file = rest.substr(0, end) + '/' + rival_program(system);
    if (access(file.c_str(), X_OK) == 0) {
      return true;
    }
    rest.erase(0, end + 1);
  }
  return false;
}

void serve_as_cache_rival(worker& self) {
  const cache_workload& work = self.work().cache;
  const std::string directory = self.work().address.data();
  const std::string address = work.over_tcp ? free_port() : directory + "/socket";
  rival_process rival{work, address, directory};
  int probe = -1;
  while (probe < 0) {
    rival.require_alive();
    if (self.stopped()) {
      return;
    }
    sleep_ns(1'000'000);
    probe = connect_to_cache(address);
  }
  close(probe);
  self.listening(address);
  while (!senders_have_reached(self, worker_state::ready)) {
    rival.require_alive();
    if (self.stopped()) {
      return;
    }
    sleep_ns(1'000'000);
  }
  if (!self.wait_for_start()) {
    return;
  }
  const std::int64_t cpu_before_ns = rival.cpu_ns();
  while (!senders_have_reached(self, worker_state::finished)) {
    rival.require_alive();
    sleep_ns(5'000'000);
  }
  cache_server_tally& tally = cache_tally_of_server(self.block());
  tally.peak_kib = rival.peak_kib();
  tally.cpu_ns = rival.cpu_ns() - cpu_before_ns;
  rival.end();
  self.finish({});
}

}  // namespace atbus::bench
