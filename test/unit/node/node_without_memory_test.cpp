// A poll for which there is no memory does a part of its work. The rest is done once there is memory: what was
// accepted gets its outcome, and links end, register and are dialled as ever.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "counting_allocator.h"
#include "named_inbox.h"
#include "test.h"

namespace atbus {
namespace {

class NodeWithoutMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::can_fail_allocations())
      GTEST_SKIP() << "this build can't let allocations fail";
  }
  static node_options quick() {
    return node_options{}
        .allow_unauthenticated()
        .retry(1ms, 2ms)
        .first_idle_timeout(100ms)
        .ping_interval(10ms)
        .fault_tolerance(2);
  }
  static std::string local(std::string_view kind) {
    static int made = 0;
    const std::string name =
        "without-memory-" + std::to_string(getpid()) + "-" + std::to_string(++made);
    if (kind == "shm")
      segments().push_back(name);
    return std::string{kind} + (kind == "unix" ? "://@" : "://") + name;
  }
  void TearDown() override {
    for (const std::string& name : std::exchange(segments(), {})) {
      for (const char* what : {"segment.", "bell."})
        unlink(("/dev/shm/atbus-" + (what + name)).c_str());
    }
  }
  static std::vector<std::string>& segments() {
    static std::vector<std::string> names;
    return names;
  }
  static constexpr std::string_view tcp = "ipv4://127.0.0.1:0";

  static constexpr auto all_others = static_cast<std::uint64_t>(-1);

  // Polls in which `bad` allocations fail behind the first `good` ones. Whether one has failed.
  static bool poll_in_vain(node& which, std::uint64_t good, std::chrono::nanoseconds time = 0ns,
                           std::uint64_t bad = all_others) {
    bool failed = false;
    const auto end = now() + time;
    do {
      const test::allocation_failure none{good, bad};
      try {
        which.poll();
      } catch (const std::bad_alloc&) {
      }
      failed = failed || test::allocation_failure::happened();
    } while (now() < end);
    return failed;
  }
  // With one more good allocation each time, until none fails.
  template <class Try>
  static void until_none_fails(Try&& once) {
    bool failed = true;
    for (std::uint64_t good = 0; failed; ++good) {
      SCOPED_TRACE(good);
      ASSERT_LT(good, 1000U);
      failed = once(good);
      if (HasFailure())
        return;
    }
  }
  template <class Done>
  static bool run_until(std::initializer_list<node*> all, Done&& is_done,
                        std::chrono::nanoseconds longest = 20s) {
    for (const auto end = now() + longest; !is_done() && now() < end;) {
      for (node* one : all)
        one->poll();
    }
    return is_done();
  }
  static bool is_connected(const node& one) {
    const auto all = one.endpoints();
    return !all.empty() && all.front().connected();
  }
  static std::uint64_t settled(const node& one) {
    return one.stats().not_delivered + one.stats().outcome_unknown;
  }

  // After so many steps of both one of them polls without memory. In the end they are linked.
  static void register_in_vain(const std::string& at, bool dialler) {
    for (const std::uint64_t bad : {all_others, std::uint64_t{1}})
      register_in_vain(at, dialler, bad);
  }
  static void register_in_vain(const std::string& at, bool dialler, std::uint64_t bad) {
    until_none_fails([&](std::uint64_t good) {
      bool failed = false;
      for (int steps = 0; steps != 6; ++steps) {
        node from{1, quick()};
        node to{2, quick()};
        std::uint64_t reported = 0;
        std::uint64_t got = 0;
        int connected = 0;
        int ready = 0;
        from.on_undelivered([&](const undelivered& what) { reported += what.count(); });
        from.on_endpoint([&](const endpoint&, endpoint_event what) {
          connected += what == endpoint_event::connected ? 1 : 0;
        });
        to.on_message([&](const message&) { ++got; });
        EXPECT_TRUE(to.listen(at == tcp ? at : local(at)));
        EXPECT_TRUE(from.connect(2, to.addresses().front()));
        EXPECT_TRUE(from.on_ready(2, 10s, [&](status how) { ready += how ? 1 : 0; }));
        EXPECT_TRUE(from.send(2, 1, "x"));
        const auto a_moment = [&] {
          for (const auto end = now() + 150us; at == tcp && now() < end;) {
          }
        };
        for (int step = 0; step != steps; ++step) {
          from.poll();
          a_moment();
          to.poll();
          a_moment();
        }
        if (!dialler)
          from.poll();
        a_moment();
        failed = poll_in_vain(dialler ? from : to, good, 0ns, bad) || failed;
        EXPECT_TRUE(from.send(2, 1, "y"));
        EXPECT_TRUE(run_until({&from, &to},
                              [&] {
                                return got + reported == 2 && ready == 1 && connected != 0 &&
                                       is_connected(from);
                              }))
            << "after " << steps << " steps: " << got << " got, " << reported << " reported, ready "
            << ready << ", connected " << connected;
      }
      return failed;
    });
  }
};

