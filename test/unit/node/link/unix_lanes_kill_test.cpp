// A Unix connection that becomes a pair of lanes, with either end killed or stopped at each system call
// of the way.
//
// Whatever dies where: the other end is told of an ordinary end or of nothing, its lane is free again,
// and the next one is served. Whoever is stopped makes nobody else wait.
#include <csignal>
#include <type_traits>

#include "child_process.h"
#include "link_fixture.h"

namespace atbus::detail {
namespace {

// What happens to a process at one of its calls; in memory shared with the test.
struct call_plan {
  std::uint32_t at = 0;  // 0: never
  int signal = 0;
  test::shared_counter calls;
  test::shared_counter reached;
};

call_plan* followed = nullptr;  // of this process

void pass() {
  if (followed == nullptr)
    return;
  followed->calls.add();
  if (followed->calls.get() != followed->at)
    return;
  followed->reached.add();
  raise(followed->signal);
}

// The call behind it is made before the process comes to its end.
template <auto Entry, class Call>
struct wrapped;
template <auto Entry, class Result, class... Arguments>
struct wrapped<Entry, Result (*)(Arguments...)> {
  static inline Result (*real)(Arguments...) = nullptr;
  static Result call(Arguments... arguments) {
    const Result made = real(arguments...);
    const int code = errno;
    pass();
    errno = code;
    return made;
  }
};
template <auto Entry>
void wrap() {
  auto& entry = kernel().*Entry;
  using type = wrapped<Entry, std::remove_reference_t<decltype(entry)>>;
  type::real = entry;
  entry = &type::call;
}

void follow_no_more(link& opened, bool) {
  if (opened.kind() == link_kind::lanes)
    followed = nullptr;
}

void follow(call_plan& plan) {
  followed = &plan;
  wrap<&kernel_calls::memfd_create>();
  wrap<&kernel_calls::fallocate>();
  wrap<&kernel_calls::mmap>();
  wrap<&kernel_calls::socketpair>();
  wrap<&kernel_calls::epoll_ctl>();
  wrap<&kernel_calls::sendmsg>();
  wrap<&kernel_calls::recvmsg>();
}

class UnixLanesKill : public ::testing::Test {
 protected:
  struct memory {
    call_plan plan;
    test::shared_counter listening;
    test::shared_counter echoed;
  };

  std::unique_ptr<recorded_end> make(std::uint64_t id) {
    setting_.directory = directory_.path();
    channels_options wanted{.streams = stream_options_for(setting_),
                            .lanes = lane_options_for(setting_)};
    wanted.lanes.lanes = 2;  // one that is not free again is missed
    return std::make_unique<recorded_end>(std::make_unique<channels>(wanted), node_instance{id, 1});
  }
  [[nodiscard]] std::string address(const std::string& name) const {
    return "unix://" + directory_.path() + "/" + name;
  }
  // Nothing of an earlier round is left.
  void arrange(std::uint32_t at, int signal) {
    memory_->plan.at = at;
    memory_->plan.signal = signal;
    for (test::shared_counter* one :
         {&memory_->plan.calls, &memory_->plan.reached, &memory_->echoed})
      one->set(0);
  }

  // Echoes what comes. A victim does nothing more once its link is open.
  test::child_process listener(const std::string& name, bool victim) {
    const std::uint32_t before = memory_->listening.get();
    test::child_process made{[this, name, victim] {
      auto own = make(1);
      own->on_received = [](link& from, bytes_view m) { (void)send(from, as_text(m)); };
      own->on_opened = follow_no_more;
      own->listen(address(name));
      memory_->listening.add();
      if (victim)
        follow(memory_->plan);
      for (;;) {
        own->poll();
        sleep_all({own.get()});
      }
      return 0;
    }};
    EXPECT_TRUE(memory_->listening.wait(before + 1));
    return made;
  }
  // Dials until there is a link over lanes, and has something echoed there.
  static void talk(recorded_end& own, const std::string& to) {
    const auto deadline = now() + 30s;
    // Another link of its may open meanwhile.
    const auto is_there = [&] { return own.last != nullptr && own.last->peer() == to; };
    const auto has_ended = [&, before = own.count("closed")](std::size_t tries) {
      return own.count("closed") == before + tries;
    };
    for (std::size_t tries = 0;; ++tries) {
      test::require(now() < deadline, "there is no lane");
      own.last = nullptr;
      own.connect(to);
      test::require(turn_until({&own}, [&] { return is_there() || has_ended(tries + 1); }),
                    "it neither opens nor ends");
      if (is_there() && own.last->kind() == link_kind::lanes)
        break;
      if (is_there())
        own.last->abort();
      test::require(turn_until({&own}, [&] { return has_ended(tries + 1); }), "it does not end");
    }
    echo(own, *own.last);
  }
  static void echo(recorded_end& own, link& way) {
    const std::size_t before = echoes(own);
    test::require(static_cast<bool>(send(way, "echo")), "it takes nothing");
    test::require(turn_until({&own}, [&] { return echoes(own) == before + 1; }),
                  "nothing comes back");
  }
  static std::size_t echoes(const recorded_end& own) {
    return static_cast<std::size_t>(std::count(own.messages.begin(), own.messages.end(), "echo"));
  }
  // Dials the victim, and asks whether it lives once the link is open.
  std::unique_ptr<recorded_end> dial_victim() {
    auto own = make(2);
    own->on_opened = [this](link& at, bool) {
      if (at.peer() == address("victim"))
        (void)send(at, "alive?");
    };
    own->connect(address("victim"));
    return own;
  }
  test::child_process dialler(bool victim) {
    return test::child_process{[this, victim] {
      auto own = make(2);
      own->on_opened = follow_no_more;
      if (victim)
        follow(memory_->plan);
      talk(*own, address("socket"));
      memory_->echoed.add();
      return 0;
    }};
  }
  // More than there are lanes, one after the other.
  void others_are_served(recorded_end& own) {
    for (int i = 0; i != 3; ++i) {
      const std::uint32_t before = memory_->echoed.get();
      test::child_process other = dialler(false);
      ASSERT_TRUE(turn_until({&own}, [&] { return memory_->echoed.get() == before + 1; }));
      EXPECT_EQ(other.wait_end(), "exit 0");
    }
  }
  std::unique_ptr<recorded_end> echoing_listener() {
    auto own = make(1);
    own->on_received = [](link& from, bytes_view m) { (void)send(from, as_text(m)); };
    own->listen(address("socket"));
    return own;
  }

