#include "child_process.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <system_error>
#include <utility>

namespace atbus::test {

void require(bool condition, std::string_view what, const char* file, int line) {
  if (condition)
    return;
  std::fprintf(stderr, "%s:%d: in process %d: %.*s\n", file, line, static_cast<int>(getpid()),
               static_cast<int>(what.size()), what.data());
  _exit(99);
}

child_process::child_process(const std::function<int()>& body) {
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0)
    throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ != 0)
    return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(98);
  int code = 97;
  try {
    code = body();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "in process %d: %s\n", static_cast<int>(getpid()), e.what());
  }
  _exit(code);
}

child_process::child_process(child_process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)) {}

child_process& child_process::operator=(child_process&& other) noexcept {
  if (this != &other) {
    kill_and_wait();
    pid_ = std::exchange(other.pid_, -1);
  }
  return *this;
}

child_process::~child_process() {
  kill_and_wait();
}

void child_process::kill_and_wait() {
  if (pid_ <= 0)
    return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void child_process::stop() {
  kill(pid_, SIGSTOP);
  (void)wait_stopped();
}

void child_process::resume() {
  kill(pid_, SIGCONT);
}

bool child_process::wait_stopped(std::chrono::nanoseconds longest) {
  // The kernel offers no wait for a stop with a deadline: look every 100 us.
  const auto end = std::chrono::steady_clock::now() + longest;
  do {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG) == 0 &&
        info.si_pid == pid_)
      return true;
    // An end that nobody has waited for yet: it will never stop.
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        ended.si_pid == pid_) {
      return false;
    }
    const timespec pause{.tv_sec = 0, .tv_nsec = 100'000};
    nanosleep(&pause, nullptr);
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

std::string child_process::wait_end(std::chrono::nanoseconds longest) {
  if (pid_ <= 0)
    return "never started";
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (fd >= 0) {
    pollfd interest{.fd = fd, .events = POLLIN, .revents = 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count();
    const int n = ::poll(&interest, 1, static_cast<int>(ms));
    close(fd);
    if (n == 0)
      return "still running";
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFSIGNALED(status))
    return "signal " + std::to_string(WTERMSIG(status));
  return "exit " + std::to_string(WEXITSTATUS(status));
}

}  // namespace atbus::test