TEST_F(NodeWithoutMemory, TakesEveryMessageThatComes) {
  until_none_fails([](std::uint64_t good) {
    node to{1, quick().ping_interval(1h)};
    EXPECT_TRUE(to.listen(tcp));
    std::array<std::uint64_t, 3> got{};
    to.on_message([&](const message& what) { ++got.at(what.source().value() - 2); });
    std::array<std::optional<node>, 3> senders;
    for (std::uint64_t i = 0; i != senders.size(); ++i) {
      node& from = senders.at(i).emplace(2 + i, quick().ping_interval(1h));
      EXPECT_TRUE(from.connect(1, to.addresses().front()));
      EXPECT_TRUE(run_until({&from, &to}, [&] { return is_connected(from) && is_connected(to); }));
      // Nothing is left to be acknowledged there.
      const auto settles = now() + 50ms;
      run_until({&from, &to}, [&] { return now() > settles; });
    }
    for (auto& from : senders) {
      EXPECT_TRUE(from->send(1, 1, "first"));
      from->flush();
    }
    const bool failed = poll_in_vain(to, good, 5ms);
    for (auto& from : senders)
      EXPECT_TRUE(from->send(1, 1, "second"));
    const auto all_came = [&] { return got == std::array<std::uint64_t, 3>{2, 2, 2}; };
    EXPECT_TRUE(run_until({&to, &*senders[0], &*senders[1], &*senders[2]}, all_came, 2s));
    return failed;
  });
}

TEST_F(NodeWithoutMemory, RegistersAgainWhatItHasDialled) {
  register_in_vain("mem", true);
}

TEST_F(NodeWithoutMemory, RegistersAgainWhatItHasAccepted) {
  register_in_vain("mem", false);
}

TEST_F(NodeWithoutMemory, RegistersAgainWhatItHasDialledOverTcp) {
  register_in_vain(std::string{tcp}, true);
}

TEST_F(NodeWithoutMemory, RegistersAgainWhatItHasAcceptedOverTcp) {
  register_in_vain(std::string{tcp}, false);
}

TEST_F(NodeWithoutMemory, RegistersAgainWhatItHasDialledOverAUnixSocket) {
  register_in_vain("unix", true);
}

TEST_F(NodeWithoutMemory, RegistersAgainWhatItHasAcceptedOverAUnixSocket) {
  register_in_vain("unix", false);
}

// Its lane in the inbox of the node that restarts has messages, and behind them a call for the successor.
TEST_F(NodeWithoutMemory, IsLinkedAgainAfterTheRestartOfAPeerWithoutMemory) {
  until_none_fails([](std::uint64_t good) {
    const test::named_inbox at{"without-memory-" + std::to_string(good)};
    node from{1, quick()};
    std::uint64_t got = 0;
    std::uint32_t last = 0;
    const auto take = [&](const message& what) {
      got += what.redelivered() && what.type() <= last ? 0 : 1;
      last = std::max(last, what.type());
    };
    std::optional<node> to{std::in_place, 2, quick()};
    to->on_message(take);
    EXPECT_TRUE(to->listen(at.address()));
    EXPECT_TRUE(from.connect(2, at.address()));
    EXPECT_TRUE(run_until({&from, &*to}, [&] { return is_connected(from); }));
    std::uint32_t sent = 0;
    const auto send = [&] { EXPECT_TRUE(from.send(2, ++sent, "x")); };
    send();
    from.poll();
    to->poll();
    send();
    from.flush();
    to.emplace(2, quick());
    to->on_message(take);
    EXPECT_TRUE(to->listen(at.address()));
    bool failed = false;
    for (const auto end = now() + 30ms; now() < end;) {
      failed = poll_in_vain(*to, good) || failed;
      from.poll();
    }
    send();
    EXPECT_TRUE(run_until({&from, &*to},
                          [&] {
                            const node_stats seen = from.stats();
                            return got + seen.not_delivered + seen.outcome_unknown == sent &&
                                   is_connected(from);
                          }))
        << got << " of " << sent;
    return failed;
  });
}

