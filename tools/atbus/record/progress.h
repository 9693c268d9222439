// A line on a terminal that says how far a command is; none anywhere else.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace atbus::tool {

class progress_line {
 public:
  progress_line() noexcept;
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  // Removes the line.
  ~progress_line();

  // Writes what `text` returns, the first time after a second and then once a second.
  void show(const std::function<std::string()>& text);

 private:
  const bool is_terminal_;
  bool is_shown_ = false;
  std::chrono::nanoseconds next_;
};

}  // namespace atbus::tool
