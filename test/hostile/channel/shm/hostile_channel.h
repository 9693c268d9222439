// What the tests of this folder have in common: a receiver and senders in a private directory, with
// the attacker's view of the segment beside them.
#pragma once

#include <sys/wait.h>

#include <cstdio>

#include "atbus/bytes.hpp"
#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "hostile/channel/shm/hostile_segment.h"
#include "test.h"

namespace atbus::hostile {

// No event of these tests takes longer unless something is broken.
inline constexpr std::chrono::seconds deadline{30};

inline std::string copy_of(bytes_view bytes) {
  return std::string{as_text(bytes)};
}

class hostile_channel : public ::testing::Test {
 protected:
  [[nodiscard]] receiver_options receiving() const {
    receiver_options o;
    o.directory = directory_.path();
    o.lanes = lanes;
    o.lane_size = lane_size;
    o.message_limit = message_limit;
    o.spin = {};
    return o;
  }
  [[nodiscard]] sender_options sending() const {
    sender_options o;
    o.directory = directory_.path();
    o.spin = {};
    return o;
  }
  receiver open_receiver(const char* address = "shm://victim") {
    auto opened = receiver::open(address, receiving());
    if (!opened) {
      ADD_FAILURE() << opened.error().text();
      std::abort();  // nothing that follows would mean anything
    }
    opened->on_problem([this](const error& e) { problems_.push_back(e); });
    return std::move(*opened);
  }
  sender open_sender(const char* address = "shm://victim") {
    auto opened = sender::open(address, sending());
    if (!opened) {
      ADD_FAILURE() << opened.error().text();
      std::abort();
    }
    return std::move(*opened);
  }
  [[nodiscard]] raw_segment raw(const char* name = "victim") const {
    return raw_segment{directory_.segment_path(name)};
  }

  // Polls once; appends what came.
  static std::size_t collect(receiver& from, std::vector<std::string>& into) {
    return from.poll([&](bytes_view m) { into.push_back(copy_of(m)); });
  }
  // Polls until `held`, at most until the deadline, sleeping on the bell meanwhile.
  template <class Condition>
  static bool poll_until(receiver& from, std::vector<std::string>& into, Condition held) {
    const auto end = now() + deadline;
    while (!held()) {
      if (now() > end)
        return false;
      if (collect(from, into) == 0)
        (void)from.wait(1ms);
    }
    return true;
  }

  private_directory directory_;
  std::vector<error> problems_;
};

// Runs `body` in a forked child, whose failed expectations count here. A child that ends with
// `skip_child` skips the test.
inline constexpr int skipped = 77;
[[noreturn]] inline void skip_child(const char* why) {
  std::printf("skipped: %s\n", why);
  std::fflush(nullptr);
  _exit(skipped);
}
template <class Body>
int exit_code_of(Body body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    body();
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(state) ? WEXITSTATUS(state) : 1000 + WTERMSIG(state);
}

}  // namespace atbus::hostile

// In the body of a test: what happens in the child happens to the test.
#define ATBUS_IN_CHILD(...)                                                           \
  do {                                                                                \
    const int code = ::atbus::hostile::exit_code_of(__VA_ARGS__);                     \
    if (code == ::atbus::hostile::skipped)                                            \
      GTEST_SKIP() << "not allowed here, see above";                                  \
    EXPECT_EQ(code, 0) << "1: its expectations failed; 1000 + n: killed by signal n"; \
  } while (false)
