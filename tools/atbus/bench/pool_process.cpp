#include "atbus/bench/pool_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

extern char** environ;  // NOLINT: POSIX names it

namespace atbus::bench {
namespace {

// By the names the dynamic linker knows them under, the usual first.
struct known_library {
  const char* allocator;
  std::vector<const char*> names;
};

std::vector<known_library> known_libraries() {
  return {{"jemalloc", {"libjemalloc.so.2", "libjemalloc.so.1"}},
          {"mimalloc",
           {"libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so.2.0", "libmimalloc.so"}},
          {"tcmalloc", {"libtcmalloc_minimal.so.4", "libtcmalloc.so.4"}}};
}

// This process's environment with another LD_PRELOAD.
std::vector<std::string> environment_with(const std::string& library) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view{*entry}.starts_with("LD_PRELOAD=")) {
      all.emplace_back(*entry);
    }
  }
  if (!library.empty()) {
    all.push_back("LD_PRELOAD=" + library);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Starts the process with its standard output in a pipe. -1 and errno if that fails. Its standard
// error goes nowhere: the linker's complaint about a library that is not there is an answer.
pid_t start(const pool_allocator& allocator, const pool_task& task, int& read_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return -1;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> arguments{"atbus", "bench", "pool", pool_worker_option,
                                     to_argument(task)};
  std::vector<std::string> environment = environment_with(allocator.library);
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr,
                                 pointers_to(arguments).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed != 0) {
    close(ends[0]);
    errno = failed;
    return -1;
  }
  read_end = ends[0];
  return pid;
}

bool read_whole(int fd, void* to, std::size_t bytes) noexcept {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = read(fd, at, bytes);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return false;
    }
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

int wait_for(pid_t pid) noexcept {
  int state = 0;
  while (waitpid(pid, &state, 0) < 0 && errno == EINTR) {
  }
  return state;
}

}  // namespace

pool_task pool_allocator::task_for(pool_test test, bool prefault) const noexcept {
  return {.test = test, .with_malloc = !is_pool, .prefault = prefault, .huge_pages = huge_pages};
}

std::vector<pool_allocator> find_pool_allocators(std::vector<std::string>& missing) {
  std::vector<pool_allocator> found{
      {.name = "pool", .is_pool = true},
      {.name = "pool, huge pages", .is_pool = true, .huge_pages = true},
      {.name = "malloc"}};
  for (const known_library& known : known_libraries()) {
    pool_allocator candidate{.name = known.allocator};
    bool loads = false;
    for (const char* const name : known.names) {
      candidate.library = name;
      pool_task probe = candidate.task_for(pool_test::small, false);
      probe.scale = 0;
      std::string problem;
      const auto answer = run_pool_process(candidate, probe, problem);
      if (answer && std::strstr(answer->library.data(), known.allocator) != nullptr) {
        loads = true;
        break;
      }
    }
    if (loads) {
      found.push_back(candidate);
    } else {
      missing.emplace_back(known.allocator);
    }
  }
  return found;
}

std::optional<pool_figures> run_pool_process(const pool_allocator& allocator, const pool_task& task,
                                             std::string& problem) {
  int read_end = -1;
  const pid_t pid = start(allocator, task, read_end);
  if (pid < 0) {
    problem = allocator.name + ": can't start: " + std::strerror(errno);
    return std::nullopt;
  }
  pool_figures figures{};
  const bool whole = read_whole(read_end, &figures, sizeof figures);
  close(read_end);
  const int state = wait_for(pid);
  if (!whole || !WIFEXITED(state) || WEXITSTATUS(state) != 0) {
    problem = allocator.name + (WIFSIGNALED(state) ? ": killed by signal " : ": exit code ") +
              std::to_string(WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state));
    return std::nullopt;
  }
  return figures;
}

std::string to_argument(const pool_task& task) {
  char text[96];
  std::snprintf(text, sizeof text, "%d,%d,%d,%d,%d,%u,%.9g", static_cast<int>(task.test),
                task.with_malloc ? 1 : 0, task.prefault ? 1 : 0, task.huge_pages ? 1 : 0,
                static_cast<int>(task.touch), task.burst, task.scale);
  return text;
}

std::optional<pool_task> from_argument(const std::string& argument) {
  int test = 0;
  int with_malloc = 0;
  int prefault = 0;
  int huge_pages = 0;
  int touch = 0;
  std::uint32_t burst = 0;
  double scale = 0;
  int end = 0;
  const int fields = std::sscanf(argument.c_str(), "%d,%d,%d,%d,%d,%u,%lf%n", &test, &with_malloc,
                                 &prefault, &huge_pages, &touch, &burst, &scale, &end);
  const bool known = test >= 0 && test < static_cast<int>(pool_tests.size()) &&
                     (touch == 0 || touch == 1) && scale >= 0 && scale <= 1e6 && burst >= 1 &&
                     burst <= 65536;
  if (fields != 7 || argument.size() != static_cast<std::size_t>(end) || !known) {
    return std::nullopt;
  }
  return pool_task{.test = static_cast<pool_test>(test),
                   .with_malloc = with_malloc != 0,
                   .prefault = prefault != 0,
                   .huge_pages = huge_pages != 0,
                   .touch = static_cast<pool_touch>(touch),
                   .burst = burst,
                   .scale = scale};
}

}  // namespace atbus::bench
