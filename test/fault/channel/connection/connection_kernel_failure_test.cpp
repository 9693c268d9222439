// The same as for a sender and a receiver, of two sets of connections: the incarnation of a connection in
// which each system call fails once.
#include <poll.h>

#include <ctime>
#include <ostream>
#include <set>
#include <stdexcept>

#include "atbus/connection.hpp"
#include "fault/channel/failing_kernel.h"
#include "fault/channel/failure_sweep.h"
#include "numbered_message.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus::test::connection_kernel_failure {
namespace {

struct lifecycle_kind {
  const char* name;
  bool local;
  bool on_loop;  // both sets sleep in one loop, for as long as they say
};

void PrintTo(const lifecycle_kind& kind, std::ostream* out) {
  *out << kind.name;
}

// What goes one way.
class flow {
 public:
  [[nodiscard]] std::uint64_t accepted() const { return next_ - 1; }
  [[nodiscard]] bool newest_is_there() const { return arrived_.contains(next_ - 1); }
  [[nodiscard]] std::uint64_t missing() const {
    return accepted() - arrived_.size() - given_back_.size();
  }

  bool send(connection to) {
    std::byte message[500];
    write_message(message, 1, next_);
    const status sent = to.send(message);
    next_ += sent ? 1 : 0;
    return static_cast<bool>(sent);
  }
  void take(connection from, bytes_view message) {
    message_stamp stamp;
    ASSERT_TRUE(read_message(message, stamp)) << "bytes that nobody sent";
    EXPECT_GT(stamp.number, latest_[from.id()]) << "out of order";
    latest_[from.id()] = stamp.number;
    EXPECT_TRUE(arrived_.insert(stamp.number).second) << stamp.number << " came twice";
    EXPECT_FALSE(given_back_.contains(stamp.number)) << "given back and delivered";
  }
  void give_back(bytes_view message) {
    message_stamp stamp;
    ASSERT_TRUE(read_message(message, stamp));
    EXPECT_TRUE(given_back_.insert(stamp.number).second);
  }

 private:
  std::uint64_t next_ = 1;
  std::set<std::uint64_t> arrived_;
  std::set<std::uint64_t> given_back_;
  std::map<std::uint64_t, std::uint64_t> latest_;  // of each connection
};

class instance {
 public:
  explicit instance(const lifecycle_kind& kind) : kind_(kind) {}

  lifecycle_report run() {
    open();
    for (int i = 0; i < 3; ++i)
      carry();
    fill();
    EXPECT_TRUE(in_.pause());  // which may be the end of it
    EXPECT_TRUE(out_flow_.send(out_));
    (void)in_.resume();
    carry();
    const std::uint64_t before = reconnects();
    (void)in_.abort();
    until([&] { return reconnects() != before; }, "it does not dial again");
    carry();
    EXPECT_TRUE(out_.close(patience));
    until([&] { return closed_ && dialler_->size() == 0; }, "it does not end");
    until([&] { return listener_->size() == 0; }, "the other end does not end");
    const std::uint64_t lost = reconnects() - 1;
    dialler_.reset();
    listener_.reset();
    return {.missing = out_flow_.missing() + back_flow_.missing(),
            .lost_connections = lost,
            .files = directory_.files()};
  }

  // One message on its way while the kernel has no memory for this call; how many calls of all kinds
  // that takes.
  unsigned go_short_of(const failing_kernel& kernel, const failing_entry& entry, int code) {
    open();
    carry();
    const std::uint64_t before = reconnects();
    kernel.arm(entry, 1, code, static_cast<unsigned>(-1));
    EXPECT_TRUE(out_flow_.send(out_));
    for (int i = 0; i < 3; ++i) {
      for (connection_set* set : {&*dialler_, &*listener_}) {
        (void)set->wait(5ms);
        set->poll();
      }
    }
    const unsigned calls = failing_kernel::calls();
    EXPECT_TRUE(entry.record->failed) << "nobody made such a call";
    kernel.restart();
    until([&] { return out_flow_.newest_is_there(); },
          "it does not arrive when there is memory again");
    EXPECT_EQ(reconnects(), before) << "a connection was lost";
    return calls;
  }

 private:
  void open() {
    connection_options small;
    small.message_limit = 1000;
    small.send_buffer_size = 1;  // as little as the longest message needs
    small.socket.send_buffer = 16 * 1024;
    small.socket.receive_buffer = 4096;
    connection_handlers of_listener;
    of_listener.on_open = [this](connection c) { in_ = c; };
    of_listener.on_message = [this](connection c, bytes_view m) {
      out_flow_.take(c, m);
      back_flow_.send(c);
    };
    of_listener.on_close = [this](connection c, const error& why) {
      expect_address(why);
      c.unsent([this](bytes_view m) { back_flow_.give_back(m); });
    };
    of_listener.on_problem = [this](const error& e) { expect_address(e); };
    open_set(listener_, of_listener);
    connection_handlers of_dialler;
    of_dialler.on_message = [this](connection c, bytes_view m) { back_flow_.take(c, m); };
    of_dialler.on_close = [this](connection c, const error& why) {
      expect_address(why);
      c.unsent([this](bytes_view m) { out_flow_.give_back(m); });
      closed_ = true;
    };
    open_set(dialler_, of_dialler);
    std::string where;
    for (int tries = 0; where.empty() && tries < 2; ++tries) {
      auto listening =
          listener_->listen(kind_.local ? "unix://" + directory_.path() + "/life" : "ipv6://::1:0",
                            {.connection = small});
      if (listening)
        where = *listening;
      else
        expect_address(listening.error());
    }
    need(!where.empty(), "nobody listens");
    auto made = dialler_->connect(where, {.connection = small,
                                          .connect_timeout = patience,
                                          .reconnect_min = 100us,
                                          .reconnect_max = 100us});
    need(static_cast<bool>(made), "nobody dials");
    out_ = *made;
  }
  static void open_set(std::optional<connection_set>& set, const connection_handlers& handlers) {
    for (int tries = 0; !set && tries < 2; ++tries) {
      if (auto opened = connection_set::open(handlers, {.spin = 0ns}))
        set = std::move(*opened);
    }
    need(set.has_value(), "a set can't be opened");
  }

