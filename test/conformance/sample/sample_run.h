// Starts the sample programs as a newcomer does, and reads what they print.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "child_process.h"
#include "test.h"

namespace atbus {

using test::child_process;

class SampleRun : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe2(output_.data(), O_CLOEXEC), 0); }
  void TearDown() override {
    close(output_[0]);
    if (output_[1] >= 0)
      close(output_[1]);
    // A named inbox outlives its node, and a receiver that was killed.
    unlink(("/dev/shm/atbus-segment." + name_).c_str());
    unlink(("/dev/shm/atbus-bell." + name_).c_str());
  }

  child_process start(const std::string& sample, const char* argument = nullptr,
                      const char* second = nullptr) const {
    const std::string program = std::string{ATBUS_TEST_PROGRAMS_DIR} + "/sample_" + sample;
    return child_process{[&] {
      dup2(output_[1], STDOUT_FILENO);
      execl(program.c_str(), program.c_str(), argument, second, nullptr);
      return 127;
    }};
  }

  // One line of what the programs print.
  std::string read_line() const {
    std::string text;
    pollfd p{.fd = output_[0], .events = POLLIN, .revents = 0};
    char byte = 0;
    while (::poll(&p, 1, 60'000) > 0 && read(output_[0], &byte, 1) == 1) {
      if (byte == '\n')
        return text;
      text += byte;
    }
    return text + "(no end)";
  }

  // All that the programs print until they have ended.
  std::string read_output() {
    close(std::exchange(output_[1], -1));
    std::string text;
    pollfd p{.fd = output_[0], .events = POLLIN, .revents = 0};
    std::array<char, 256> bytes{};
    while (::poll(&p, 1, 60'000) > 0) {
      const ssize_t n = read(output_[0], bytes.data(), bytes.size());
      if (n <= 0)
        return text;
      text.append(bytes.data(), static_cast<std::size_t>(n));
    }
    return text + "(no end)";
  }

  std::array<int, 2> output_{-1, -1};
  std::string name_ = "sample-" + std::to_string(getpid());
  std::string address_ = "shm://" + name_;
};

}  // namespace atbus