TEST_F(NodeWithoutMemory, MovesToABetterLinkAndLosesNothing) {
  for (const bool dialler : {true, false}) {
    until_none_fails([&](std::uint64_t good) {
      bool failed = false;
      for (int steps = 0; steps != 8; ++steps) {
        SCOPED_TRACE(steps);
        node from{1, quick()};
        node to{2, quick()};
        std::uint64_t got = 0;
        to.on_message([&](const message&) { ++got; });
        EXPECT_TRUE(to.listen(tcp));
        EXPECT_TRUE(from.connect(2, to.addresses().front()));
        EXPECT_TRUE(run_until({&from, &to}, [&] { return is_connected(from); }));
        const std::string better = local("mem");
        EXPECT_TRUE(to.listen(better));
        EXPECT_TRUE(from.connect(2, better));
        std::uint64_t sent = 0;
        for (int step = 0; step != steps; ++step) {
          sent += from.send(2, 1, "x") ? 1 : 0;
          from.poll();
          sent += from.send(2, 1, "x") ? 1 : 0;
          to.poll();
        }
        failed = poll_in_vain(dialler ? from : to, good) || failed;
        EXPECT_TRUE(run_until(
            {&from, &to}, [&] { return got + settled(from) == sent && is_connected(from); }, 5s))
            << got << " got";
      }
      return failed;
    });
  }
}

// What had no room was in no place but its lane, which another message then left.
TEST_F(NodeWithoutMemory, SettlesWhatOtherThreadsSendAndHasNoRoomYet) {
  until_none_fails([](std::uint64_t good) {
    node own{1, node_options{}.send_buffer_size(0)};
    std::uint64_t got = 0;
    own.on_message([&](const message&) { ++got; });
    node_sender from = own.sender();
    for (const std::size_t length : {4001U, 5001U, 6001U})
      EXPECT_TRUE(from.send(1, 0, std::string(length, 'x')));
    const bool failed = poll_in_vain(own, good, 0ns, 1);
    EXPECT_TRUE(run_until(
        {&own}, [&] { return got + settled(own) == 3; }, 2s))
        << got << " handled, " << settled(own) << " settled";
    return failed;
  });
}

TEST_F(NodeWithoutMemory, DialsAnAbsentPeerAgain) {
  until_none_fails([](std::uint64_t good) {
    const std::string at = local("mem");
    node from{1, quick()};
    from.on_log([](std::string_view) {});
    EXPECT_TRUE(from.connect(2, at));
    const bool failed = poll_in_vain(from, good, 10ms);
    node to{2, quick()};
    EXPECT_TRUE(to.listen(at));
    EXPECT_TRUE(run_until(
        {&from, &to}, [&] { return is_connected(from); }, 2s));
    return failed;
  });
}

TEST_F(NodeWithoutMemory, DialsAgainWhereNobodyHasRegisteredInTime) {
  until_none_fails([](std::uint64_t good) {
    node to{2, quick()};
    EXPECT_TRUE(to.listen(tcp));
    node from{1, quick().first_idle_timeout(5ms)};
    from.on_log([](std::string_view) {});
    EXPECT_TRUE(from.connect(2, to.addresses().front()));
    const bool failed = poll_in_vain(from, good, 12ms);
    const std::uint64_t before = from.stats().dials;
    EXPECT_TRUE(run_until(
        {&from}, [&] { return from.stats().dials > before + 1; }, 2s));
    return failed;
  });
}