  void turn() {
    if (kind_.on_loop) {
      sleep_in_loop();
    } else {
      (void)dialler_->wait(100us);
      (void)listener_->wait(100us);
    }
    dialler_->poll();
    listener_->poll();
  }
  // As an event loop does: until one of them has something to do. prepare_sleep, longest_sleep and
  // finish_sleep are the library's verbs, which are under test here; nothing sleeps for a time. A wake-up
  // that is missing ends as a failure after `patience`.
  void sleep_in_loop() {
    const bool one = dialler_->prepare_sleep();
    const bool other = listener_->prepare_sleep();
    if (one && other) {
      std::chrono::nanoseconds longest = patience;
      for (const auto most : {dialler_->longest_sleep(), listener_->longest_sleep()})
        longest = most < 0ns ? longest : std::min(longest, most);
      pollfd both[] = {{dialler_->descriptor(), POLLIN, 0}, {listener_->descriptor(), POLLIN, 0}};
      const timespec timeout{.tv_sec = longest / 1s, .tv_nsec = (longest % 1s).count()};
      const int woken = ::ppoll(both, 2, &timeout, nullptr);
      need(woken > 0 || longest < 1s, "nobody wakes them");
    }
    if (one)
      dialler_->finish_sleep();
    if (other)
      listener_->finish_sleep();
  }
  template <class Done>
  void until(Done&& done, const char* what) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!done()) {
      need(std::chrono::steady_clock::now() < end, what);
      turn();
    }
  }
  // Sends one, receives it and the answer. What went down with its connection is followed by another.
  void carry() {
    std::uint64_t before = reconnects();
    bool sent = false;
    until(
        [&] {
          if (std::exchange(before, reconnects()) != reconnects())
            sent = false;
          if (!sent)
            sent = out_flow_.send(out_);
          return sent && out_flow_.newest_is_there() && back_flow_.newest_is_there();
        },
        "a message or its answer does not arrive");
  }
  // Sends until nothing more is accepted, and receives all of it.
  void fill() {
    while (out_flow_.send(out_)) {
      need(out_flow_.accepted() < 5000, "a send buffer without bottom");
      (void)out_.flush();
    }
    const std::uint64_t before = reconnects();
    until(
        [&] {
          return reconnects() != before ||
                 (out_flow_.newest_is_there() && back_flow_.newest_is_there());
        },
        "some do not arrive");
    carry();
  }

  [[nodiscard]] std::uint64_t reconnects() const { return dialler_->stats().reconnects; }

  // Ends this incarnation.
  static void need(bool holds, const char* what) {
    if (!holds)
      throw std::runtime_error{what};
  }
  // Errors name the connection, so that a person knows what they are about.
  void expect_address(const error& e) const {
    if (!e) {
      EXPECT_NE(e.text().find(kind_.local ? "unix://" : "ipv6://"), std::string::npos) << e.text();
    }
  }

  lifecycle_kind kind_;
  scratch_directory directory_;
  flow out_flow_;
  flow back_flow_;
  bool closed_ = false;
  connection in_;
  connection out_;
  std::optional<connection_set> listener_;
  std::optional<connection_set> dialler_;
};

class ConnectionLifecycle : public ::testing::TestWithParam<lifecycle_kind> {
 protected:
  failing_kernel kernel_;
  lifecycle_script live_ = [](const std::function<void()>& begin) {
    instance one{GetParam()};
    begin();
    return one.run();
  };
};

TEST_P(ConnectionLifecycle, SurvivesEachFailureOfEachCall) {
  survive_each_failure(kernel_, live_);
}

TEST_P(ConnectionLifecycle, GoesOnWhenCallsMoveLittle) {
  survive_short_calls(kernel_, live_);
}

TEST_P(ConnectionLifecycle, SleepsUntilTheKernelHasMemory) {
  live_without_memory([this](const failing_entry& entry, int code) {
    instance one{GetParam()};
    const unsigned calls = one.go_short_of(kernel_, entry, code);
    return calls;
  });
}

constexpr lifecycle_kind kinds[] = {
    {.name = "Ipv6", .local = false, .on_loop = true},
    {.name = "Unix", .local = true, .on_loop = false},
};

INSTANTIATE_TEST_SUITE_P(All, ConnectionLifecycle, ::testing::ValuesIn(kinds),
                         [](const auto& of) { return std::string{of.param.name}; });

}  // namespace
}  // namespace atbus::test::connection_kernel_failure
