// Each system call of a channel fails once, with each error that a kernel answers it with.
//
// Whatever fails: the operation succeeds or says why not, nobody waits for ever for what the failed
// call was to bring, no accepted message is lost without a report, and afterwards nothing is left:
// no name, no lock, no descriptor.
#include <poll.h>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "failing_kernel.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus::test::kernel_failure {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t lanes = 2;

bool is_readable(int fd, std::chrono::nanoseconds longest) {
  pollfd interest{.fd = fd, .events = POLLIN, .revents = 0};
  const auto ms = std::chrono::duration_cast<milliseconds>(longest).count();
  return ::poll(&interest, 1, static_cast<int>(ms)) == 1;
}

// A receiver, a sender, and what was said between them.
class pair_under_test {
 public:
  explicit pair_under_test(bool in_process) : address_(in_process ? "mem://pair" : "shm://pair") {}
  pair_under_test(const pair_under_test&) = delete;
  pair_under_test& operator=(const pair_under_test&) = delete;
  ~pair_under_test() {
    if (in)
      (void)in->remove();
  }

  std::optional<receiver> in;
  std::optional<sender> out;

  error open_receiver() {
    receiver_options options;
    options.directory = directory_.path();
    options.spin = std::chrono::nanoseconds{0};
    auto opened = receiver::open(address_ + "?lanes=2&lane_size=4096&message_limit=1000", options);
    if (!opened)
      return opened.error();
    in = std::move(*opened);
    in->on_problem([this](const error& e) { problems_.push_back(e.text()); });
    return {};
  }

  result<sender> new_sender() {
    sender_options options;
    options.directory = directory_.path();
    options.spin = std::chrono::nanoseconds{0};
    return sender::open(address_, options);
  }
  error open_sender() {
    auto opened = new_sender();
    if (!opened)
      return opened.error();
    out = std::move(*opened);
    return {};
  }

  status send() {
    std::byte message[100]{};
    std::memcpy(message, &accepted_, sizeof accepted_);
    const status s = out->send(message);
    if (s)
      ++accepted_;
    return s;
  }
  void fill() {
    while (send()) {
    }
  }

  std::size_t poll() {
    const std::size_t before = handled_;
    in->poll([this](std::span<const std::byte> m) {
      std::uint32_t number = 0;
      std::memcpy(&number, m.data(), sizeof number);
      EXPECT_EQ(number, handled_) << "lost, doubled or out of order";
      ++handled_;
    });
    return handled_ - before;
  }

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::vector<std::string> files() const { return directory_.files(); }
  // What was sent is not to be expected any more.
  void forget_messages() { accepted_ = handled_ = 0; }

  // Everything works, whatever happened before; and then nothing is left.
  void expect_all_is_well() {
    if (!in) {
      const error e = open_receiver();
      ASSERT_TRUE(e) << e.text();
    }
    expect_delivery();
    out.reset();
    expect_all_lanes_usable();
    const error e = in->remove();
    EXPECT_TRUE(e) << e.text();
    in.reset();
    EXPECT_TRUE(files().empty()) << files().front();
  }

 private:
  void expect_delivery() {
    if (out) {
      const status sent = send();
      EXPECT_TRUE(sent || sent == errc::would_block) << sent.text();
    }
    const auto end = std::chrono::steady_clock::now() + patience;
    while (handled_ < accepted_ && std::chrono::steady_clock::now() < end) {
      if (poll() == 0)
        (void)in->wait(milliseconds{1});
    }
    EXPECT_EQ(handled_, accepted_) << "accepted and never delivered";
    EXPECT_EQ(in->stats().quarantined, 0) << "no process has written what is impossible";
    forget_messages();
  }

  void expect_all_lanes_usable() {
    std::vector<sender> all;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (all.size() < lanes && std::chrono::steady_clock::now() < end) {
      if (auto opened = new_sender()) {
        all.push_back(std::move(*opened));
      } else {
        EXPECT_EQ(opened.error().code(), errc::no_free_lane) << opened.error().text();
        // A lane is freed when its sender's end was noticed.
        (void)in->wait(milliseconds{1});
        in->poll([](std::span<const std::byte>) {});
      }
    }
    EXPECT_EQ(all.size(), lanes) << "a lane stayed taken";
    for (sender& one : all) {
      const status s = one.send(std::vector<std::byte>(10));
      EXPECT_TRUE(s) << s.text();
    }
    std::size_t got = 0;
    while (got < all.size() && std::chrono::steady_clock::now() < end) {
      got += in->poll([](std::span<const std::byte>) {});
      if (got < all.size())
        (void)in->wait(milliseconds{1});
    }
    EXPECT_EQ(got, all.size());
  }

  std::string address_;
  scratch_directory directory_;
  std::vector<std::string> problems_;
  std::uint32_t accepted_ = 0;
  std::uint32_t handled_ = 0;
};

using world = pair_under_test;

struct operation {
  const char* name;
  bool in_process = false;
  void (*arrange)(world& w) = nullptr;
  // Runs while a call fails.
  error (*act)(world& w) = nullptr;
  // Afterwards, before everything else is tried.
  void (*check)(world& w, const error& e) = [](world&, const error&) {};
};

