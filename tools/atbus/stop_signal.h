// Ctrl-C and SIGTERM, for commands that run until one of them comes. One at a time.
#pragma once

namespace atbus::tool {

class stop_signal {
 public:
  stop_signal();
  stop_signal(const stop_signal&) = delete;
  stop_signal& operator=(const stop_signal&) = delete;
  // A further one ends the process again.
  ~stop_signal();

  [[nodiscard]] bool seen() const noexcept;
};

}  // namespace atbus::tool