  test::scratch_directory directory_;
  link_setting setting_;
  test::shared<memory> memory_;
};

// Fewer calls than that, and the sweep has missed what it is for.
constexpr std::uint32_t least_calls = 10;

TEST_F(UnixLanesKill, AListenerKilledAtAnyCallEndsItsLinkFork) {
  for (std::uint32_t at = 1;; ++at) {
    SCOPED_TRACE(at);
    arrange(at, SIGKILL);
    test::child_process victim = listener("victim", true);
    auto own = dial_victim();
    ASSERT_TRUE(turn_until({own.get()},
                           [&] { return own->count("closed") == 1 || !own->messages.empty(); }));
    if (memory_->plan.reached.get() == 0) {
      EXPECT_GE(at, least_calls);
      return;
    }
    EXPECT_EQ(own->find("closed").why, errc::peer_closed) << own->find("closed").text;
    EXPECT_EQ(victim.wait_end(), "signal 9");
    test::child_process other = listener("socket", false);
    for (int i = 0; i != 2; ++i)  // as many as there are lanes
      talk(*own, address("socket"));
  }
}

TEST_F(UnixLanesKill, AListenerStoppedAtAnyCallGoesOnFork) {
  for (std::uint32_t at = 1;; ++at) {
    SCOPED_TRACE(at);
    arrange(at, SIGSTOP);
    test::child_process victim = listener("victim", true);
    test::child_process other = listener("socket", false);
    auto own = dial_victim();
    ASSERT_TRUE(turn_until(
        {own.get()}, [&] { return memory_->plan.reached.get() == 1 || !own->messages.empty(); }));
    if (memory_->plan.reached.get() == 0) {
      EXPECT_GE(at, least_calls);
      return;
    }
    ASSERT_TRUE(victim.wait_stopped());
    talk(*own, address("socket"));
    victim.resume();
    ASSERT_TRUE(turn_until({own.get()}, [&] {
      return std::count(own->messages.begin(), own->messages.end(), "alive?") == 1;
    }));
    EXPECT_EQ(own->count("closed"), 0U);
  }
}

TEST_F(UnixLanesKill, ADiallerKilledAtAnyCallIsItsOwnLossAloneFork) {
  auto own = echoing_listener();
  for (std::uint32_t at = 1;; ++at) {
    SCOPED_TRACE(at);
    arrange(at, SIGKILL);
    test::child_process victim = dialler(true);
    ASSERT_TRUE(turn_until({own.get()}, [&] {
      return memory_->plan.reached.get() == 1 || memory_->echoed.get() == 1;
    }));
    if (memory_->plan.reached.get() == 0) {
      EXPECT_GE(at, least_calls);
      EXPECT_EQ(victim.wait_end(), "exit 0");
      return;
    }
    EXPECT_EQ(victim.wait_end(), "signal 9");
    others_are_served(*own);
    ASSERT_TRUE(
        turn_until({own.get()}, [&] { return own->count("closed") == own->count("accepted"); }));
  }
}

TEST_F(UnixLanesKill, ADiallerStoppedAtAnyCallDelaysNobodyAndGoesOnFork) {
  auto own = echoing_listener();
  for (std::uint32_t at = 1;; ++at) {
    SCOPED_TRACE(at);
    arrange(at, SIGSTOP);
    test::child_process victim = dialler(true);
    ASSERT_TRUE(turn_until({own.get()}, [&] {
      return memory_->plan.reached.get() == 1 || memory_->echoed.get() == 1;
    }));
    if (memory_->plan.reached.get() == 0) {
      EXPECT_GE(at, least_calls);
      EXPECT_EQ(victim.wait_end(), "exit 0");
      return;
    }
    ASSERT_TRUE(victim.wait_stopped());
    const std::uint32_t before = memory_->echoed.get();
    others_are_served(*own);
    victim.resume();
    ASSERT_TRUE(turn_until({own.get()}, [&] { return memory_->echoed.get() == before + 4; }));
    EXPECT_EQ(victim.wait_end(), "exit 0");
  }
}

}  // namespace
}  // namespace atbus::detail