void open_both(world& w) {
  ASSERT_TRUE(w.open_receiver());
  ASSERT_TRUE(w.open_sender());
}
void connect_both(world& w) {
  open_both(w);
  ASSERT_TRUE(w.send());
  ASSERT_EQ(w.poll(), 1U);
  (void)w.in->wait(milliseconds{1});
}
void leave_messages(world& w) {
  open_both(w);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(w.send());
  w.in.reset();
}
// Errors name the channel, so that a person knows what they are about.
void expect_address(world& w, const error& e) {
  if (!e) {
    EXPECT_NE(e.text().find(w.address()), std::string::npos) << e.text();
  }
}
void expect_nothing_made(world& w, const error& e) {
  expect_address(w, e);
  if (!e) {
    EXPECT_TRUE(w.files().empty()) << w.files().front();
  }
}
// The receiver is asleep, a message is there: something wakes it.
void expect_woken(world& w, const error& e) {
  EXPECT_TRUE(e) << e.text();
  const auto longest = w.in->longest_sleep();
  EXPECT_TRUE(longest >= milliseconds{0} || is_readable(w.in->descriptor(), patience))
      << "nobody wakes the receiver";
  w.in->finish_sleep();
}
// The sender is asleep, there is room: something wakes it.
void expect_sender_woken(world& w) {
  const auto longest = w.out->longest_sleep();
  EXPECT_TRUE(longest >= milliseconds{0} || is_readable(w.out->descriptor(), patience))
      << "nobody wakes the sender";
  w.out->finish_sleep();
}
// Removed, if that was said, for everybody.
void expect_removed(world& w, const error& e) {
  expect_address(w, e);
  if (!e)
    return;
  EXPECT_TRUE(w.files().empty()) << "still there: " << w.files().front();
  const error found = w.open_sender();
  EXPECT_EQ(found.code(), errc::not_found) << found.text();
}
void expect_time_out(world&, const error& e) {
  EXPECT_TRUE(e || e == errc::timed_out) << e.text();
}

const operation operations[] = {
    {.name = "OpenReceiver",
     .arrange = [](world&) {},
     .act = [](world& w) { return w.open_receiver(); },
     .check = expect_nothing_made},
    {.name = "OpenInProcessReceiver",
     .in_process = true,
     .arrange = [](world&) {},
     .act = [](world& w) { return w.open_receiver(); },
     .check = expect_nothing_made},
    {.name = "TakeOver",
     .arrange = leave_messages,
     .act = [](world& w) { return w.open_receiver(); },
     .check = expect_address},
    {.name = "TakeOverInProcess",
     .in_process = true,
     .arrange = leave_messages,
     .act = [](world& w) { return w.open_receiver(); },
     .check = expect_address},
    {.name = "OpenSender",
     .arrange = [](world& w) { ASSERT_TRUE(w.open_receiver()); },
     .act = [](world& w) { return w.open_sender(); },
     .check = expect_address},
    {.name = "OpenInProcessSender",
     .in_process = true,
     .arrange = [](world& w) { ASSERT_TRUE(w.open_receiver()); },
     .act = [](world& w) { return w.open_sender(); },
     .check = expect_address},
    {.name = "OpenSenderWithoutReceiver",
     .arrange =
         [](world& w) {
           ASSERT_TRUE(w.open_receiver());
           w.in.reset();
         },
     .act = [](world& w) { return w.open_sender(); },
     .check = expect_address},
    {.name = "FirstPoll",
     .arrange =
         [](world& w) {
           open_both(w);
           for (int i = 0; i < 3; ++i)
             ASSERT_TRUE(w.send());
         },
     .act =
         [](world& w) {
           w.poll();
           return error{};
         }},
    {.name = "WaitForASender",
     .arrange = [](world& w) { ASSERT_TRUE(w.open_receiver()); },
     .act =
         [](world& w) {
           const error opened = w.open_sender();
           if (!opened)
             return opened;
           return error{w.in->wait(milliseconds{1})};
         },
     .check = [](world&, const error&) {}},
    {.name = "WaitAtAnIdleChannel",
     .arrange =
         [](world& w) {
           connect_both(w);
           ASSERT_TRUE(w.send());
           ASSERT_EQ(w.poll(), 1U);  // so that the wait parks a lane
         },
     .act = [](world& w) { return error{w.in->wait(milliseconds{1})}; },
     .check = expect_time_out},
    {.name = "WaitAfterASendersEnd",
     .arrange =
         [](world& w) {
           connect_both(w);
           w.out.reset();
         },
     .act = [](world& w) { return error{w.in->wait(milliseconds{1})}; },
     .check = expect_time_out},
    {.name = "SendToASleepingReceiver",
     .arrange =
         [](world& w) {
           connect_both(w);
           ASSERT_TRUE(w.in->prepare_sleep());
         },
     .act = [](world& w) { return error{w.send()}; },
     .check = expect_woken},
    {.name = "SendToASleepingSuccessor",
     .arrange =
         [](world& w) {
           connect_both(w);
           w.in.reset();
           ASSERT_TRUE(w.open_receiver());
           ASSERT_TRUE(w.in->prepare_sleep());
         },
     .act = [](world& w) { return error{w.send()}; },
     .check = expect_woken},
    {.name = "WaitForRoom",
     .arrange =
         [](world& w) {
           connect_both(w);
           w.fill();
         },
     .act = [](world& w) { return error{w.out->wait_writable(milliseconds{1})}; },
     .check = expect_time_out},
    {.name = "WaitForRoomWithoutReceiver",
     .arrange =
         [](world& w) {
           connect_both(w);
           w.fill();
           w.in.reset();
         },
     .act = [](world& w) { return error{w.out->wait_writable(milliseconds{1})}; },
     .check = expect_time_out},
    {.name = "MakeRoomForASleepingSender",
     .arrange =
         [](world& w) {
           connect_both(w);
           w.fill();
           ASSERT_TRUE(w.out->prepare_sleep());
         },
     .act =
         [](world& w) {
           w.poll();
           return error{};
         },
     .check = [](world& w, const error&) { expect_sender_woken(w); }},
    {.name = "SleepUntilThereIsRoom",
     .arrange =
         [](world& w) {
           connect_both(w);
           w.fill();
         },
     .act =
         [](world& w) {
           (void)w.out->prepare_sleep();
           return error{};
         },
     .check =
         [](world& w, const error&) {
           w.poll();
           expect_sender_woken(w);
         }},
    {.name = "SleepUntilThereIsAReceiver",
     .arrange =
         [](world& w) {
           connect_both(w);
           w.fill();
           w.in.reset();
         },
     .act =
         [](world& w) {
           (void)w.out->prepare_sleep();
           return error{};
         },
     .check =
         [](world& w, const error&) {
           ASSERT_TRUE(w.open_receiver());
           w.poll();
           expect_sender_woken(w);
         }},
    {.name = "TakeBack",
     .arrange = leave_messages,
     .act =
         [](world& w) {
           auto taken = w.out->take_back([](bytes_view, errc) {});
           if (taken)
             w.forget_messages();
           return taken ? error{} : taken.error();
         },
     .check = expect_address},
    {.name = "Remove",
     .arrange = open_both,
     .act =
         [](world& w) {
           const error e = w.in->remove();
           w.in.reset();
           w.out.reset();
           return e;
         },
     .check = expect_removed},
    {.name = "RemoveInProcess",
     .in_process = true,
     .arrange = open_both,
     .act =
         [](world& w) {
           const error e = w.in->remove();
           w.in.reset();
           w.out.reset();
           return e;
         },
     .check = expect_removed},
    {.name = "CloseBoth",
     .arrange = connect_both,
     .act =
         [](world& w) {
           w.out.reset();
           w.in.reset();
           return error{};
         }},
};

