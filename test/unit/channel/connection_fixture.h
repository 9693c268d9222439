// Sets of connections that write down what they are told, for their tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/channel/connection.hpp"
#include "atbus/core/clock.hpp"

namespace atbus {

using namespace std::chrono_literals;

inline std::string fresh_unix_address() {
  static int count = 0;
  return "unix://@atbus-test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

// One set, what it was told, and what a test wants it to do then.
class recorded_set {
 public:
  explicit recorded_set(const connection_set_options& options = {}) {
    auto opened =
        connection_set::open({.on_open =
                                  [this](connection c) {
                                    ++opens;
                                    last = c;
                                    events.emplace_back("open");
                                    if (on_open)
                                      on_open(c);
                                  },
                              .on_message =
                                  [this](connection c, bytes_view message) {
                                    last = c;
                                    messages.emplace_back(as_text(message));
                                    if (on_message)
                                      on_message(c, message);
                                  },
                              .on_writable =
                                  [this](connection c) {
                                    ++writable;
                                    if (on_writable)
                                      on_writable(c);
                                  },
                              .on_close =
                                  [this](connection c, const error& why) {
                                    ++closes;
                                    whys.push_back(why);
                                    events.emplace_back("close " + std::string{name(why.code())});
                                    EXPECT_EQ(c.state(), connection_state::closed);
                                    if (on_close)
                                      on_close(c, why);
                                  },
                              .on_problem =
                                  [this](const error& what) {
                                    problems.push_back(what);
                                    if (on_problem)
                                      on_problem(what);
                                  }},
                             options);
    EXPECT_TRUE(opened) << opened.error().text();
    set = std::make_unique<connection_set>(std::move(*opened));
  }

  std::string listen(std::string_view address, const listen_options& options = {}) {
    auto where = set->listen(address, options);
    EXPECT_TRUE(where) << where.error().text();
    return where ? *where : std::string{};
  }
  connection connect(std::string_view address, const connect_options& options = {}) {
    auto made = set->connect(address, options);
    EXPECT_TRUE(made) << made.error().text();
    return made ? *made : connection{};
  }

  std::function<void(connection)> on_open;
  std::function<void(connection, bytes_view)> on_message;
  std::function<void(connection)> on_writable;
  std::function<void(connection, const error&)> on_close;
  std::function<void(const error&)> on_problem;

  std::vector<std::string> events;
  std::vector<std::string> messages;
  std::vector<error> whys;
  std::vector<error> problems;
  int opens = 0;
  int closes = 0;
  int writable = 0;
  connection last;

  std::unique_ptr<connection_set> set;
};

// Turns all of them until `done`, thirty seconds at most. True: done.
inline bool turn_until(std::initializer_list<recorded_set*> all,
                       const std::function<bool()>& done) {
  const auto deadline = now() + 30s;
  while (!done()) {
    if (now() > deadline)
      return false;
    bool busy = false;
    for (recorded_set* one : all) {
      if (one->set != nullptr && one->set->poll() != 0)
        busy = true;
    }
    if (!busy && !done()) {
      for (recorded_set* one : all) {
        if (one->set != nullptr)
          (void)one->set->wait(500us);
      }
    }
  }
  return true;
}

}  // namespace atbus
