// Without memory a channel loses a text, an attempt or a new connection; it goes on when there is memory.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/connection.hpp"
#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "channel/shm/segment.h"
#include "counting_allocator.h"
#include "scratch_directory.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

// Long enough that no text with it fits into a string without an allocation.
std::string own_address(const std::string& kind) {
  if (kind == "ipv6")
    return "ipv6://[::1]:0";
  static int number = 0;
  return "unix://@out-of-memory-" + std::to_string(getpid()) + "-" + std::to_string(++number) +
         (kind == "unix_socket" ? "?shm=false" : "");
}

std::string own_segment() {
  static int number = 0;
  return "shm://out-of-memory-" + std::to_string(getpid()) + "-" + std::to_string(++number);
}

// The lock of a receiver that has closed seems to be held for so many questions more: a process ends its
// connections shortly before its locks.
int lies_left = 0;
void hold_receivers_lock(int questions) {
  lies_left = questions;
  detail::kernel().lock = [](int fd, int command, struct flock* lock) {
    if (command != F_OFD_GETLK || lock->l_start != off_t{detail::receiver_lock_byte} ||
        lies_left == 0)
      return fcntl(fd, command, lock);
    --lies_left;
    lock->l_type = F_WRLCK;
    return 0;
  };
}

class ChannelOutOfMemory : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!test::can_fail_allocations())
      GTEST_SKIP() << "this build can't let allocations fail";
  }
  void TearDown() override { detail::kernel().lock = usual_.lock; }

  detail::kernel_calls usual_ = detail::kernel();

  // Calls `act` with one more allocation that succeeds each time, until none fails: once so that all later ones
  // fail, and once so that one fails. Before each call, `build` makes the objects, and after it `check` looks at
  // them.
  template <class Build, class Act, class Check>
  static void with_less_memory(const Build& build, const Act& act, const Check& check) {
    for (const std::uint64_t bad : {static_cast<std::uint64_t>(-1), std::uint64_t{1}})
      with_less_memory(bad, build, act, check);
  }
  template <class Build, class Act, class Check>
  static void with_less_memory(std::uint64_t bad, const Build& build, const Act& act,
                               const Check& check) {
    bool failed = true;
    for (std::uint64_t good = 0; failed; ++good) {
      ASSERT_LT(good, 500U);
      auto objects = build();
      if (::testing::Test::HasFatalFailure())
        return;
      {
        const test::allocation_failure none{good, bad};
        try {
          act(*objects);
        } catch (const std::bad_alloc&) {  // a function that may throw
        }
        failed = test::allocation_failure::happened();
      }
      check(*objects);
      if (::testing::Test::HasFailure())
        FAIL() << good << " good allocations, then " << bad << " bad ones";
    }
  }
};

struct pair_of_sets {
  std::optional<connection_set> server;
  std::optional<connection_set> client;
  connection dialled;
  connection accepted;
  std::string address;
  int accepts = 0;
  int opened = 0;
  int closed = 0;
  std::string received;

  void poll(const std::function<bool()>& until) {
    for (const auto end = now() + 10s; !until() && now() < end;) {
      server->poll();
      client->poll();
    }
    EXPECT_TRUE(until());
  }
};

std::unique_ptr<pair_of_sets> open_pair(const std::string& kind,
                                        std::chrono::nanoseconds reconnect_min = 0ns) {
  auto made = std::make_unique<pair_of_sets>();
  pair_of_sets& p = *made;
  connection_handlers at_server;
  at_server.on_open = [&p](connection c) {
    ++p.accepts;
    p.accepted = c;
  };
  at_server.on_message = [&p](connection, bytes_view message) { p.received += as_text(message); };
  at_server.on_problem = [](const error&) {};
  connection_handlers at_client;
  at_client.on_open = [&p](connection) { ++p.opened; };
  at_client.on_close = [&p](connection, const error&) { ++p.closed; };
  p.server = *connection_set::open(at_server);
  p.client = *connection_set::open(at_client);
  p.address = *p.server->listen(own_address(kind));
  connect_options options;
  options.reconnect_min = reconnect_min;
  p.dialled = *p.client->connect(p.address, options);
  p.poll([&p] { return p.opened == 1 && p.accepts == 1; });
  return made;
}