TEST_F(NodeWithoutMemory, NoticesAPeerThatDoesNotAnswer) {
  until_none_fails([](std::uint64_t good) {
    node from{1, quick()};
    from.on_log([](std::string_view) {});
    node to{2, quick()};
    EXPECT_TRUE(to.listen(tcp));
    EXPECT_TRUE(from.connect(2, to.addresses().front()));
    EXPECT_TRUE(run_until({&from, &to}, [&] { return is_connected(from); }));
    const bool failed = poll_in_vain(from, good, 60ms);
    EXPECT_TRUE(run_until(
        {&from}, [&] { return !is_connected(from); }, 2s));
    return failed;
  });
}

TEST_F(NodeWithoutMemory, ForgetsAPeerThatDoesNotComeBack) {
  until_none_fails([](std::uint64_t good) {
    node from{1, quick()};
    from.on_log([](std::string_view) {});
    EXPECT_TRUE(from.listen(tcp));
    auto to = std::make_unique<node>(2, quick());
    EXPECT_TRUE(to->connect(1, from.addresses().front()));
    EXPECT_TRUE(run_until({&from, to.get()}, [&] { return is_connected(from); }));
    EXPECT_TRUE(from.send(2, 1, "x"));
    EXPECT_TRUE(from.send(2, 1, "x"));
    from.flush();
    to.reset();
    EXPECT_TRUE(run_until({&from}, [&] { return from.stats().links_lost != 0; }));
    const bool failed = poll_in_vain(from, good, 120ms);
    EXPECT_TRUE(run_until(
        {&from}, [&] { return from.endpoints().empty(); }, 2s));
    EXPECT_EQ(settled(from), 2U);
    return failed;
  });
}

TEST_F(NodeWithoutMemory, SettlesWhatIsTooOld) {
  until_none_fails([](std::uint64_t good) {
    node from{1, quick().message_deadline(1ms)};
    from.on_undelivered([](const undelivered&) {});
    EXPECT_TRUE(from.connect(2, local("mem")));
    for (int i = 0; i != 20; ++i)
      EXPECT_TRUE(from.send(2, 1, "hello"));
    const bool failed = poll_in_vain(from, good, 2ms);
    EXPECT_TRUE(run_until(
        {&from}, [&] { return settled(from) == 20; }, 2s))
        << settled(from);
    return failed;
  });
}

TEST_F(NodeWithoutMemory, SettlesWhatWaitsForAPeerThatIsDisconnected) {
  for (const bool linked : {false, true}) {
    until_none_fails([linked](std::uint64_t good) {
      node to{2, quick()};
      EXPECT_TRUE(to.listen(tcp));
      node from{1, quick()};
      from.on_undelivered([](const undelivered&) {});
      EXPECT_TRUE(from.connect(2, to.addresses().front()));
      EXPECT_TRUE(!linked || run_until({&from, &to}, [&] { return is_connected(from); }));
      for (int i = 0; i != 20; ++i)
        EXPECT_TRUE(from.send(2, 1, "hello"));
      bool failed = false;
      {
        const test::allocation_failure none{good};
        try {
          (void)from.disconnect(2);
        } catch (const std::bad_alloc&) {
        }
        failed = test::allocation_failure::happened();
      }
      failed = poll_in_vain(from, good) || failed;
      (void)from.disconnect(2);
      EXPECT_TRUE(run_until(
          {&from}, [&] { return settled(from) == 20; }, 5s))
          << settled(from);
      return failed;
    });
  }
}

