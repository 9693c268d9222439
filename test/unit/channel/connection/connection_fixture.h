// Sets of connections that write down what they are told, for their tests.
#pragma once

#include <unistd.h>

#include "atbus/clock.hpp"
#include "atbus/connection.hpp"
#include "system/kernel.h"
#include "test.h"

namespace atbus {

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

// The message with a number, of a length that follows from it.
inline std::string numbered(std::size_t number) {
  return std::to_string(number) + ":" +
         std::string((number * 37) % 700, static_cast<char>('a' + number % 26));
}
inline std::vector<std::string> numbered_range(std::size_t from, std::size_t to) {
  std::vector<std::string> all;
  for (; from != to; ++from)
    all.push_back(numbered(from));
  return all;
}

// Two sets and a connection between them. What a test does to the kernel ends with it.
class TwoSets : public ::testing::Test {
 protected:
  ~TwoSets() override { detail::kernel() = saved_; }

  // Where `a` is to listen.
  virtual std::string any_address() const { return fresh_unix_address(); }
  // Opens one connection from `b` to `a`.
  void join(const connect_options& options = {}, const listen_options& of_listener = {}) {
    where = a.listen(any_address(), of_listener);
    out = b.connect(where, options);
    ASSERT_TRUE(until([&] { return a.opens == 1 && b.opens == 1; }));
    in = a.last;
  }
  bool until(const std::function<bool()>& done) { return turn_until({&a, &b}, done); }
  // Queues as many numbered messages as there is room for; returns the next number.
  static std::size_t fill(connection to, std::size_t from = 0) {
    while (to.send(as_bytes(numbered(from))))
      ++from;
    return from;
  }
  // The same until the kernel takes no more.
  static std::size_t stuff(connection to) {
    std::size_t count = 0;
    for (std::size_t before = 1; before != count;) {
      before = count;
      count = fill(to, count);
      (void)to.flush();
    }
    return count;
  }

  recorded_set a;
  recorded_set b;
  std::string where;
  connection in;
  connection out;
  detail::kernel_calls saved_ = detail::kernel();
};

}  // namespace atbus