TEST_P(ChannelOutOfMemory, AConnectionEndsWhoseOtherEndIsGone) {
  const std::string kind = GetParam();
  with_less_memory(
      [&] {
        auto p = open_pair(kind);
        EXPECT_TRUE(p->dialled.send(as_bytes("unread")));
        p->server->close();
        return p;
      },
      [](pair_of_sets& p) {
        for (int i = 0; i != 5; ++i)
          p.client->poll();
      },
      [](pair_of_sets& p) {
        for (const auto end = now() + 10s; p.closed == 0 && now() < end;)
          p.client->poll();
        EXPECT_EQ(p.closed, 1);
        EXPECT_EQ(p.client->stats().connections, 0U);
      });
}

TEST_P(ChannelOutOfMemory, AConnectionIsClosedByEitherEnd) {
  const std::string kind = GetParam();
  for (const bool ours : {false, true}) {
    with_less_memory([&] { return open_pair(kind); },
                     [&](pair_of_sets& p) {
                       (void)(ours ? p.dialled : p.accepted).close(1s);
                       for (int i = 0; i != 5; ++i) {
                         p.server->poll();
                         p.client->poll();
                       }
                     },
                     [](pair_of_sets& p) { p.poll([&p] { return p.closed == 1; }); });
  }
}

TEST_P(ChannelOutOfMemory, AConnectionIsAborted) {
  const std::string kind = GetParam();
  with_less_memory([&] { return open_pair(kind); },
                   [](pair_of_sets& p) {
                     (void)p.dialled.send(as_bytes("never written"));
                     p.dialled.abort();
                     p.client->poll();
                   },
                   [](pair_of_sets& p) { p.poll([&p] { return p.closed == 1; }); });
}

TEST_P(ChannelOutOfMemory, ALostConnectionIsDialledAgain) {
  const std::string kind = GetParam();
  with_less_memory(
      [&] {
        auto p = open_pair(kind, 1ms);
        p->accepted.abort();
        p->server->poll();
        return p;
      },
      [](pair_of_sets& p) {
        for (const auto end = now() + 4ms; now() < end;) {
          p.server->poll();
          p.client->poll();
        }
      },
      [](pair_of_sets& p) {
        p.poll([&p] { return p.accepts >= 2 && p.dialled.state() == connection_state::open; });
        EXPECT_TRUE(p.dialled.send(as_bytes("again")));
        p.poll([&p] { return p.received == "again"; });
      });
}

TEST_P(ChannelOutOfMemory, AConnectionIsDialledAndAccepted) {
  const std::string kind = GetParam();
  with_less_memory(
      [&] { return open_pair(kind); },
      [](pair_of_sets& p) {
        if (auto c = p.client->connect(p.address); c)
          (void)c->send(as_bytes("x"));
        for (int i = 0; i != 10; ++i) {
          p.client->poll();
          p.server->poll();
        }
      },
      [](pair_of_sets& p) {
        // The listener rests for a while, and accepts again.
        const int before = p.accepts;
        auto c = p.client->connect(p.address);
        ASSERT_TRUE(c);
        p.poll([&] { return p.accepts > before && c->state() == connection_state::open; });
        EXPECT_TRUE(p.dialled.send(as_bytes("y")));
        p.poll([&p] { return p.received.find('y') != std::string::npos; });
      });
}

TEST_P(ChannelOutOfMemory, ATimeIsUp) {
  const std::string kind = GetParam();
  with_less_memory(
      [&] {
        auto p = open_pair(kind);
        (void)p->dialled.close(1ms);
        for (const auto over = now() + 1ms; now() <= over;)
          std::this_thread::yield();  // the linger time passes without a poll
        return p;
      },
      [](pair_of_sets& p) {
        for (int i = 0; i != 3; ++i)
          p.client->poll();
      },
      [](pair_of_sets& p) { p.poll([&p] { return p.closed == 1; }); });
}

struct sender_and_receiver {
  std::optional<receiver> in;
  std::optional<sender> out;
  std::string address;
  std::string received;

  void poll() {
    in->poll([this](bytes_view message) { received += as_text(message); });
  }
};

