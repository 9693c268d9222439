// Links over shared memory whose processes are killed and started again.
#include <csignal>
#include <new>

#include "child_process.h"
#include "counting_allocator.h"
#include "link_fixture.h"

namespace atbus::detail {
namespace {

using outcomes = std::vector<std::pair<std::string, errc>>;
using texts = std::vector<std::string>;

// The test is node 1, the process that is killed and started again node 2.
class LaneRestart : public ::testing::Test {
 protected:
  std::unique_ptr<recorded_end> make(std::uint64_t id, std::uint64_t incarnation) {
    setting.directory = directory.path();
    return std::make_unique<recorded_end>(make_lanes(setting), node_instance{id, incarnation});
  }
  // An incarnation of node 2 that listens at shm://two, makes sure of who comes, and runs until it is killed.
  test::child_process live(std::uint64_t incarnation,
                           const std::function<void(recorded_end&)>& prepare = {},
                           std::uint64_t id = 2) {
    return test::child_process{[=, this] {
      auto own = make(id, incarnation);
      own->on_opened = [](link& at, bool) { at.confirm({1, 1}); };
      if (prepare)
        prepare(*own);
      own->listen("shm://two");
      listening->add();
      for (;;) {
        own->poll();
        sleep_all({own.get()});
      }
      return 0;
    }};
  }
  void dial() {
    out = one->connect("shm://two");
    ASSERT_TRUE(until([&] { return one->count("opened") == 1; }));
  }
  // And is dialled; what is sent after that message waits in the lane.
  test::child_process begin_incarnation_that_handles_one_message() {
    auto first = live(1, [](recorded_end& own) {
      own.on_received = [](link& from, bytes_view) { from.pause(); };
    });
    EXPECT_TRUE(listening->wait(1));
    one = make(1, 1);
    dial();
    EXPECT_TRUE(send(*out, "handled"));
    EXPECT_TRUE(until([&] { return out->settled(); }));
    return first;
  }
  // And is dialled; the first message that it handles ends it.
  test::child_process begin_incarnation_that_dies_in_its_handler() {
    auto first = live(
        1, [](recorded_end& own) { own.on_received = [](link&, bytes_view) { raise(SIGKILL); }; });
    EXPECT_TRUE(listening->wait(1));
    one = make(1, 1);
    dial();
    return first;
  }
  bool until(const std::function<bool()>& done) { return turn_until({one.get()}, done); }

