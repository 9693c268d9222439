// Runs the built `atbus` command as a user would and collects what it says.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace atbus::test {

struct command_result {
  int exit_code = -1;  // -1: killed by a signal, or after the deadline
  std::string output;
  std::string errors;
};

// A running command. Destroying it kills it if it still runs.
class running_command {
 public:
  explicit running_command(const std::vector<std::string>& arguments);
  // Another program than `atbus`.
  running_command(const std::string& program, const std::vector<std::string>& arguments);
  ~running_command();
  running_command(const running_command&) = delete;
  running_command& operator=(const running_command&) = delete;

  pid_t pid() const noexcept { return pid_; }
  // Its children, once there are at least so many; fewer if the deadline passes first.
  std::vector<pid_t> children(std::size_t at_least, std::chrono::seconds deadline) const;
  // True once its children have used half a second of CPU time: they are in the midst of their
  // work.
  bool children_have_worked(std::chrono::seconds deadline) const;
  // True once that text is on its standard error.
  bool has_said(std::string_view text, std::chrono::seconds deadline) const;
  void send_signal(int signal) const;
  // Waits for the end; after the deadline the command is killed.
  command_result finish(std::chrono::seconds deadline);

 private:
  pid_t pid_ = -1;
  std::string output_path_;
  std::string errors_path_;
};

// From start to end.
command_result run_command(const std::vector<std::string>& arguments);
// A script of tools/script.
command_result run_script(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace atbus::test