std::unique_ptr<sender_and_receiver> open_channel(const std::string& kind,
                                                  std::chrono::nanoseconds reconnect_min = 0ns) {
  auto made = std::make_unique<sender_and_receiver>();
  made->in = *receiver::open(own_address(kind));
  made->address = made->in->address();
  made->out = *sender::open(made->address, {.linger = 0ns, .reconnect_min = reconnect_min});
  // Also until a Unix sender has moved on to its lane.
  for (int i = 0; i != 50; ++i) {
    EXPECT_TRUE(made->out->send(as_bytes(".")));
    EXPECT_TRUE(made->out->flush());
    made->poll();
  }
  for (const auto end = now() + 10s; made->received.size() != 50 && now() < end;)
    made->poll();
  EXPECT_EQ(made->received.size(), 50U);
  made->received.clear();
  return made;
}

TEST_P(ChannelOutOfMemory, ASenderLosesItsReceiver) {
  const std::string kind = GetParam();
  with_less_memory(
      [&] {
        auto p = open_channel(kind);
        p->in->close();
        return p;
      },
      [](sender_and_receiver& p) {
        for (int i = 0; i != 200 && p.out->receiver_alive(); ++i)
          (void)p.out->send(as_bytes("x"));
      },
      [](sender_and_receiver& p) {
        for (const auto end = now() + 10s; p.out->receiver_alive() && now() < end;)
          (void)p.out->flush();
        EXPECT_FALSE(p.out->receiver_alive());
        EXPECT_FALSE(p.out->send(as_bytes("too late")));
      });
}

TEST_P(ChannelOutOfMemory, ASenderKeepsItsMessagesForTheNextReceiver) {
  const std::string kind = GetParam();
  if (kind == "ipv6")
    GTEST_SKIP() << "what a socket has taken is lost with its receiver";
  with_less_memory(
      [&] {
        auto p = open_channel(kind, 1ms);
        if (kind == "unix_socket") {  // so that no message is in the kernel's buffers
          p->in->close();
          for (const auto end = now() + 10s; p->out->receiver_alive() && now() < end;)
            (void)p->out->flush();
        }
        for (const char* text : {"one ", "two ", "three"})
          EXPECT_TRUE(p->out->send(as_bytes(text)));
        hold_receivers_lock(3);
        p->in->close();
        return p;
      },
      [](sender_and_receiver& p) {
        for (const auto end = now() + 5ms; now() < end;)
          (void)p.out->flush();
      },
      [](sender_and_receiver& p) {
        lies_left = 0;
        p.in = *receiver::open(p.address);
        for (const auto end = now() + 10s; p.received.size() < 13 && now() < end;) {
          (void)p.out->flush();
          p.poll();
        }
        EXPECT_EQ(p.received, "one two three");
      });
}

TEST_P(ChannelOutOfMemory, AReceiverAcceptsASender) {
  const std::string kind = GetParam();
  with_less_memory(
      [&] {
        auto p = open_channel(kind);
        return p;
      },
      [](sender_and_receiver& p) {
        auto other = sender::open(p.address, {.linger = 0ns});
        for (int i = 0; i != 20; ++i) {
          if (other)
            (void)other->send(as_bytes("x"));
          p.poll();
        }
      },
      [](sender_and_receiver& p) {
        auto other = sender::open(p.address, {.linger = 0ns});
        ASSERT_TRUE(other);
        EXPECT_TRUE(other->send(as_bytes("the last")));
        for (const auto end = now() + 10s;
             p.received.find("the last") == std::string::npos && now() < end;) {
          (void)other->flush();
          p.poll();
        }
        EXPECT_NE(p.received.find("the last"), std::string::npos);
        EXPECT_TRUE(p.out->send(as_bytes("!")));
        for (const auto end = now() + 10s; p.received.back() != '!' && now() < end;) {
          (void)p.out->flush();
          p.poll();
        }
        EXPECT_EQ(p.received.back(), '!');
      });
}

