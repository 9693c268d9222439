// Blobs between processes that are killed or stopped in the middle: each has one outcome, and memory stays as it is.
#include <fstream>
#include <map>

#include "child_process.h"
#include "node_fixture.h"
#include "reserved_port.h"
#include "sanitizer.h"

namespace atbus::test {
namespace {

constexpr std::uint32_t file_type = 7;
constexpr std::size_t one_mib = std::size_t{1} << 20;

std::byte made_byte(std::uint64_t place) {
  return static_cast<std::byte>((place * 31 + place / 251) & 0xff);
}

std::size_t resident_bytes() {
  std::size_t pages = 0;
  std::ifstream{"/proc/self/statm"} >> pages >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

class NodeBlobsFork : public NodeFixture {
 protected:
  [[nodiscard]] node_options short_options() const {
    return options().first_idle_timeout(std::chrono::seconds{1});
  }
  // Takes all blobs, looks at each byte, and says of each how many there were.
  int take() {
    node taker{2, short_options()};
    require(static_cast<bool>(taker.listen(where_)), "the taker listens");
    taker.on_blob(file_type, [](incoming_blob& blob) {
      blob.accept([](const blob_part& part) {
        std::uint64_t place = part.position();
        for (const std::byte one : part.bytes())
          require(one == made_byte(place++), "the bytes are those that were sent");
      });
    });
    static_cast<void>(taker.run());
    return 0;
  }
  int give() {
    node giver{1, short_options()};
    require(static_cast<bool>(giver.connect(2, where_)), "the giver connects");
    std::uint64_t made = 0;
    const auto fill = [&made](mutable_bytes room) {
      for (std::byte& one : room)
        one = made_byte(made++);
      return status{};
    };
    require(static_cast<bool>(
                giver.send_blob(2, file_type, {1024 * one_mib, fill}, [](const blob_outcome&) {})),
            "the blob is accepted");
    static_cast<void>(giver.run());
    return 0;
  }
  void send(std::uint64_t size) {
    made_ = 0;
    outcome_.reset();
    const auto fill = [this](mutable_bytes room) {
      for (std::byte& one : room)
        one = made_byte(made_++);
      return status{};
    };
    ASSERT_TRUE(first->send_blob(2, file_type, {size, fill}, [this](const blob_outcome& o) {
      ++outcomes_;
      outcome_ = o.how();
      taken_ = o.taken();
    }));
  }
  bool turn_first(const std::function<bool()>& done) { return turn({&*first}, done); }
  void start_first() {
    first.emplace(1, short_options());
    ASSERT_TRUE(first->connect(2, where_));
  }

  const reserved_port port_{"ipv4://127.0.0.1:0"};
  const std::string where_ =  // also of a child, whose process id is another
      GetParam().tcp ? port_.address() : address();
  std::uint64_t made_ = 0;
  std::uint64_t taken_ = 0;
  int outcomes_ = 0;
  std::optional<status> outcome_;
};

TEST_P(NodeBlobsFork, HaveOneOutcomeEachThoughTheReceiverIsKilled) {
  constexpr int kills = 3;
  child_process taker{[this] { return take(); }};
  start_first();
  for (int kill = 1; kill <= kills; ++kill) {
    send(64 * one_mib);
    ASSERT_TRUE(turn_first([this] { return made_ > one_mib; }));
    taker.kill_and_wait();
    taker = child_process{[this] { return take(); }};
    ASSERT_TRUE(turn_first([this] { return outcome_.has_value(); }));
    EXPECT_EQ(outcome_->code(), errc::peer_closed) << outcome_->text();
    send(3 * one_mib);  // to the next one
    ASSERT_TRUE(turn_first([this] { return outcome_.has_value(); }));
    EXPECT_TRUE(*outcome_) << outcome_->text();
    EXPECT_EQ(taken_, 3 * one_mib);
    EXPECT_EQ(outcomes_, 2 * kill);
  }
}

TEST_P(NodeBlobsFork, HaveAnOutcomeThoughTheReceiverNeverReturns) {
  child_process taker{[this] { return take(); }};
  start_first();
  send(64 * one_mib);
  ASSERT_TRUE(turn_first([this] { return made_ > one_mib; }));
  taker.kill_and_wait();
  ASSERT_TRUE(turn_first([this] { return outcome_.has_value(); }));
  EXPECT_EQ(outcome_->code(), errc::peer_closed) << outcome_->text();
  EXPECT_LT(taken_, 64 * one_mib);
  EXPECT_TRUE(first->is_settled());
}

TEST_P(NodeBlobsFork, StandStillWhileTheReceiverIsStopped) {
  child_process taker{[this] { return take(); }};
  start_first();
  send(48 * one_mib);
  ASSERT_TRUE(turn_first([this] { return made_ > 4 * one_mib; }));
  taker.stop();
  const std::uint64_t made_before = made_;
  const std::size_t memory_before = resident_bytes();
  for (int polls = 0; polls != 3000; ++polls)
    first->poll();
  EXPECT_LE(made_, made_before + node_options{}.blob_window());
  if (!has_sanitizer) {  // which keeps memory that was given back
    EXPECT_LE(resident_bytes(), memory_before + 4 * node_options{}.blob_window());
  }
  EXPECT_FALSE(outcome_.has_value());
  taker.resume();
  ASSERT_TRUE(turn_first([this] { return outcome_.has_value(); }));
  EXPECT_TRUE(*outcome_) << outcome_->text();
  EXPECT_EQ(taken_, 48 * one_mib);
  EXPECT_EQ(outcomes_, 1);
}

TEST_P(NodeBlobsFork, EndAtTheReceiverWhenTheSenderIsKilled) {
  second.emplace(2, short_options());
  second_log.listen_to(*second);
  ASSERT_TRUE(second->listen(where_));
  std::uint64_t taken = 0;
  std::optional<status> ended;
  int ends = 0;
  second->on_blob(file_type, [&](incoming_blob& blob) {
    blob.accept([&](const blob_part& part) {
      taken += part.bytes().size();
      if (part.ended()) {
        ++ends;
        ended = part.how();
      }
    });
  });
  child_process giver{[this] { return give(); }};
  ASSERT_TRUE(turn({&*second}, [&] { return taken > one_mib; }));
  giver.kill_and_wait();
  ASSERT_TRUE(turn({&*second}, [&] { return ended.has_value(); }));
  EXPECT_EQ(ended->code(), errc::peer_closed);
  EXPECT_EQ(ends, 1);
}

std::vector<node_kind> kinds_between_processes() {
  std::vector<node_kind> kinds = node_kinds();
  std::erase_if(kinds, [](const node_kind& kind) {
    return std::string{kind.name} == "mem" || std::string{kind.name} == "ipv6";
  });
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeBlobsFork, ::testing::ValuesIn(kinds_between_processes()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
