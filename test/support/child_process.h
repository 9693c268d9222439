// Real processes for tests: forked from the test, killed when the test is through with them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "atbus/status.hpp"
#include "shared_memory.h"

namespace atbus::test {

// In a child: says on stderr what went wrong and ends the process with code 99. Not with
// std::source_location, which Clang 14 can't compile with libstdc++ 12.
void require(bool condition, std::string_view what, const char* file = __builtin_FILE(),
             int line = __builtin_LINE());
// What was made, which must be more than an error.
template <class T>
result<T> required(result<T> made, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  require(static_cast<bool>(made), made ? "" : made.error().text(), file, line);
  return made;
}

class child_process {
 public:
  child_process() = default;
  // Forks; the child runs `body`, and exits with what it returns. It dies with the test.
  explicit child_process(const std::function<int()>& body);
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&& other) noexcept;
  ~child_process();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] bool running() const noexcept { return pid_ > 0; }

  void kill_and_wait();
  void stop();  // returns when it has stopped
  void resume();

  // True when the process has stopped itself (SIGSTOP).
  [[nodiscard]] bool wait_stopped(std::chrono::nanoseconds longest = patience);
  // How it ended: "exit 0", "signal 9", or "still running" when the time is up.
  [[nodiscard]] std::string wait_end(std::chrono::nanoseconds longest = patience);

 private:
  pid_t pid_ = -1;
};

}  // namespace atbus::test
