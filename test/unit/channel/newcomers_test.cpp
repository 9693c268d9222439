// Connections that have not been confirmed: which of them makes room when there are too many.
#include "channel/stream/newcomers.h"

#include "plain_socket.h"
#include "unit/channel/connection/connection_fixture.h"
#include "unit/channel/socket_channel/stream_fixture.h"

namespace atbus {
namespace {

using detail::hello;
using test::plain_socket;

// Hosts of this test: all of them are this one.
constexpr const char* honest_host = "127.0.0.2";
constexpr const char* crowded_host = "127.0.0.3";

plain_socket dial_from(const char* host, std::string_view address) {
  const auto from = test::socket_address::parse(std::string{"ipv4://"} + host + ":0");
  const auto to = test::socket_address::parse(address);
  plain_socket made{::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)};
  EXPECT_EQ(::bind(made.fd(), from.get(), from.size), 0);
  EXPECT_EQ(::connect(made.fd(), to.get(), to.size), 0);
  return made;
}

std::string opening() {
  detail::byte_string bytes;
  detail::append(bytes, detail::hello_frame(hello{.wants_checksums = true, .session = 77}));
  return std::string{as_string(bytes)};
}

// Either way in which connections are accepted.
class door {
 public:
  virtual ~door() = default;
  virtual void turn() = 0;
  [[nodiscard]] virtual channel_stats stats() = 0;

  std::string address;
};

class door_of_receiver final : public door {
 public:
  door_of_receiver(std::uint32_t connections, std::uint32_t unconfirmed) {
    auto opened = receiver::open("ipv4://127.0.0.1:0",
                                 {.connections = connections, .unconfirmed = unconfirmed});
    EXPECT_TRUE(opened) << opened.error().text();
    inbox_ = std::make_unique<receiver>(std::move(*opened));
    address = inbox_->address();
  }
  void turn() override {
    inbox_->poll([](bytes_view) {});
  }
  channel_stats stats() override { return inbox_->stats(); }

 private:
  std::unique_ptr<receiver> inbox_;
};

class door_of_set final : public door {
 public:
  door_of_set(std::uint32_t connections, std::uint32_t unconfirmed) {
    address =
        set_.listen("ipv4://127.0.0.1:0", {.connections = connections, .unconfirmed = unconfirmed});
  }
  void turn() override { set_.set->poll(); }
  channel_stats stats() override { return set_.set->stats(); }

 private:
  recorded_set set_;
};

class Newcomers : public ::testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<door> open(std::uint32_t connections, std::uint32_t unconfirmed) {
    if (std::string_view{GetParam()} == "receiver")
      return std::make_unique<door_of_receiver>(connections, unconfirmed);
    return std::make_unique<door_of_set>(connections, unconfirmed);
  }
  // Until so many have been accepted or turned away.
  static bool until_seen(door& at, std::size_t count) {
    return repeat_until(
        [&] {
          const channel_stats seen = at.stats();
          return seen.connections + seen.unconfirmed_dropped >= count;
        },
        [&] { at.turn(); });
  }
  static bool is_answered(door& at, plain_socket& by) {
    EXPECT_TRUE(by.send(opening()));
    std::string answer;
    return repeat_until(
               [&] {
                 return answer.size() == detail::frame_size(detail::hello_size) ||
                        by.ended() == "end of file" || by.ended() == "reset";
               },
               [&] {
                 at.turn();
                 answer += by.receive_some(100, 1ms);
               }) &&
           !answer.empty();
  }
};

INSTANTIATE_TEST_SUITE_P(Channel, Newcomers, ::testing::Values("receiver", "set"),
                         [](const auto& tested) { return std::string{tested.param}; });

TEST_P(Newcomers, OfOneAddressCrowdNobodyOfAnotherOut) {
  const auto at = open(4096, 8);
  plain_socket honest = dial_from(honest_host, at->address);
  ASSERT_TRUE(until_seen(*at, 1));
  std::vector<plain_socket> crowd;
  for (std::size_t i = 0; i < 400; ++i) {
    crowd.push_back(dial_from(crowded_host, at->address));
    if (i % 2 == 0) {
      ASSERT_TRUE(crowd.back().send("\x28"));  // half of them begin to say something
    }
    if (i % 50 == 49) {
      ASSERT_TRUE(until_seen(*at, i + 2));
    }
  }
  EXPECT_TRUE(is_answered(*at, honest));
  EXPECT_EQ(at->stats().unconfirmed_dropped, 400U - 7U);
}

