#include "run_command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace atbus::test {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds step{2};

std::string read_file(const std::string& path) {
  std::ifstream file{path};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string make_file() {
  std::string path = "/tmp/atbus-command-XXXXXX";
  const int descriptor = mkstemp(path.data());
  if (descriptor < 0) {
    throw std::runtime_error("no temporary file for the command's output");
  }
  close(descriptor);
  return path;
}

// CPU time in user mode: field 14 of proc_pid_stat(5).
long user_ticks(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  std::istringstream fields{stat.substr(std::min(stat.rfind(')') + 1, stat.size()))};
  std::string skipped;
  for (int field = 3; field != 14; ++field) {
    fields >> skipped;
  }
  long ticks = 0;
  fields >> ticks;
  return ticks;
}

}  // namespace

running_command::running_command(const std::vector<std::string>& arguments)
    : running_command{std::string{ATBUS_TEST_PROGRAMS_DIR} + "/atbus", arguments} {}

running_command::running_command(const std::string& program,
                                 const std::vector<std::string>& arguments)
    : output_path_{make_file()}, errors_path_{make_file()} {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ != 0) {
    return;
  }
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(open(output_path_.c_str(), O_WRONLY), STDOUT_FILENO);
  dup2(open(errors_path_.c_str(), O_WRONLY), STDERR_FILENO);
  execv(program.c_str(), argv.data());
  _exit(127);
}

running_command::~running_command() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  unlink(output_path_.c_str());
  unlink(errors_path_.c_str());
}

std::vector<pid_t> running_command::children(std::size_t at_least,
                                             std::chrono::seconds deadline) const {
  const std::string id = std::to_string(pid_);
  const auto end = clock::now() + deadline;
  for (;;) {
    std::vector<pid_t> found;
    std::ifstream list{"/proc/" + id + "/task/" + id + "/children"};
    for (pid_t child = 0; list >> child;) {
      found.push_back(child);
    }
    if (found.size() >= at_least || clock::now() > end) {
      return found;
    }
    std::this_thread::sleep_for(step);
  }
}

bool running_command::children_have_worked(std::chrono::seconds deadline) const {
  const auto end = clock::now() + deadline;
  const long enough = sysconf(_SC_CLK_TCK) / 2;
  while (clock::now() < end) {
    long ticks = 0;
    for (const pid_t child : children(1, deadline)) {
      ticks += user_ticks(child);
    }
    if (ticks >= enough) {
      return true;
    }
    std::this_thread::sleep_for(step);
  }
  return false;
}

bool running_command::has_said(std::string_view text, std::chrono::seconds deadline) const {
  const auto end = clock::now() + deadline;
  while (read_file(errors_path_).find(text) == std::string::npos) {
    if (clock::now() > end)
      return false;
    std::this_thread::sleep_for(step);
  }
  return true;
}

void running_command::send_signal(int signal) const {
  kill(pid_, signal);
}

command_result running_command::finish(std::chrono::seconds deadline) {
  const auto end = clock::now() + deadline;
  int how = 0;
  while (waitpid(pid_, &how, WNOHANG) == 0) {
    if (clock::now() > end) {
      kill(pid_, SIGKILL);
    }
    std::this_thread::sleep_for(step);
  }
  pid_ = -1;
  return {WIFEXITED(how) ? WEXITSTATUS(how) : -1, read_file(output_path_), read_file(errors_path_)};
}

command_result run_command(const std::vector<std::string>& arguments) {
  return running_command{arguments}.finish(std::chrono::seconds{120});
}

command_result run_script(const std::string& name, const std::vector<std::string>& arguments) {
  const std::string path = std::string{ATBUS_TEST_SOURCE_DIR} + "/../tools/script/" + name;
  return running_command{path, arguments}.finish(std::chrono::seconds{120});
}

}  // namespace atbus::test