TEST_F(NodeWithoutMemory, SendsNoOtherBytesInPlaceOfWhatIsTooLongForThePeer) {
  until_none_fails([](std::uint64_t good) {
    bool failed = false;
    for (int steps = 1; steps != 5; ++steps) {
      node from{1, quick()};
      from.on_undelivered([](const undelivered&) {});
      node to{2, quick().message_limit(2000)};
      std::uint64_t got = 0;
      std::uint64_t wrong = 0;
      to.on_message([&](const message& what) { ++(what.text() == "after" ? got : wrong); });
      EXPECT_TRUE(to.listen(local("mem")));
      EXPECT_TRUE(from.connect(2, to.addresses().front()));
      const std::string too_long(5000, 'x');
      for (int i = 0; i != 3; ++i)
        EXPECT_TRUE(from.send(2, 1, as_bytes(too_long)));
      EXPECT_TRUE(from.send(2, 1, "after"));
      for (int step = 0; step != steps; ++step) {
        from.poll();
        to.poll();
      }
      failed = poll_in_vain(from, good) || failed;
      EXPECT_TRUE(run_until(
          {&from, &to}, [&] { return got + wrong + settled(from) == 4; }, 5s));
      EXPECT_EQ(wrong, 0U);
    }
    return failed;
  });
}

// Often enough that every list that grows has to grow.
TEST_F(NodeWithoutMemory, EndsLinksOverLanes) {
  for (const std::string_view kind : {"mem", "shm"}) {
    node to{2, quick()};
    EXPECT_TRUE(to.listen(local(kind)));
    node from{1, quick()};
    const auto in_vain = [](std::uint64_t good, auto&& call) {
      const test::allocation_failure none{good};
      try {
        call();
      } catch (const std::bad_alloc&) {
      }
    };
    for (std::uint64_t i = 0; i != 150; ++i) {
      EXPECT_TRUE(from.connect(2, to.addresses().front()));
      ASSERT_TRUE(run_until({&from, &to}, [&] { return is_connected(from) && is_connected(to); }));
      if (i % 2 == 0) {
        in_vain(i / 2 % 10, [&] { (void)from.disconnect(2); });
        in_vain(i / 2 % 10, [&] { from.poll(); });
      } else {
        (void)to.disconnect(1);
        in_vain(i / 2 % 10, [&] { from.poll(); });
      }
      (void)from.disconnect(2);
      ASSERT_TRUE(run_until({&from, &to}, [&] { return from.endpoints().empty(); }));
    }
  }
}

TEST_F(NodeWithoutMemory, OutlivesAPeerWhoseInboxItRemoves) {
  until_none_fails([](std::uint64_t good) {
    node to{2, quick().first_idle_timeout(30ms)};
    EXPECT_TRUE(to.listen(local("shm")));
    const std::string at = to.addresses().front();
    const pid_t child = fork();
    if (child == 0) {
      node from{1, quick().report_directory("")};
      const bool is_there = from.connect(2, at).code() == errc::ok;
      while (is_there && getppid() != 1)
        from.poll();
      _exit(0);
    }
    EXPECT_TRUE(run_until({&to}, [&] { return is_connected(to); }));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const bool failed = poll_in_vain(to, good, 20ms);
    EXPECT_TRUE(run_until({&to}, [&] { return to.endpoints().empty(); }));
    return failed;
  });
}

// Often enough that a list of links with room has to grow.
TEST_F(NodeWithoutMemory, TellsOfRoomInALinkLater) {
  node to{2, quick().ping_interval(1h)};
  std::uint64_t got = 0;
  to.on_message([&](const message&) { ++got; });
  EXPECT_TRUE(to.listen(tcp));
  node from{1, quick().ping_interval(1h).send_buffer_size(64 * 1024)};
  std::uint64_t told = 0;
  from.on_writable([&](bus_id) { ++told; });
  EXPECT_TRUE(from.connect(2, to.addresses().front()));
  ASSERT_TRUE(run_until({&from, &to}, [&] { return is_connected(from); }));
  const std::string text(8 * 1024, 'x');
  for (std::uint64_t i = 0; i != 150; ++i) {
    told = 0;
    while (from.send(2, 1, as_bytes(text))) {
    }
    from.flush();
    const auto until = now() + 200us;
    run_until({&to}, [&] { return now() > until; });
    poll_in_vain(from, i % 3, 200us);
    ASSERT_TRUE(run_until(
        {&from, &to}, [&] { return told != 0; }, 5s))
        << i;
  }
}

}  // namespace
}  // namespace atbus
