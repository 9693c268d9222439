// A sender and a receiver that talk through sockets, while each system call fails
// once, with each error that a kernel answers it with, or moves less than it was asked to.
//
// Whatever fails: nobody waits for ever and nobody spins, messages arrive in order and at most once,
// those that were accepted and are missing went down with a connection that the sender knows to be
// lost, the incarnation goes on, and nothing is left of it: no name, no descriptor.
#include <poll.h>

#include <ctime>
#include <ostream>
#include <set>
#include <stdexcept>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "fault/channel/failing_kernel.h"
#include "fault/channel/failure_sweep.h"
#include "numbered_message.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus::test::stream_kernel_failure {
namespace {

constexpr std::uint64_t message_limit = 1000;
struct lifecycle_kind {
  const char* name;
  bool local;
  bool lanes;
  bool dials_again;  // the sender does, else its user opens another
  bool on_loop;      // both sleep in one loop, for as long as they say
};

void PrintTo(const lifecycle_kind& kind, std::ostream* out) {
  *out << kind.name;
}

class instance {
 public:
  explicit instance(const lifecycle_kind& kind) : kind_(kind) {
    address_ = !kind.local  ? "ipv6://::1:0"
               : kind.lanes ? "unix://" + directory_.path() + "/life"
                            : "unix://" + directory_.path() + "/life?shm=0";
  }

  lifecycle_report run() {
    open_receiver();
    open_sender();
    for (int i = 0; i < 3; ++i)
      carry();
    fill();
    carry();
    const std::string where = in_->address();
    in_.reset();
    address_ = where;
    open_receiver();
    const std::uint64_t generation = generation_;
    until([&] { return generation_ != generation; }, "the sender does not notice");
    ++restarts_;
    carry();
    carry();
    close_sender(patience);
    until([&] { return in_->stats().connections == 0; }, "a closed sender stays connected");
    in_.reset();
    return {.missing = next_ - 1 - arrived_.size() - given_back_.size(),
            .lost_connections = lost_connections(),
            .files = directory_.files()};
  }

  // One message on its way while the kernel has no memory for this call; how many calls of all kinds
  // that takes.
  unsigned go_short_of(const failing_kernel& kernel, const failing_entry& entry, int code) {
    open_receiver();
    open_sender();
    carry();
    kernel.arm(entry, 1, code, static_cast<unsigned>(-1));
    bool sent = send();  // or refused, on the way into a lane
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(out_->flush(5ms) == errc::peer_closed);
      (void)in_->wait(5ms);
      in_->poll([this](const received_message& m) { take(m); });
    }
    const unsigned calls = failing_kernel::calls();
    EXPECT_TRUE(entry.record->failed) << "nobody made such a call";
    kernel.restart();
    until(
        [&] {
          sent = sent || send();
          return sent && newest_is_there();
        },
        "it does not arrive when there is memory again");
    close_sender(patience);
    return calls;
  }

  // Connections that ended, but for those that the script ends.
  [[nodiscard]] std::uint64_t lost_connections() const { return generation_ - restarts_; }

