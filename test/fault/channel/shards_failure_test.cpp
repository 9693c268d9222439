// Each system call that shards make fails once, with each error that a kernel answers it with: they work all the same or
// say why not, lose no message of a lane, and leave nothing behind.
#include <unistd.h>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "failing_kernel.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus::test::shards_failure {
namespace {

constexpr std::uint32_t count = 3;

// One life of shards, and of senders that come one after the other.
class life {
 public:
  explicit life(std::string address) : address_(std::move(address)) {
    options_.directory = directory_.path();
    options_.spin = std::chrono::nanoseconds{0};
    from_.directory = directory_.path();
    from_.connect_timeout = std::chrono::nanoseconds{0};
    from_.linger = std::chrono::nanoseconds{0};
  }

  void live() {
    auto opened = receiver::open_shards(address_, count, options_);
    if (!opened) {
      EXPECT_NE(opened.error().text(), "");
      return;
    }
    shards_ = std::move(*opened);
    for (int i = 0; i < 4; ++i) {
      if (auto out = sender::open(shards_[0].address(), from_))
        outs_.push_back(std::move(*out));
      for (sender& each : outs_)
        send(each);
      turn();
    }
  }
  // What is to hold once nothing fails any more.
  void check(bool lanes) {
    if (shards_.empty()) {
      auto opened = receiver::open_shards(address_, count, options_);
      ASSERT_TRUE(opened) << opened.error().text();
      shards_ = std::move(*opened);
    }
    auto last = sender::open(shards_[0].address(), from_);
    ASSERT_TRUE(last) << last.error().text();
    const std::size_t before = handled_;
    std::byte message[8]{};
    EXPECT_TRUE(last->send(message));
    const auto wanted = [&] { return lanes ? handled_ > accepted_ : handled_ > before; };
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!wanted() && std::chrono::steady_clock::now() < end) {
      (void)last->flush();
      for (sender& each : outs_)
        (void)each.flush();
      turn();
    }
    EXPECT_TRUE(wanted()) << accepted_ << " accepted, " << handled_ << " handled";
    outs_.clear();
    last->close();
    for (receiver& each : shards_) {
      const error e = each.remove();
      EXPECT_TRUE(e) << e.text();
    }
    shards_.clear();
    EXPECT_TRUE(directory_.files().empty()) << directory_.files().front();
  }

 private:
  void send(sender& out) {
    std::byte message[8]{};
    if (out.send(message))
      ++accepted_;
    (void)out.flush();
  }
  void turn() {
    for (receiver& each : shards_) {
      (void)each.wait(std::chrono::microseconds{100});
      (void)each.poll([this](bytes_view) { ++handled_; });
    }
  }

  scratch_directory directory_;
  std::string address_;
  receiver_options options_;
  sender_options from_;
  std::vector<receiver> shards_;
  std::vector<sender> outs_;
  std::size_t accepted_ = 0;
  std::size_t handled_ = 0;
};

class ShardFailure : public ::testing::TestWithParam<const char*> {};

TEST_P(ShardFailure, OfEachCallIsSurvived) {
  const std::string kind = GetParam();
  const bool lanes = kind == "shm" || kind == "mem";
  int lives = 0;
  const auto address = [&]() -> std::string {
    const std::string name = std::to_string(getpid()) + "-" + std::to_string(++lives);
    if (kind == "shm")
      return "shm://shards?lanes=5&lane_size=4096&message_limit=1000";
    if (kind == "mem")
      return "mem://shards-" + name + "?lanes=5&lane_size=4096&message_limit=1000";
    return kind == "ipv6" ? "ipv6://[::1]:0" : "unix://@shards-" + name;
  };
  const failing_kernel kernel;
  {
    life usual{address()};
    usual.live();
    usual.check(lanes);
  }
  const std::size_t descriptors = open_descriptors();
  for (const failing_entry& entry : failing_entries()) {
    std::vector<int> codes = entry.codes;
    if (!lanes)
      codes.insert(codes.end(), entry.more_codes.begin(), entry.more_codes.end());
    for (const int code : codes) {
      bool failed = true;
      for (unsigned nth = 1; failed; nth += nth < 12 ? 1 : 7) {
        const std::string what =
            std::string{entry.name} + " " + std::to_string(nth) + ": " + std::strerror(code);
        {
          life one{address()};
          kernel.restart();
          kernel.arm(entry, nth, code);
          one.live();
          failed = entry.record->failed;
          kernel.restart();
          one.check(lanes);
        }
        EXPECT_EQ(open_descriptors(), descriptors) << what;
        ASSERT_FALSE(HasFailure()) << what;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kind, ShardFailure, ::testing::Values("shm", "mem", "ipv6", "unix"),
                         [](const auto& of) { return std::string{of.param}; });

}  // namespace
}  // namespace atbus::test::shards_failure
