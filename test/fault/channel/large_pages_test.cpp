// Kernels whose pages have 16 or 64 KiB, as many of aarch64: channels through shared memory work there
// as they do with pages of 4 KiB.
//
// Large pages are played by `failing_kernel`, in all processes of a test.
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "child_process.h"
#include "failing_kernel.h"
#include "numbered_message.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus::test::large_pages {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t messages = 200;
constexpr std::size_t message_size = 700;
constexpr std::uint32_t lanes = 3;
// Senders at a time: each has a lane of its own.
constexpr std::uint32_t senders = 2;

unsigned calls_of(std::string_view name) {
  const auto all = failing_entries();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const failing_entry& entry) { return entry.name == name; });
  return found->record->calls;
}

class LargePages : public ::testing::TestWithParam<std::size_t> {
 protected:
  LargePages() { kernel_.enlarge_pages(GetParam()); }

  receiver open_receiver(const std::string& address, std::uint64_t lane_size = 4096) {
    receiver_options options;
    options.directory = directory_.path();
    options.lanes = lanes;
    options.lane_size = lane_size;
    options.message_limit = 1000;
    auto opened = receiver::open(address, options);
    if (!opened)
      throw std::runtime_error{opened.error().text()};
    return std::move(*opened);
  }
  result<sender> open_sender(const std::string& address) const {
    sender_options options;
    options.directory = directory_.path();
    options.message_limit = 1000;
    return sender::open(address, options);
  }
  // In a process of its own; what it has sent through a lane is no system call.
  child_process start_sender(const std::string& address, std::uint32_t from, bool ends_in_lane) {
    return child_process{[this, address, from, ends_in_lane] {
      auto out = required(open_sender(address));
      for (std::uint64_t i = 1; i <= messages; ++i) {
        send(*out, from, i);
        // While it moves on, one at a time.
        if (ends_in_lane && i <= 5)
          require(handled_->at(from).wait(static_cast<std::uint32_t>(i)), "not handled");
      }
      if (ends_in_lane) {
        const unsigned before = calls_of("sendmsg");
        send(*out, from, messages + 1);
        require(calls_of("sendmsg") == before, "it stays at the socket");
      } else {
        send(*out, from, messages + 1);
      }
      return 0;
    }};
  }
  static void send(sender& out, std::uint32_t from, std::uint64_t i) {
    std::byte message[message_size];
    write_message(message, from, i);
    status sent = out.send(message);
    while (sent == errc::would_block) {
      require(static_cast<bool>(out.wait_writable(patience)), "no room");
      sent = out.send(message);
    }
    require(static_cast<bool>(sent), sent.text());
  }
  // All that those senders send, in order.
  void receive(receiver& in) {
    std::vector<std::uint64_t> last(senders, 0);
    std::uint64_t count = 0;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (count < senders * (messages + 1) && std::chrono::steady_clock::now() < end) {
      (void)in.wait(milliseconds{100});
      in.poll([&](bytes_view m) {
        message_stamp stamp;
        ASSERT_TRUE(read_message(m, stamp));
        EXPECT_EQ(stamp.number, ++last.at(stamp.sender));
        handled_->at(stamp.sender).add();
        ++count;
      });
    }
    EXPECT_EQ(count, senders * (messages + 1));
  }
  void carry_messages(const std::string& address, bool ends_in_lane) {
    receiver in = open_receiver(address);
    child_process processes[senders];
    for (std::uint32_t i = 0; i < senders; ++i)
      processes[i] = start_sender(address, i, ends_in_lane);
    receive(in);
    for (child_process& one : processes)
      EXPECT_EQ(one.wait_end(), "exit 0");
    const error removed = in.remove();
    EXPECT_TRUE(removed) << removed.text();
  }
  [[nodiscard]] std::uint64_t bytes_in_use(const std::string& name) const {
    struct stat st {};
    EXPECT_EQ(::stat((directory_.path() + "/atbus-segment." + name).c_str(), &st), 0);
    return static_cast<std::uint64_t>(st.st_blocks) * 512;
  }

  failing_kernel kernel_;
  scratch_directory directory_;
  shared<std::array<shared_counter, senders>> handled_;
};

TEST_P(LargePages, CarryANamedSegmentBetweenProcesses) {
  carry_messages("shm://pages", false);
}

TEST_P(LargePages, CarryHandedLanesBetweenProcesses) {
  carry_messages("unix://@pages-" + std::to_string(getpid()), true);
}

TEST_P(LargePages, CarryASegmentWithinAProcess) {
  receiver in = open_receiver("mem://pages");
  auto out = open_sender("mem://pages");
  ASSERT_TRUE(out) << out.error().text();
  for (std::uint64_t i = 1; i <= messages; ++i) {
    send(*out, 0, i);
    EXPECT_EQ(in.poll([&](bytes_view m) {
      message_stamp stamp;
      ASSERT_TRUE(read_message(m, stamp));
      EXPECT_EQ(stamp.number, i);
    }),
              1U);
  }
  EXPECT_TRUE(in.remove());
}

TEST_P(LargePages, TakeOverASegmentWithItsMessages) {
  {
    receiver in = open_receiver("shm://pages");
    auto out = open_sender("shm://pages");
    ASSERT_TRUE(out) << out.error().text();
    send(*out, 0, 1);
  }
  receiver in = open_receiver("shm://pages");
  EXPECT_EQ(in.poll([](bytes_view) {}), 1U);
}

TEST_P(LargePages, GiveBackTheMemoryOfALaneWhoseSenderHasEnded) {
  receiver in = open_receiver("shm://pages");
  const std::uint64_t before = bytes_in_use("pages");
  {
    auto out = open_sender("shm://pages");
    ASSERT_TRUE(out) << out.error().text();
    send(*out, 0, 1);
    EXPECT_EQ(bytes_in_use("pages"), before + GetParam());
    EXPECT_EQ(in.poll([](bytes_view) {}), 1U);
  }
  const auto end = std::chrono::steady_clock::now() + patience;
  while (bytes_in_use("pages") != before && std::chrono::steady_clock::now() < end)
    (void)in.wait(milliseconds{1});
  EXPECT_EQ(bytes_in_use("pages"), before);
}

TEST_P(LargePages, TakeOnePageForALaneThatIsSmaller) {
  receiver in = open_receiver("shm://pages");
  std::vector<sender> all;
  const std::uint64_t before = bytes_in_use("pages");
  for (std::uint32_t i = 0; i < lanes; ++i) {
    auto out = open_sender("shm://pages");
    ASSERT_TRUE(out) << out.error().text();
    all.push_back(std::move(*out));
  }
  EXPECT_EQ(bytes_in_use("pages"), before + lanes * GetParam());
}

INSTANTIATE_TEST_SUITE_P(Kernels, LargePages, ::testing::Values(4096U, 16384U, 65536U),
                         [](const auto& bytes) {
                           return "With" + std::to_string(bytes.param / 1024) + "KiB";
                         });

}  // namespace
}  // namespace atbus::test::large_pages