TEST_P(Newcomers, ThatFillAllPlacesLeaveOneForAnotherAddress) {
  const auto at = open(4, 256);
  std::vector<plain_socket> crowd;
  for (int i = 0; i < 4; ++i)
    crowd.push_back(dial_from(crowded_host, at->address));
  ASSERT_TRUE(until_seen(*at, 4));
  plain_socket honest = dial_from(honest_host, at->address);
  EXPECT_TRUE(is_answered(*at, honest));
}

TEST_P(Newcomers, ThatHaveSaidSomethingOutliveTheSilentOnesOfTheirAddress) {
  const auto at = open(4096, 8);
  plain_socket slow = dial_from(crowded_host, at->address);
  ASSERT_TRUE(slow.send(opening().substr(0, 39)));
  ASSERT_TRUE(until_seen(*at, 1));
  std::vector<plain_socket> crowd;
  for (std::size_t i = 0; i < 100; ++i) {
    crowd.push_back(dial_from(crowded_host, at->address));
    if (i % 50 == 49) {
      ASSERT_TRUE(until_seen(*at, i + 2));
    }
  }
  ASSERT_TRUE(slow.send(opening().substr(39)));
  std::string answer;
  EXPECT_TRUE(repeat_until([&] { return answer.size() == detail::frame_size(detail::hello_size); },
                           [&] {
                             at->turn();
                             answer += slow.receive_some(100, 1ms);
                           }));
}

// Bytes that come in crumbs are no reason to let others wait.
TEST_P(Newcomers, ThatAlwaysHaveSomethingToSayKeepNobodyOut) {
  const auto at = open(4096, 4);
  std::vector<plain_socket> crowd;
  for (int i = 0; i < 4; ++i)
    crowd.push_back(dial_from(crowded_host, at->address));
  ASSERT_TRUE(until_seen(*at, 4));
  plain_socket honest = dial_from(honest_host, at->address);
  for (std::size_t said = 0; said != opening().size() - 1; ++said) {
    for (const plain_socket& one : crowd)
      (void)one.send(opening().substr(said, 1));
    at->turn();
  }
  EXPECT_TRUE(is_answered(*at, honest));
}

TEST(NewcomersOfNodes, ThatSaidHelloKeepTheirPlaceBesideACrowdThatDidToo) {
  recorded_set inside;
  listen_options options;
  options.connection.user_confirms = true;
  options.unconfirmed = 8;
  const std::string where = inside.listen("ipv4://127.0.0.1:0", options);
  plain_socket honest = dial_from(honest_host, where);
  ASSERT_TRUE(honest.send(opening()));
  ASSERT_TRUE(turn_until({&inside}, [&] { return inside.opens == 1; }));
  const connection of_honest = inside.last;
  std::vector<plain_socket> crowd;
  for (int i = 0; i < 200; ++i) {
    crowd.push_back(dial_from(crowded_host, where));
    ASSERT_TRUE(crowd.back().send(opening()));
    if (i % 50 == 49) {
      ASSERT_TRUE(turn_until({&inside}, [&] { return inside.opens == i + 2; }));
    }
  }
  EXPECT_TRUE(of_honest.is_open());
  EXPECT_EQ(inside.set->stats().unconfirmed_dropped, 200U - 7U);
}

TEST(NewcomersOfManyAddresses, LoseTheOneThatIsThereForLongest) {
  recorded_set inside;
  listen_options options;
  options.unconfirmed = 3;
  const std::string where = inside.listen("ipv4://127.0.0.1:0", options);
  std::vector<plain_socket> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(dial_from(("127.0.1." + std::to_string(i + 1)).c_str(), where));
    ASSERT_TRUE(turn_until({&inside}, [&] {
      const auto seen = inside.set->stats();
      return seen.connections + seen.unconfirmed_dropped == static_cast<std::size_t>(i) + 1;
    }));
  }
  EXPECT_EQ(all[0].receive_some(), "");
  EXPECT_EQ(all[0].ended(), "end of file");
  EXPECT_EQ(all[1].receive_some(1, 0ns), "");
  EXPECT_EQ(all[1].ended(), "silence");
}

}  // namespace
}  // namespace atbus