TEST_P(ChannelOutOfMemory, ASenderIsToldOfRoom) {
  const std::string kind = GetParam();
  int told = 0;
  with_less_memory(
      [&] {
        auto p = open_channel(kind);
        told = 0;
        p->out->on_writable([&told, text = std::string(100, 'x')] { ++told; });
        while (p->out->send(as_bytes(std::string(20'000, 'y')))) {
        }
        return p;
      },
      [](sender_and_receiver& p) {
        for (int i = 0; i != 50; ++i) {
          p.in->poll([](bytes_view) {});
          p.out->poll_writable();
        }
      },
      [&](sender_and_receiver& p) {
        for (const auto end = now() + 10s; told == 0 && now() < end;) {
          p.in->poll([](bytes_view) {});
          p.out->poll_writable();
        }
        EXPECT_NE(told, 0);
      });
}

// Nothing tells that there is memory again.
TEST_P(ChannelOutOfMemory, ASenderThatWaitsGoesOnWhenThereIsSomeAgain) {
  const std::string kind = GetParam();
  if (kind == "unix_lanes")
    GTEST_SKIP() << "a lane needs none";
  auto in = *receiver::open(own_address(kind));
  auto out = *sender::open(in.address(), {.buffer = send_buffer_kind::growing, .linger = 0ns});
  for (int i = 0; i != 20; ++i) {  // until it is open; its queue has no memory yet
    in.poll([](bytes_view) {});
    (void)out.flush(1ms);
  }
  const auto begin = now();
  {
    const test::allocation_failure none{0, 4};
    ASSERT_EQ(out.send(as_bytes("x")), errc::out_of_memory);
    EXPECT_TRUE(out.wait_writable(10s, 1));
    EXPECT_TRUE(test::allocation_failure::happened());
  }
  EXPECT_LT(now() - begin, 10s);
  EXPECT_TRUE(out.send(as_bytes("x")));
  EXPECT_LT(out.longest_sleep(), 0ns);
}

TEST_P(ChannelOutOfMemory, ASenderOnALoopLooksForSome) {
  const std::string kind = GetParam();
  if (kind == "unix_lanes")
    GTEST_SKIP() << "a lane needs none";
  constexpr std::uint64_t limit = 1 << 20;  // more than what the queue keeps
  auto in = *receiver::open(own_address(kind), {.message_limit = limit});
  auto out = *sender::open(
      in.address(), {.message_limit = limit, .buffer = send_buffer_kind::growing, .linger = 0ns});
  while (out.send(as_bytes(std::string(limit / 2, 'y')))) {
  }
  for (const auto end = now() + 10s; !out.flush() && now() < end;)
    in.poll([](bytes_view) {});
  bool sleeps = false;
  bool failed = false;
  auto longest = -1ns;
  {
    const test::allocation_failure none;
    sleeps = out.prepare_sleep();
    failed = test::allocation_failure::happened();
    longest = out.longest_sleep();
  }
  EXPECT_TRUE(sleeps);
  EXPECT_TRUE(failed);
  EXPECT_GE(longest, 0ns);
  out.finish_sleep();
  EXPECT_FALSE(out.prepare_sleep());
  EXPECT_LT(out.longest_sleep(), 0ns);
  EXPECT_TRUE(out.poll_writable());
}

TEST_P(ChannelOutOfMemory, AReceiverOpensAfterOneThatCouldNot) {
  const std::string kind = GetParam();
  struct named {
    std::string address;
  };
  for (const char* scheme : {"shm", "unix"}) {
    with_less_memory(
        [&] {
          return std::make_unique<named>(
              named{scheme == std::string{"shm"} ? own_segment() : own_address(kind)});
        },
        [](named& at) { (void)receiver::open(at.address); },
        [&](named& at) {
          auto in = receiver::open(at.address);
          ASSERT_TRUE(in) << in.error().text();
          (void)in->remove();
        });
  }
}

// Not of a kind.
class ChannelWithoutMemory : public ChannelOutOfMemory {};

TEST_P(ChannelWithoutMemory, ALaneIsFreeAfterASenderThatCouldNotOpen) {
  struct segment {
    std::optional<receiver> in;
  };
  with_less_memory(
      [] {
        auto made = std::make_unique<segment>();
        made->in = *receiver::open(own_segment(), {.lanes = 1});
        return made;
      },
      [](segment& of) { (void)sender::open(of.in->address()); },
      [](segment& of) {
        result<sender> out = error{errc::closed};
        for (const auto end = now() + 10s; !out && now() < end;) {
          of.in->poll([](bytes_view) {});
          out = sender::open(of.in->address());
        }
        EXPECT_TRUE(out) << out.error().text();
        (void)of.in->remove();
      });
}

TEST_P(ChannelWithoutMemory, OpeningThrowsNothing) {
  for (const std::string kind : {"shm", "mem", "unix_lanes", "ipv6"}) {
    struct channel {
      std::string address;
      std::optional<receiver> in;
      bool threw = false;
    };
    with_less_memory(
        [&] {
          auto made = std::make_unique<channel>();
          made->address = kind == "shm"   ? own_segment()
                          : kind == "mem" ? "mem://out-of-memory-of-a-channel"
                                          : own_address(kind);
          return made;
        },
        [](channel& of) {
          of.threw = true;
          auto in = receiver::open(of.address);
          of.threw = false;
          if (!in)
            return;
          of.in = std::move(*in);
          const std::string at = of.in->address();
          of.threw = true;
          (void)sender::open(at);
          of.threw = false;
        },
        [&](channel& of) {
          EXPECT_FALSE(of.threw) << kind;
          if (!of.in)
            of.in = *receiver::open(of.address);
          (void)of.in->remove();
        });
  }
}

// As a whole or not at all: a retired segment whose receiver goes on has senders that nobody ends.
TEST_P(ChannelWithoutMemory, AReceiverIsRemovedOrClosed) {
  struct channel {
    std::optional<receiver> in;
    std::optional<sender> out;
    std::string address;
    errc said = errc::ok;
    bool threw = false;
  };
  with_less_memory(
      [] {
        auto made = std::make_unique<channel>();
        made->in = *receiver::open(own_segment());
        made->address = made->in->address();
        made->out = *sender::open(made->address);
        EXPECT_TRUE(made->out->send(as_bytes("x")));
        return made;
      },
      [](channel& of) {
        try {
          of.said = of.in->remove().code();
        } catch (const std::bad_alloc&) {
          of.threw = true;
        }
      },
      [](channel& of) {
        EXPECT_FALSE(of.threw);
        EXPECT_FALSE(of.in->is_open());
        if (of.said == errc::ok) {
          EXPECT_EQ(of.out->look(), errc::retired);
          return;
        }
        EXPECT_EQ(of.said, errc::out_of_memory);
        std::string got;
        auto next = receiver::open(of.address);
        ASSERT_TRUE(next) << next.error().text();
        next->poll([&](bytes_view message) { got = as_text(message); });
        EXPECT_EQ(got, "x");
        EXPECT_TRUE(next->remove());
      });
}

TEST_P(ChannelWithoutMemory, SetsAreClosed) {
  struct sets {
    std::vector<connection_set> all;
  };
  with_less_memory(
      [] {
        auto made = std::make_unique<sets>();
        for (int i = 0; i != 40; ++i)
          made->all.push_back(*connection_set::open({}));
        return made;
      },
      [](sets& of) {
        for (connection_set& one : of.all)
          one.close();
      },
      [](sets& of) { of.all.clear(); });
}

TEST_P(ChannelWithoutMemory, TakeBackSaysThatTheReceiverIsAlive) {
  struct channel {
    std::optional<receiver> in;
    std::optional<sender> out;
    errc said = errc::ok;
  };
  with_less_memory(
      [] {
        auto made = std::make_unique<channel>();
        made->in = *receiver::open(own_segment());
        made->out = *sender::open(made->in->address());
        EXPECT_TRUE(made->out->send(as_bytes("x")));
        return made;
      },
      [](channel& of) { of.said = of.out->take_back([](bytes_view, errc) {}).error().code(); },
      [](channel& of) {
        EXPECT_EQ(of.said, errc::receiver_alive);
        (void)of.in->remove();
      });
}

TEST_P(ChannelWithoutMemory, AFailedLaneLeavesNothingBehind) {
  struct channel {
    std::optional<receiver> in;
    std::size_t before = 0;
  };
  with_less_memory(
      [] {
        auto made = std::make_unique<channel>();
        made->before = test::open_descriptors();
        made->in = *receiver::open(own_address("unix_lanes"));
        return made;
      },
      [](channel& of) {
        auto out = sender::open(of.in->address(), {.linger = 0ns});
        for (int i = 0; i != 20; ++i) {
          of.in->poll([](bytes_view) {});
          if (out)
            (void)out->flush();
        }
      },
      [](channel& of) {
        of.in->close();
        EXPECT_LE(test::open_descriptors(), of.before);
      });
}

INSTANTIATE_TEST_SUITE_P(Any, ChannelWithoutMemory, ::testing::Values("any"));

INSTANTIATE_TEST_SUITE_P(Kinds, ChannelOutOfMemory,
                         ::testing::Values("unix_lanes", "unix_socket", "ipv6"),
                         [](const auto& of) { return std::string{of.param}; });

}  // namespace
}  // namespace atbus