 private:
  void open_receiver() {
    receiver_options options;
    options.lanes = 2;
    options.lane_size = 4096;
    options.message_limit = message_limit;
    options.socket.receive_buffer = 4096;
    options.spin = 0ns;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!in_ && std::chrono::steady_clock::now() < end) {
      auto opened = receiver::open(address_, options);
      if (opened) {
        in_ = std::move(*opened);
      } else {
        expect_address(opened.error());
      }
    }
    need(in_.has_value(), "the receiver can't be opened");
    in_->on_problem([this](const error& e) { expect_address(e); });
  }

  void open_sender() {
    sender_options options;
    options.message_limit = message_limit;
    options.send_buffer_number = 1;          // as few as the longest message needs
    options.socket.send_buffer = 16 * 1024;  // room for a goodbye in crumbs
    options.spin = 0ns;
    options.connect_timeout = patience;
    if (kind_.dials_again)
      options.reconnect_min = options.reconnect_max = 100us;
    for (int tries = 0; !out_ && tries < 3; ++tries) {
      auto opened = sender::open(in_->address(), options);
      if (opened)
        out_ = std::move(*opened);
      else
        expect_address(opened.error());
    }
    need(out_.has_value(), "the sender can't be opened");
  }

  // What was not written is given back, in order.
  void close_sender(std::chrono::nanoseconds linger) {
    reconnects_before_ += out_->stats().reconnects;
    const std::size_t count = out_->close(linger, [&](bytes_view m) { give_back(m); });
    EXPECT_LE(count, given_back_.size());
    out_.reset();
  }
  void give_back(bytes_view message) {
    message_stamp stamp;
    ASSERT_TRUE(read_message(message, stamp));
    EXPECT_TRUE(given_back_.empty() || given_back_.back() < stamp.number);
    given_back_.push_back(stamp.number);
  }

  // One message is accepted; false: it is not, for now.
  bool send() {
    std::byte message[500];
    write_message(message, 1, next_);
    const status sent = out_->send(message);
    if (sent) {
      ++next_;
      return true;
    }
    look_at(sent);
    return false;
  }
  // Who does not dial again is told that its connection is lost, and opens another.
  void look_at(const status& s) {
    if (s || s == errc::would_block)
      return;
    EXPECT_FALSE(kind_.dials_again) << s.text();
    ++opened_again_;
    close_sender(0ns);
    open_sender();
  }

  // Looks at both, and sleeps if neither has anything to do.
  void turn() {
    if (kind_.on_loop) {
      sleep_in_loop();
    } else {
      look_at(out_->flush());
      if (!kind_.dials_again && !out_->receiver_alive())
        look_at(errc::peer_closed);
      (void)in_->wait(200us);
    }
    (void)out_->poll_writable();
    in_->poll([this](const received_message& m) { take(m); });
    generation_ =
        std::max(generation_, opened_again_ + reconnects_before_ + out_->stats().reconnects);
  }
  void sleep_in_loop() {
    const bool in_sleeps = in_->prepare_sleep();
    const bool out_sleeps = out_->prepare_sleep();
    if (in_sleeps) {
      std::chrono::nanoseconds longest = patience;
      for (const auto most : {in_->longest_sleep(), out_->longest_sleep()})
        longest = most < 0ns ? longest : std::min(longest, most);
      pollfd both[] = {{in_->descriptor(), POLLIN, 0}, {out_->descriptor(), POLLIN, 0}};
      const timespec timeout{.tv_sec = longest / 1s, .tv_nsec = (longest % 1s).count()};
      const int woken = ::ppoll(both, out_sleeps ? 2 : 1, &timeout, nullptr);
      need(woken > 0 || longest < patience, "nobody wakes them");
      in_->finish_sleep();
    }
    if (out_sleeps)
      out_->finish_sleep();
  }

  template <class Done>
  void until(Done&& done, const char* what) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!done()) {
      need(std::chrono::steady_clock::now() < end, what);
      if (out_) {
        turn();
      } else {
        in_->poll([this](const received_message& m) { take(m); });
        (void)in_->wait(200us);
      }
    }
  }
  // Sends one and receives it. One that went down with its connection is followed by another.
  void carry() {
    std::uint64_t generation = generation_;
    bool sent = false;
    until(
        [&] {
          if (generation_ != generation)
            sent = false;
          generation = generation_;
          if (!sent)
            sent = send();
          return sent && newest_is_there();
        },
        "a message does not arrive");
  }
  // Sends until nothing more is accepted, and receives all of it.
  void fill() {
    while (send())
      need(next_ < 5000, "a send buffer without bottom");
    const status waited = out_->wait_writable(100us);
    if (!kind_.dials_again && !out_->receiver_alive())
      look_at(waited);
    until([&] { return send(); }, "no room again");
    const std::uint64_t generation = generation_;
    until([&] { return newest_is_there() || generation_ != generation; }, "some do not arrive");
  }

  // Connections take turns, so a new one's first may come before an old one's last.
  void take(const received_message& message) {
    message_stamp stamp;
    ASSERT_TRUE(read_message(message.bytes, stamp)) << "bytes that nobody sent";
    EXPECT_GT(stamp.number, latest_[message.lane]) << "out of order";
    latest_[message.lane] = stamp.number;
    EXPECT_TRUE(arrived_.insert(stamp.number).second) << stamp.number << " came twice";
    EXPECT_FALSE(std::binary_search(given_back_.begin(), given_back_.end(), stamp.number))
        << "given back and delivered";
  }
  [[nodiscard]] bool newest_is_there() const { return arrived_.contains(next_ - 1); }

  // Ends this incarnation.
  static void need(bool holds, const char* what) {
    if (!holds)
      throw std::runtime_error{what};
  }
  // Errors name the channel, so that a person knows what they are about.
  void expect_address(const error& e) const {
    EXPECT_NE(e.text().find(kind_.local ? directory_.path() : "ipv6://[::1]"), std::string::npos)
        << e.text();
  }

  lifecycle_kind kind_;
  scratch_directory directory_;
  std::string address_;
  std::optional<receiver> in_;
  std::optional<sender> out_;
  std::uint64_t next_ = 1;
  std::set<std::uint64_t> arrived_;
  std::map<std::uint32_t, std::uint64_t> latest_;  // of each connection
  std::vector<std::uint64_t> given_back_;
  std::uint64_t restarts_ = 0;
  std::uint64_t opened_again_ = 0;
  std::uint64_t reconnects_before_ = 0;
  std::uint64_t generation_ = 0;  // so many connections have followed the first
};

class StreamLifecycle : public ::testing::TestWithParam<lifecycle_kind> {
 protected:
  failing_kernel kernel_;
  lifecycle_script live_ = [](const std::function<void()>& begin) {
    instance one{GetParam()};
    begin();
    return one.run();
  };
};

TEST_P(StreamLifecycle, SurvivesEachFailureOfEachCall) {
  survive_each_failure(kernel_, live_);
}

TEST_P(StreamLifecycle, GoesOnWhenCallsMoveLittle) {
  survive_short_calls(kernel_, live_);
}

TEST_P(StreamLifecycle, SleepsUntilTheKernelHasMemory) {
  live_without_memory([this](const failing_entry& entry, int code) {
    instance one{GetParam()};
    const unsigned calls = one.go_short_of(kernel_, entry, code);
    EXPECT_EQ(one.lost_connections(), 0U);
    return calls;
  });
}

constexpr lifecycle_kind kinds[] = {
    {.name = "Ipv6", .local = false, .lanes = false, .dials_again = true, .on_loop = true},
    {.name = "Unix", .local = true, .lanes = false, .dials_again = false, .on_loop = false},
    {.name = "Lanes", .local = true, .lanes = true, .dials_again = false, .on_loop = false},
    {.name = "LanesDialsAgain",
     .local = true,
     .lanes = true,
     .dials_again = true,
     .on_loop = false},
};

INSTANTIATE_TEST_SUITE_P(All, StreamLifecycle, ::testing::ValuesIn(kinds),
                         [](const auto& of) { return std::string{of.param.name}; });

}  // namespace
}  // namespace atbus::test::stream_kernel_failure
