// Messages and requests that are values of C++ types.
#include <cstring>

#include "atbus/msgpack.hpp"
#include "counting_allocator.h"
#include "node_requests_fixture.h"

namespace atbus::detail {
namespace {

struct position {
  static constexpr std::uint32_t message_type = 12;
  double x = 0;
  double y = 0;
};

struct clash {
  static constexpr std::uint32_t message_type = 12;
  int z = 0;
};

struct order {
  static constexpr std::uint32_t message_type = 20;
  std::string item;
  int count = 0;
  MSGPACK_DEFINE(item, count)
};

struct receipt {
  std::string text;
  MSGPACK_DEFINE(text)
};

// It could be copied byte by byte.
struct count {
  static constexpr std::uint32_t message_type = 21;
  int items = 0;
  MSGPACK_DEFINE(items)
};

// Stands for a type of another serializer.
struct foreign {
  std::string digits;
};

}  // namespace
}  // namespace atbus::detail

template <>
struct atbus::message_type<atbus::detail::foreign> : std::integral_constant<std::uint32_t, 30> {};

template <>
struct atbus::codec<atbus::detail::foreign> {
  static std::size_t size(const detail::foreign& value) { return value.digits.size(); }
  static void write(const detail::foreign& value, mutable_bytes to) {
    std::memcpy(to.data(), value.digits.data(), to.size());
  }
  static bool read(bytes_view from, detail::foreign& value) {
    value.digits = as_text(from);
    return value.digits.find_first_not_of("0123456789") == std::string::npos;
  }
};