class FailingCall : public ::testing::TestWithParam<operation> {
 protected:
  // One run of the operation; `prepare` says what fails.
  void run(const std::function<void()>& prepare) {
    const operation& o = GetParam();
    const std::size_t descriptors = open_descriptors();
    {
      world w{o.in_process};
      o.arrange(w);
      if (HasFatalFailure())
        return;
      prepare();
      const error e = o.act(w);
      remember();
      kernel_.restart();
      o.check(w, e);
      w.expect_all_is_well();
    }
    EXPECT_EQ(open_descriptors(), descriptors) << "a descriptor was left open";
  }

  failing_kernel kernel_;
  std::vector<call_record> seen_;  // of the last `act`, in the order of the entries

 private:
  void remember() {
    seen_.clear();
    for (const failing_entry& entry : failing_entries())
      seen_.push_back(*entry.record);
  }
};

TEST(FailingKernel, HasARowForEachEntryOfTheTable) {
  EXPECT_EQ(failing_entries().size(), sizeof(detail::kernel_calls) / sizeof(void*));
}

TEST_P(FailingCall, LeavesNothingBehindAndIsReported) {
  run([this] { kernel_.restart(); });
  ASSERT_FALSE(HasFailure()) << "without any failing call";
  const std::vector<call_record> counted = seen_;
  unsigned runs = 0;
  unsigned failures = 0;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const failing_entry& entry = failing_entries()[i];
    for (unsigned nth = 1; nth <= counted[i].calls; ++nth) {
      for (const int code : entry.codes) {
        SCOPED_TRACE(std::string{entry.name} + ", call " + std::to_string(nth) + ": " +
                     strerrorname_np(code));
        run([&] { kernel_.arm(entry, nth, code); });
        if (HasFatalFailure())
          return;
        failures += seen_[i].failed ? 1 : 0;
        ++runs;
      }
    }
  }
  EXPECT_NE(runs, 0U) << "no call to fail";
  // Who waits calls now more often and now less; most calls are made in every run.
  EXPECT_GT(failures, runs / 2) << "of " << runs << " runs";
}

INSTANTIATE_TEST_SUITE_P(All, FailingCall, ::testing::ValuesIn(operations),
                         [](const ::testing::TestParamInfo<operation>& of) {
                           return std::string{of.param.name};
                         });

}  // namespace
}  // namespace atbus::test::kernel_failure
