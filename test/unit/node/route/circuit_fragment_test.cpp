// Messages over a circuit that are longer than a batch: they travel in fragments.
#include "circuit_fixture.h"

namespace atbus::detail {
namespace {

constexpr circuit_options large{.message_limit = std::size_t{1} << 20,
                                .queue_size = std::size_t{2} << 20};

// Around each length at which something changes, and long ones.
std::size_t some_size(std::uint64_t number) {
  constexpr std::size_t edges[] = {16,     4'088,  16'376, 16'384, 16'385,    16'400,   24'568,
                                   28'664, 28'680, 40'000, 65'536, 1'000'000, 1'048'576};
  return edges[number % std::size(edges)];
}

class CircuitFragments : public ::testing::Test {
 protected:
  void SetUp() override {
    one.size_of = two.size_of = some_size;
    two.is_told_all = true;
    one.call(2);
    net.run_for(5ms);
    ASSERT_EQ(two.accepts, 1);
    one.at()->confirm({});
    two.at()->confirm({});
  }
  void send(std::uint64_t count) {
    std::uint64_t sent = 0;
    for (int i = 0; i != 100'000 && two.got.size() != count; ++i) {
      net.run_for(1ms, [&] {
        while (sent != count && one.send_data(sent))
          ++sent;
      });
    }
    EXPECT_EQ(sent, count);
    ASSERT_EQ(two.got.size(), count);
    for (std::uint64_t i = 0; i != count; ++i)
      ASSERT_EQ(two.got[i], i);
  }
  // A fragment, or a last one, as the other end would send it next.
  void arrive(std::uint64_t number, std::uint16_t messages, bytes_view body) {
    const routed_head head{.messages = messages,
                           .destination = 2,
                           .source = 1,
                           .circuit = one.called_as,
                           .number = number};
    byte_buffer bytes(routed_head_size);
    encode(head, bytes.data());
    bytes.insert(bytes.end(), body.begin(), body.end());
    routed_head read;
    if (decode(bytes, read))
      two.all.arrived(read, bytes, link_trust::unproven);
    else
      ++not_decoded;
  }
  // `size` bytes of a frame that announces `length`.
  static byte_buffer frame_of(std::size_t length, std::size_t size) {
    byte_buffer made(size);
    store_little_endian<std::uint64_t>(made.data(), make_frame_word(frame_kind::data, length));
    return made;
  }

  network net{1};
  end one{net, 1, large};
  end two{net, 2, large};
  int not_decoded = 0;
};

TEST_F(CircuitFragments, CarryMessagesOfAllLengths) {
  send(39);
  EXPECT_EQ(two.breaches, 0);
  net.run_for(1s);
  EXPECT_TRUE(one.at()->settled());
}

TEST_F(CircuitFragments, ArriveAlsoWhereRelaysDropAndReorder) {
  net.reorders = true;
  net.drops = 3;
  net.fails = 2;
  net.blocks = 20;
  send(26);
  EXPECT_EQ(two.breaches, 0);
}

TEST_F(CircuitFragments, AreNoLongerThanEveryNodeTakes) {
  send(13);
  EXPECT_LE(net.longest, batch_max);
}

TEST_F(CircuitFragments, SayThatTheyComeBeforeTheLastOneDoes) {
  const std::uint64_t sent_before = one.at()->bytes_read();
  const std::uint64_t read_before = two.at()->bytes_read();
  const std::size_t length = 1'000'000;
  for (std::uint64_t number = 2; number != 20; ++number) {
    arrive(number, 0, number == 2 ? frame_of(length, fragment_size) : byte_buffer(fragment_size));
    net.run_for(20ms);
  }
  EXPECT_EQ(two.at()->bytes_read() - read_before, 18 * fragment_size);
  EXPECT_GE(two.words_said, 3U);  // one in 100 ms
  EXPECT_TRUE(two.got.empty());
  EXPECT_EQ(one.at()->bytes_read(), sent_before);  // it has sent none of these
}

TEST_F(CircuitFragments, AreSignsOfLifeForTheSenderToo) {
  const std::uint64_t before = one.at()->bytes_read();
  ASSERT_TRUE(one.send_data(11));  // 1,000,000 bytes
  one.all.flush();
  net.run_for(5ms);
  EXPECT_GT(one.at()->bytes_read(), before);
}

TEST_F(CircuitFragments, AreNotDeliveredWhileTheLastOneHasNotLeft) {
  net.capacity = 100'000;
  ASSERT_TRUE(one.send_data(11));
  one.all.flush();
  one.at()->abort();
  net.run_for(10ms);
  using fates = std::vector<std::pair<std::uint64_t, errc>>;
  EXPECT_EQ(one.not_released, (fates{{11, errc::not_delivered}}));
}

TEST_F(CircuitFragments, AreInDoubtOnceTheLastOneHasLeft) {
  ASSERT_TRUE(one.send_data(6));
  ASSERT_TRUE(one.send_data(0));
  one.all.flush();
  one.at()->abort();
  net.run_for(10ms);
  using fates = std::vector<std::pair<std::uint64_t, errc>>;
  EXPECT_EQ(one.not_released, (fates{{6, errc::outcome_unknown}, {0, errc::outcome_unknown}}));
}

TEST_F(CircuitFragments, AreReleasedWithTheirMessageOnly) {
  ASSERT_TRUE(one.send_data(9));
  one.all.flush();
  one.at()->release(1);  // the call
  EXPECT_FALSE(one.at()->settled());
  one.at()->release(1);
  EXPECT_TRUE(one.at()->settled());
}

TEST_F(CircuitFragments, ThatNoNodeSendsAreToldOf) {
  const auto first = frame_of(40'000, fragment_size);
  arrive(2, 1, frame_of(40'000, 8'192));  // not all of it
  EXPECT_EQ(two.breaches, 1);
  arrive(3, 0, frame_of(8'192, fragment_size));  // shorter than its fragment
  EXPECT_EQ(two.breaches, 2);
  arrive(4, 0, frame_of(large.message_limit + 1, fragment_size));
  EXPECT_EQ(two.breaches, 3);
  arrive(5, 0, first);
  arrive(6, 1, byte_buffer(8'000));  // the last one is too short,
  EXPECT_EQ(two.breaches, 4);
  arrive(7, 0, first);
  arrive(8, 1, byte_buffer(16'000));  // or too long,
  EXPECT_EQ(two.breaches, 5);
  arrive(9, 0, first);
  arrive(10, 0, first);
  arrive(11, 0, first);
  arrive(12, 0, first);  // or does not come
  EXPECT_EQ(two.breaches, 6);
  arrive(13, 0, byte_buffer(fragment_size - 8));
  arrive(13, 1, byte_buffer(batch_max + 8));
  EXPECT_EQ(not_decoded, 2);
  EXPECT_TRUE(two.got.empty());
}

TEST_F(CircuitFragments, AreRefusedBeforeThePeerHasRegistered) {
  end caller{net, 3, large};
  caller.call(2);
  two.expect_many = true;
  net.run_for(5ms);
  ASSERT_EQ(two.accepts, 2);
  two.expect_many = false;
  const routed_head head{.destination = 2, .source = 3, .circuit = caller.called_as, .number = 2};
  byte_buffer bytes(routed_head_size);
  encode(head, bytes.data());
  const byte_buffer body = frame_of(40'000, fragment_size);
  bytes.insert(bytes.end(), body.begin(), body.end());
  two.all.arrived(head, bytes, link_trust::unproven);
  EXPECT_EQ(two.breaches, 1);
}

}  // namespace
}  // namespace atbus::detail