namespace atbus::detail {
namespace {

class TypedMessages : public NodeRequests {
 protected:
  TypedMessages() { connect(); }
  node& sending() { return one.node.user(); }
  node& handling() { return two.node.user(); }
  void run() {
    one.node.wake();
    net.run_for(100ms);
  }
};

TEST_F(TypedMessages, GoToTheHandlerOfTheirTypeAndAllElseToThatOfMessages) {
  std::vector<std::string> got;
  ASSERT_TRUE(handling().on<position>([&](const position& p, const message& m) {
    EXPECT_EQ(m.source(), bus_id{1});
    EXPECT_EQ(static_cast<const void*>(&p), static_cast<const void*>(m.bytes().data()));
    got.push_back("position " + std::to_string(static_cast<int>(p.x + p.y)));
  }));
  ASSERT_TRUE(handling().on<order>(
      [&](const order& o) { got.push_back("order " + o.item + std::to_string(o.count)); }));
  ASSERT_TRUE(handling().on<foreign>([&](const foreign& f) { got.push_back(f.digits); }));
  ASSERT_TRUE(handling().on<count>([&](const count& c, const message& m) {
    got.push_back("count " + std::to_string(c.items) + " in " + std::to_string(m.bytes().size()));
  }));
  two.on_message = [&](const message& m) { got.emplace_back(m.text()); };
  ASSERT_TRUE(sending().send(2, position{1, 2}));
  ASSERT_TRUE(sending().send(2, order{"apple", 3}));
  ASSERT_TRUE(sending().send(2, 5, "plain"));
  ASSERT_TRUE(sending().send(2, foreign{"123"}));
  ASSERT_TRUE(sending().send(2, count{7}));
  run();
  EXPECT_EQ(got, (std::vector<std::string>{"position 3", "order apple3", "plain", "123",
                                           "count 7 in 2"}));
  handling().off<position>();
  handling().off<order>();
  handling().off<foreign>();
  ASSERT_TRUE(sending().send(2, position{1, 2}));
  run();
  EXPECT_EQ(got.size(), 6U);
  EXPECT_EQ(two.core().stats().malformed, 0U);
}

TEST_F(TypedMessages, AHandlerOfMessagesThatIsSetLaterGetsAllElse) {
  int positions = 0;
  int others = 0;
  ASSERT_TRUE(handling().on<position>([&](const position&) { ++positions; }));
  handling().on_message([&](const message&) { ++others; });
  ASSERT_TRUE(sending().send(2, position{}));
  ASSERT_TRUE(sending().send(2, 5, "plain"));
  run();
  EXPECT_EQ(positions, 1);
  EXPECT_EQ(others, 1);
}

TEST_F(TypedMessages, AHandlerOfMessagesStaysIfThereWasNoHandlerOfTheType) {
  int others = 0;
  handling().on_message([&](const message&) { ++others; });
  handling().off<position>();
  ASSERT_TRUE(handling().on<position>([&](const position&) {}));
  handling().off<position>();
  handling().off<position>();
  ASSERT_TRUE(sending().send(2, 5, "plain"));
  run();
  EXPECT_EQ(others, 1);
}

// Room for what is announced would take 32 times 16 bytes for each byte of the message.
TEST_F(TypedMessages, ABodyAnnouncesNoMoreElementsThanItHasBytes) {
  std::string nested;
  for (int i = 0; i != 31; ++i)
    nested += std::string{"\xdd\x00\x00\x20\x00", 5};
  nested.resize(64 * 1024, '\xc0');
  order never;
  const std::uint64_t before = test::allocations();
  EXPECT_FALSE(codec<order>::read(as_bytes(nested), never));
  if (test::counts_allocations()) {
    EXPECT_LT(test::allocations() - before, 20U) << "an array each";
  }
}

// They can be copied byte by byte, but the bytes are an address.
static_assert(!has_codec<std::string_view> && !has_codec<std::span<const int>>);
static_assert(has_codec<std::array<int, 3>>);

TEST_F(TypedMessages, TwoTypesOfOneNumberAreAnError) {
  ASSERT_TRUE(handling().on<position>([](const position&) {}));
  const error bad = handling().on<clash>([](const clash&) {});
  EXPECT_EQ(bad, errc::invalid_argument);
  EXPECT_NE(bad.text().find("12"), std::string::npos);
  handling().off<position>();
  EXPECT_TRUE(handling().on<clash>([](const clash&) {}));
}

TEST_F(TypedMessages, WhatIsNoValueOfItsTypeIsCountedAndLogged) {
  ASSERT_TRUE(handling().on<position>([](const position&) { ADD_FAILURE(); }));
  ASSERT_TRUE(handling().on<order>([](const order&) { ADD_FAILURE(); }));
  ASSERT_TRUE(handling().on<foreign>([](const foreign&) { ADD_FAILURE(); }));
  ASSERT_TRUE(sending().send(2, clash{}));
  ASSERT_TRUE(sending().send(2, foreign{"12a"}));
  using namespace std::string_view_literals;
  for (const std::string_view bytes :
       {""sv, "\xc1"sv, "\x92\xa1x"sv, "\x92\x01\x01"sv, "\x93\xa1x\x01"sv,
        "\xdd\xff\xff\xff\xff"sv, "\xdb\xff\xff\xff\xff"sv, "\x92\xa1x\x01\x01"sv})
    ASSERT_TRUE(sending().send(2, order::message_type, bytes));
  ASSERT_TRUE(sending().send(2, order::message_type, std::string(10000, '\x91')));
  run();
  EXPECT_EQ(two.core().stats().malformed, 11U);
  EXPECT_GE(two.logged("a message of type 12 from 1 is no value of that type"), 1);
}

TEST_F(TypedMessages, MayBeRequestsAndResponses) {
  handling().on_request<order>(
      [](const order& o) { return receipt{o.item + " x " + std::to_string(o.count)}; });
  handling().on_request<position>([](const position& p, request& r) {
    if (p.x < 0)
      r.fail("negative");
    else
      r.reply(position{p.y, p.x});
  });
  std::vector<std::string> got;
  ASSERT_TRUE(
      sending().request<receipt>(2, order{"apple", 3}, 1s, [&](const typed_response<receipt>& r) {
        ASSERT_TRUE(r);
        got.push_back(r->text);
      }));
  const auto ask_all = [&]() -> atbus::task<> {
    const auto swapped = co_await sending().request<position>(2, position{1, 2}, 1s);
    EXPECT_TRUE(swapped);
    EXPECT_EQ((*swapped).x, 2);
    EXPECT_EQ(swapped.source(), bus_id{2});
    const auto failed = co_await sending().request<position>(2, position{-1, 2}, 1s);
    EXPECT_EQ(failed.how(), errc::request_failed);
    EXPECT_EQ(failed.text(), "negative");
    const order pear{"pear", 1};  // GCC 12 destroys a temporary of this kind wrongly
    const auto bought = co_await sending().request<receipt>(2, pear, 1s);
    got.push_back(bought->text);
    const auto other = co_await sending().request<position>(2, pear, 1s);
    EXPECT_EQ(other.how(), errc::malformed);
    got.push_back("done");
  };
  sending().spawn(ask_all());
  run();
  EXPECT_EQ(got, (std::vector<std::string>{"apple x 3", "pear x 1", "done"}));
}

TEST_F(TypedMessages, ARequestThatIsNoValueOfItsTypeFails) {
  handling().on_request<order>([](const order&) { return receipt{}; });
  told answer;
  ASSERT_TRUE(ask("nonsense", answer, 1s, order::message_type));
  run();
  expect(answer, errc::request_failed, "malformed: the request is no value of its type");
  EXPECT_EQ(two.core().stats().malformed, 1U);
}

}  // namespace
}  // namespace atbus::detail
