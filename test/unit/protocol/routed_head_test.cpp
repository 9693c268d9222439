// Heads of messages that pass through other nodes.
#include "protocol/routed_head.h"

#include "protocol/broadcast_head.h"
#include "raw_body.h"
#include "test.h"

namespace atbus::detail {
namespace {

template <class Head>
byte_buffer bytes_of(const Head& head, std::size_t size, std::size_t payload) {
  byte_buffer made(size + payload);
  encode(head, made.data());
  return made;
}

// With the shortest batch, if it carries one.
byte_buffer routed_bytes(const routed_head& head) {
  const bool carries = head.step == circuit_step::carry;
  const std::size_t context = head.step == circuit_step::traced ? trace_context::size : 0;
  return bytes_of(head, routed_head_size, carries ? frame_size(message_head_size) : context);
}

routed_head plain() {
  return {.messages = 0x0201,
          .destination = 0x0a0b,
          .source = 0x0c0d,
          .circuit = 0x1122334455667788,
          .number = 3};
}

TEST(RoutedHead, HasTheDocumentedBytes) {
  routed_head head = plain();
  head.flags = flag_acknowledge;
  head.hops_left = 9;
  head.asks = true;
  EXPECT_EQ(routed_bytes(head),
            from_hex("0c 04 00 00 09 80 01 02 0b 0a 00 00 00 00 00 00 0d 0c 00 00 00 00 00 00 "
                     "88 77 66 55 44 33 22 11 03 00 00 00 00 00 00 00 "
                     "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"));
}

TEST(RoutedHead, IsReadAsItWasWritten) {
  for (int step = 0; step <= static_cast<int>(circuit_step::traced); ++step) {
    for (const bool asks : {false, true}) {
      routed_head head = plain();
      head.step = static_cast<circuit_step>(step);
      head.asks = asks;
      head.reason = head.step == circuit_step::failed ? errc::hop_limit : errc::ok;
      head.messages = head.step == circuit_step::carry ? 7 : 0;
      routed_head read;
      ASSERT_TRUE(decode(routed_bytes(head), read)) << step;
      EXPECT_EQ(read, head) << step;
    }
  }
}

TEST(RoutedHead, IsRefusedWhereNoNodeWritesIt) {
  const auto is_refused = [](const std::function<void(routed_head&)>& change) {
    routed_head head = plain();
    change(head);
    routed_head read;
    return !decode(routed_bytes(head), read);
  };
  EXPECT_FALSE(is_refused([](routed_head&) {}));
  EXPECT_TRUE(is_refused([](routed_head& head) { head.hops_left = hops_max + 1; }));
  EXPECT_TRUE(is_refused([](routed_head& head) { head.destination = bus_id{}; }));
  EXPECT_TRUE(is_refused([](routed_head& head) { head.source = bus_id{}; }));
  EXPECT_TRUE(is_refused([](routed_head& head) { head.number = 0; }));
  EXPECT_TRUE(is_refused([](routed_head& head) { head.flags = flag_redelivered; }));
  EXPECT_TRUE(is_refused([](routed_head& head) { head.messages = 0; })) << "of a batch";
  EXPECT_TRUE(is_refused([](routed_head& head) {
    head.step = circuit_step::expects;
    head.reason = errc::denied;
  })) << "not failed";
  EXPECT_TRUE(is_refused([](routed_head& head) { head.step = circuit_step::failed; }))
      << "without a reason";
  EXPECT_TRUE(is_refused([](routed_head& head) {
    head.step = circuit_step::failed;
    head.reason = static_cast<errc>(errc_count);
  }));
  EXPECT_TRUE(is_refused([](routed_head& head) { head.step = static_cast<circuit_step>(7); }));
}

TEST(RoutedHead, IsRefusedWithAWrongLength) {
  routed_head read;
  byte_buffer carries = routed_bytes(plain());
  for (std::size_t size = 0; size != carries.size(); ++size)
    EXPECT_FALSE(decode(bytes_view{carries}.first(size), read)) << size;
  routed_head head = plain();
  head.step = circuit_step::expects;
  byte_buffer says = routed_bytes(head);
  says.resize(says.size() + 8);
  EXPECT_FALSE(decode(says, read)) << "something behind what carries nothing";
}

TEST(BroadcastHead, IsReadAsItWasWritten) {
  const broadcast_head head{.flags = flag_acknowledge,
                            .type = 77,
                            .to = *id_range::parse("0x1200/56"),
                            .source = 5,
                            .number = 6,
                            .hops_left = 7,
                            .answers = true};
  const byte_buffer bytes = bytes_of(head, broadcast_head_size, 3);
  EXPECT_EQ(bytes_view{bytes}.size(), 43U);
  EXPECT_EQ(byte_buffer(bytes.begin(), bytes.begin() + broadcast_head_size),
            from_hex("0d 04 00 00 4d 00 00 00 00 12 00 00 00 00 00 00 05 00 00 00 00 00 00 00 "
                     "06 00 00 00 00 00 00 00 38 07 01 00 00 00 00 00"));
  broadcast_head read;
  ASSERT_TRUE(decode(bytes, read));
  EXPECT_EQ(read, head);
}

// Each byte that has no such value in what a node writes.
TEST(BroadcastHead, IsRefusedWhereNoNodeWritesIt) {
  const broadcast_head head{.to = *id_range::parse("0x1200/56"), .source = 5, .number = 6};
  const byte_buffer good = bytes_of(head, broadcast_head_size, 0);
  broadcast_head read;
  ASSERT_TRUE(decode(good, read));
  const std::array<std::pair<std::size_t, int>, 10> faults{{{1, 1},     // flag
                                                            {2, 1},     // reserved
                                                            {8, 1},     // below the prefix
                                                            {16, 0},    // source
                                                            {24, 0},    // number
                                                            {32, 65},   // length
                                                            {33, 17},   // hops
                                                            {34, 2},    // answers
                                                            {35, 1},    // 0
                                                            {39, 1}}};  // 0
  for (const auto& [at, value] : faults) {
    byte_buffer bad = good;
    bad[at] = static_cast<std::byte>(value);
    EXPECT_FALSE(decode(bad, read)) << at;
  }
  for (std::size_t size = 0; size != good.size(); ++size)
    EXPECT_FALSE(decode(bytes_view{good}.first(size), read)) << size;
}

}  // namespace
}  // namespace atbus::detail