  test::scratch_directory directory;
  link_setting setting;
  test::shared<test::shared_counter> listening;
  std::unique_ptr<recorded_end> one;
  link* out = nullptr;
};

TEST_F(LaneRestart, KeepsWhatWaitsForASuccessorFork) {
  auto first = begin_incarnation_that_handles_one_message();
  ASSERT_TRUE(send(*out, "waits"));
  first.kill_and_wait();
  ASSERT_TRUE(until([&] { return one->count("left") == 1; }));
  EXPECT_EQ(one->find("left").at, out);
  ASSERT_TRUE(send(*out, "waits too"));

  // What it was told goes back as messages.
  auto second = live(2, [&](recorded_end& own) {
    own.on_opened = [&](link& at, bool accepted) {
      test::require(accepted, "it did not dial");
      for (const auto& e : own.events)
        (void)send(at, e.what + " " + e.text);
    };
    own.on_received = [](link& from, bytes_view message) {
      (void)send(from, "got " + std::string{as_text(message)});
    };
  });
  ASSERT_TRUE(until([&] { return one->count("returned") == 1; }));
  EXPECT_EQ(one->find("returned").at, out);
  ASSERT_TRUE(send(*out, "after"));
  ASSERT_TRUE(until([&] { return one->messages.size() == 4; }));
  EXPECT_EQ(one->messages,
            (texts{"inherited 1/1: waits", "inherited 1/1: waits too", "accepted ", "got after"}));
  EXPECT_EQ(one->count("closed"), 0U);
}

// There was no room for the call at first, and no memory when there was.
TEST_F(LaneRestart, CallsASuccessorAgainThatItDidNotReachFork) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  auto first = begin_incarnation_that_handles_one_message();
  for (const std::size_t size : {1000U, 1U}) {
    while (send(*out, std::string(size, 'x'))) {
    }
  }
  first.kill_and_wait();
  ASSERT_TRUE(until([&] { return one->count("left") == 1; }));
  test::shared<test::shared_counter> may_read;
  test::child_process second{[&] {
    auto own = make(2, 2);
    own->listen("shm://two");
    listening->add();
    test::require(may_read->wait(1), "the call has waited for room");
    for (;;) {
      own->poll();
      sleep_all({own.get()});
    }
    return 0;
  }};
  ASSERT_TRUE(listening->wait(2));
  ASSERT_TRUE(until([&] { return one->count("recalling") == 1; }));
  may_read->add();
  for (const auto end = now() + 5s; !out->settled() && now() < end;) {
    const test::allocation_failure none;
    try {
      one->poll();
    } catch (const std::bad_alloc&) {
    }
  }
  ASSERT_TRUE(until([&] { return one->count("returned") == 1; }));
}

TEST_F(LaneRestart, MarksTheMessageWhoseHandlerNeverReturnedFork) {
  auto first = begin_incarnation_that_dies_in_its_handler();
  ASSERT_TRUE(send(*out, "deadly"));
  ASSERT_TRUE(send(*out, "harmless"));
  EXPECT_EQ(first.wait_end(), "signal 9");
  ASSERT_TRUE(until([&] { return one->count("left") == 1; }));
  auto second = live(2, [](recorded_end& own) {
    own.on_opened = [&](link& at, bool) {
      for (const auto& e : own.events)
        (void)send(at, e.what + " " + e.text);
    };
  });
  ASSERT_TRUE(until([&] { return one->messages.size() == 3; }));
  EXPECT_EQ(one->messages,
            (texts{"inherited again 1/1: deadly", "inherited 1/1: harmless", "accepted "}));
}

TEST_F(LaneRestart, HandsBackWhatWaitsIfItIsAskedToFork) {
  auto first = begin_incarnation_that_dies_in_its_handler();
  for (const char* text : {"deadly", "harmless"})
    ASSERT_TRUE(send(*out, text));
  outcomes back;
  one->on_left = [&](link& at) {
    at.take_unreleased(
        [&](bytes_view message, errc outcome) { back.emplace_back(as_text(message), outcome); });
  };
  ASSERT_TRUE(until([&] { return one->count("left") == 1; }));
  EXPECT_EQ(back, (outcomes{{"deadly", errc::outcome_unknown}, {"harmless", errc::not_delivered}}));
  auto second = live(2, [](recorded_end& own) {
    own.on_received = [](link& from, bytes_view message) { (void)send(from, as_text(message)); };
  });
  ASSERT_TRUE(until([&] { return one->count("returned") == 1; }));
  ASSERT_TRUE(send(*out, "new"));
  ASSERT_TRUE(until([&] { return one->messages.size() == 1; }));
  EXPECT_EQ(one->messages, texts{"new"});
}

TEST_F(LaneRestart, KeepsTheMarkOfAMessageThatASuccessorLeavesAloneFork) {
  auto first = begin_incarnation_that_dies_in_its_handler();
  ASSERT_TRUE(send(*out, "deadly"));
  EXPECT_EQ(first.wait_end(), "signal 9");
  test::child_process second{[this] {
    auto own = make(2, 2);
    own->takes = false;
    own->listen("shm://two");
    return turn_until({own.get()}, [&] { return own->count("inherited again") != 0; }) ? 0 : 1;
  }};
  EXPECT_EQ(second.wait_end(), "exit 0");
  auto third = live(3, [](recorded_end& own) {
    own.on_opened = [&](link& at, bool) {
      for (const auto& e : own.events)
        (void)send(at, e.what + " " + e.text);
    };
  });
  ASSERT_TRUE(until([&] { return !one->messages.empty(); }));
  EXPECT_EQ(one->messages.front(), "inherited again 1/1: deadly");
}

TEST_F(LaneRestart, HandsBackWhatASuccessorRefusesFork) {
  auto first = begin_incarnation_that_handles_one_message();
  ASSERT_TRUE(send(*out, "refused"));
  first.kill_and_wait();
  ASSERT_TRUE(until([&] { return one->count("left") == 1; }));
  ASSERT_TRUE(send(*out, "behind it"));
  auto second = live(2, [](recorded_end& own) { own.hands_back = true; });
  ASSERT_TRUE(until([&] { return one->count("closed") == 1; }));
  EXPECT_EQ(one->unreleased,
            (outcomes{{"refused", errc::not_delivered}, {"behind it", errc::not_delivered}}));
}

// An earlier incarnation may have handled it, so it is not proven that no handler has.
TEST_F(LaneRestart, KeepsTheMarkOfAMessageThatASuccessorRefusesFork) {
  auto first = begin_incarnation_that_dies_in_its_handler();
  ASSERT_TRUE(send(*out, "deadly"));
  ASSERT_TRUE(send(*out, "behind it"));
  EXPECT_EQ(first.wait_end(), "signal 9");
  auto second = live(2, [](recorded_end& own) { own.hands_back = true; });
  ASSERT_TRUE(until([&] { return one->count("closed") == 1; }));
  EXPECT_EQ(one->unreleased,
            (outcomes{{"deadly", errc::outcome_unknown}, {"behind it", errc::not_delivered}}));
}

TEST_F(LaneRestart, HandsBackWhatIsForAnotherNodeThanTheNextOneFork) {
  auto first = begin_incarnation_that_handles_one_message();
  ASSERT_TRUE(send(*out, "for node 2"));
  first.kill_and_wait();
  ASSERT_TRUE(until([&] { return one->count("left") == 1; }));
  auto another = live(
      1,
      [](recorded_end& own) {
        own.on_opened = [&](link& at, bool) {
          for (const auto& e : own.events)
            (void)send(at, e.what + " " + e.text);
        };
      },
      3);
  ASSERT_TRUE(until([&] { return one->count("closed") == 1; }));
  EXPECT_EQ(one->unreleased, (outcomes{{"for node 2", errc::not_delivered}}));
  out = one->connect("shm://two");
  ASSERT_TRUE(until([&] { return one->messages.size() == 1; }));
  EXPECT_EQ(one->messages, texts{"accepted "});
}

TEST_F(LaneRestart, SaysWhatASuccessorMayInheritThoughItsSenderHasGoneFork) {
  auto first = begin_incarnation_that_handles_one_message();
  ASSERT_TRUE(send(*out, "waits"));
  bool may_be_inherited = false;
  one->on_closed = [&](link& at) { may_be_inherited = at.may_be_inherited(); };
  out->abort();
  ASSERT_TRUE(until([&] { return one->count("closed") == 1; }));
  EXPECT_EQ(one->unreleased, (outcomes{{"waits", errc::outcome_unknown}}));
  EXPECT_TRUE(may_be_inherited);
  first.kill_and_wait();

  auto second = live(2, [&](recorded_end& own) {
    own.on_opened = [&](link& at, bool) {
      for (const auto& e : own.events)
        (void)send(at, e.what + " " + e.text);
    };
  });
  ASSERT_TRUE(listening->wait(2));
  one->on_closed = nullptr;
  out = one->connect("shm://two");
  ASSERT_TRUE(until([&] { return one->messages.size() == 2; }));
  EXPECT_EQ(one->messages[0], "inherited 1/1: waits, not awaited");
}

TEST_F(LaneRestart, TakesBackFromTheDeadWhatNoSuccessorInheritsThenFork) {
  auto first = begin_incarnation_that_handles_one_message();
  ASSERT_TRUE(send(*out, "waits"));
  first.kill_and_wait();
  ASSERT_TRUE(until([&] { return one->count("left") == 1; }));
  bool may_be_inherited = true;
  one->on_closed = [&](link& at) { may_be_inherited = at.may_be_inherited(); };
  out->abort();
  ASSERT_TRUE(until([&] { return one->count("closed") == 1; }));
  EXPECT_EQ(one->unreleased, (outcomes{{"waits", errc::not_delivered}}));
  EXPECT_FALSE(may_be_inherited);
}

TEST_F(LaneRestart, CallsTheSuccessorBehindAFullLaneFork) {
  auto first = begin_incarnation_that_handles_one_message();
  std::size_t count = 0;
  while (send(*out, std::string(1000, 'x')))
    ++count;
  first.kill_and_wait();
  ASSERT_TRUE(until([&] { return one->count("left") == 1; }));
  while (send(*out, "x"))
    ++count;
  auto second = live(2, [](recorded_end& own) {
    own.on_opened = [&](link& at, bool) { (void)send(at, std::to_string(own.count("inherited"))); };
  });
  ASSERT_TRUE(until([&] { return one->messages.size() == 1 && one->count("returned") == 1; }));
  EXPECT_EQ(one->messages, texts{std::to_string(count)});
}

TEST_F(LaneRestart, RefusesWhatWaitsFromSomebodyNeverConfirmedFork) {
  auto first = live(1, [&](recorded_end& own) {
    own.on_opened = [](link&, bool) {};
    own.on_received = [](link& from, bytes_view) { from.pause(); };
  });
  ASSERT_TRUE(listening->wait(1));
  one = make(1, 1);
  dial();
  ASSERT_TRUE(send(*out, "handled"));
  ASSERT_TRUE(until([&] { return out->settled(); }));
  ASSERT_TRUE(send(*out, "refused"));
  ASSERT_TRUE(send(*out, "waits"));
  first.kill_and_wait();
  auto second = live(2);
  ASSERT_TRUE(until([&] { return one->count("closed") == 1; }));
  EXPECT_EQ(one->find("closed").why, errc::peer_closed);
  // The end of the lane may be seen before what brought it about counts as handled.
  outcomes expected{{"waits", errc::not_delivered}};
  if (one->unreleased.size() == 2)
    expected.insert(expected.begin(), {"refused", errc::outcome_unknown});
  EXPECT_EQ(one->unreleased, expected);
}

// Who dials without listening has an inbox of its own that dies with it.
class LaneOfTheKilled : public LaneRestart {
 protected:
  // A process with an inbox of its own dials, sends, and waits for its death.
  test::child_process visit(const std::function<void(recorded_end&)>& act = {}) {
    return test::child_process{[=, this] {
      auto own = make(2, 1);
      own->on_opened = [&](link& at, bool) {
        (void)send(at, "hello");
        if (act)
          act(*own);
      };
      own->on_received = [](link& from, bytes_view) { from.pause(); };
      own->connect("shm://one");
      for (;;) {
        own->poll();
        sleep_all({own.get()});
      }
      return 0;
    }};
  }
};

TEST_F(LaneOfTheKilled, IsClosedAndItsInboxRemovedByItsPeerFork) {
  one = make(1, 1);
  one->listen("shm://one");
  const auto files_before = directory.files();
  auto client = visit();
  ASSERT_TRUE(until([&] { return one->messages.size() == 1; }));
  ASSERT_TRUE(send(*one->last, "handled"));
  ASSERT_TRUE(until([&] { return one->last->settled(); }));
  ASSERT_TRUE(send(*one->last, "waits"));
  EXPECT_GT(directory.files().size(), files_before.size());
  client.kill_and_wait();
  ASSERT_TRUE(until([&] { return one->count("closed") == 1; }));
  EXPECT_EQ(one->find("closed").why, errc::peer_closed);
  EXPECT_EQ(one->unreleased, (outcomes{{"waits", errc::not_delivered}}));
  EXPECT_EQ(one->count("left"), 0U);
  EXPECT_EQ(directory.files(), files_before);
}

TEST_F(LaneOfTheKilled, IsReadToItsEndFirstFork) {
  one = make(1, 1);
  one->listen("shm://one");
  auto client = visit([](recorded_end& own) {
    for (int i = 0; i != 10; ++i)
      (void)send(*own.last, std::to_string(i));
    raise(SIGKILL);
  });
  one->on_closed = [&](link&) { EXPECT_EQ(one->messages.size(), 11U); };
  ASSERT_TRUE(until([&] { return one->count("closed") == 1; }));
  EXPECT_EQ(client.wait_end(), "signal 9");
}

TEST_F(LaneOfTheKilled, IsRemovedByItsNextIncarnationFork) {
  test::child_process dead{[this] {
    auto own = make(2, 1);
    own->listen("shm://");
    raise(SIGKILL);
    return 0;
  }};
  EXPECT_EQ(dead.wait_end(), "signal 9");
  EXPECT_FALSE(directory.files().empty());
  one = make(2, 2);
  const auto where = one->listen("shm://");
  EXPECT_EQ(where, "shm://atbus-0x2-0x2");
  one.reset();
  EXPECT_EQ(directory.files(), texts{});
}

TEST_F(LaneOfTheKilled, LeavesNamedInboxesAlone) {
  one = make(1, 1);
  one->listen("shm://one");
  one.reset();
  EXPECT_EQ(directory.files(), (texts{"atbus-bell.one", "atbus-segment.one"}));
}

}  // namespace
}  // namespace atbus::detail
