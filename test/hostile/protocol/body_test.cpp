// Bodies that no node of ours writes: refused with a reason, and nothing grows with what they announce.
#include "counting_allocator.h"
#include "protocol/control.h"
#include "raw_body.h"
#include "test.h"

namespace atbus::detail {
namespace {

template <class Body = hello_body>
std::string refusal_of(const byte_buffer& body) {
  Body read;
  const error problem = decode(raw_message(Body::kind, body), read);
  EXPECT_TRUE(problem || problem == errc::protocol_error);
  return problem ? "accepted" : problem.text();
}

std::string refusal_with(int key, const byte_buffer& value) {
  raw_fields fields = hello_fields();
  fields[key] = value;
  return refusal_of(raw_body(fields));
}

bool says(std::string_view refusal, std::string_view what) {
  return refusal.find(what) != std::string_view::npos;
}

byte_buffer nested(std::size_t depth) {
  return joined({repeated(raw({0x91}), depth), raw({0xc0})});
}

TEST(Body, IsAcceptedWhenItIsAsDocumented) {
  EXPECT_EQ(refusal_of(raw_body(hello_fields())), "accepted");
}

TEST(Body, MayHoldKeysOfLaterVersionsWithAnyValue) {
  const byte_buffer values[] = {raw({0xc0}),
                                raw({0xc3}),
                                raw({0xff}),
                                raw({0xca, 0, 0, 0, 0}),
                                raw({0xcb, 0, 0, 0, 0, 0, 0, 0, 0}),
                                raw({0xd4, 1, 2}),
                                raw({0xc7, 0, 1}),
                                raw_number(~0ULL),
                                raw_text(std::string(5000, 't')),
                                raw_bytes(5000),
                                nested(7),
                                raw({0x81, 0x91, 0xc0, 0x82, 1, 2, 0xa1, 'k', 0x90}),
                                joined({raw_array(900), repeated(raw({1}), 900)})};
  for (const int key : {0, 11, 15, 127})
    for (const byte_buffer& value : values)
      EXPECT_EQ(refusal_with(key, value), "accepted") << key << " " << static_cast<int>(value[0]);
}

TEST(Body, IsRefusedInFiveBytesThatAnnounceMoreThanMemoryHolds) {
  const auto before = test::allocations();
  for (const int form : {0xdd, 0xdf, 0xdb, 0xc6, 0xc9}) {
    const byte_buffer five = big_endian(form, 0xffffffff, 4);
    EXPECT_NE(refusal_of(five), "accepted");
    EXPECT_NE(refusal_with(7, five), "accepted");
    EXPECT_NE(refusal_with(100, five), "accepted");
  }
  // At the fifth byte, not when the rest is missing.
  EXPECT_TRUE(says(refusal_of(big_endian(0xdf, 0xffffffff, 4)), "too many elements"));
  for (const int form : {0xdd, 0xdf})
    EXPECT_TRUE(says(refusal_with(100, big_endian(form, 0xffffffff, 4)), "too many elements"));
  // A few for each of the 15 messages, their reading and the words of the refusal.
  EXPECT_LT(test::allocations() - before, 2500U);
}

TEST(Body, IsRefusedWhenItIsNestedTooDeep) {
  EXPECT_EQ(refusal_with(100, nested(control_depth_max - 1)), "accepted");
  EXPECT_TRUE(says(refusal_with(100, nested(control_depth_max)), "nested too deep"));
  EXPECT_TRUE(says(refusal_with(100, nested(10000)), "nested too deep"));
  const byte_buffer maps = joined({repeated(raw({0x81, 1}), 5000), raw({0xc0})});
  EXPECT_TRUE(says(refusal_with(100, maps), "nested too deep"));
  const byte_buffer keys = joined({repeated(raw({0x81}), 5000), raw({0xc0})});
  EXPECT_TRUE(says(refusal_with(100, keys), "nested too deep"));
}

TEST(Body, IsRefusedUnreadAt100000Levels) {
  EXPECT_TRUE(says(refusal_of(nested(100000)), "too long"));
  EXPECT_TRUE(says(refusal_of(raw_bytes(control_size_max - message_head_size - 4)), "too long"));
  EXPECT_FALSE(says(refusal_of(raw_bytes(control_size_max - message_head_size - 5)), "too long"));
}

TEST(Body, IsRefusedWhenManySmallContainersMakeTooMany) {
  const std::size_t own = 2 * 14 + 1;  // the fields of the hello, its one address
  const auto with = [](std::size_t arrays) {
    return refusal_with(100, joined({raw_array(arrays), repeated(raw({0x90}), arrays)}));
  };
  EXPECT_EQ(with(control_elements_max - own), "accepted");
  EXPECT_TRUE(says(with(control_elements_max - own + 1), "too many elements"));
  const byte_buffer pairs = joined({raw_array(400), repeated(raw({0x81, 1, 1}), 400)});
  EXPECT_TRUE(says(refusal_with(100, pairs), "too many elements"));
}

TEST(Body, IsRefusedWhenAFieldIsOfTheWrongType) {
  const byte_buffer values[] = {raw({0xc0}),
                                raw({0xc3}),
                                raw({0xca, 0x3f, 0x80, 0, 0}),
                                raw({0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0}),
                                raw({0xd4, 1, 2}),
                                raw({0x80}),
                                raw({0x81, 1, 1}),
                                raw({0x91, 1})};
  for (const auto& [key, name] : std::map<int, std::string_view>{{1, "version_min"},
                                                                 {4, "id"},
                                                                 {6, "nonce"},
                                                                 {7, "addresses"},
                                                                 {9, "message_limit"},
                                                                 {13, "range_length"},
                                                                 {14, "relation"}}) {
    for (const byte_buffer& value : values) {
      const std::string refusal = refusal_with(key, value);
      EXPECT_TRUE(says(refusal, "wrong type") && says(refusal, name)) << refusal;
    }
  }
  for (const int key : {1, 4, 9, 7, 12, 13, 14})
    EXPECT_TRUE(says(refusal_with(key, raw_text("1")), "wrong type"));
  for (const int key : {6, 7, 8})
    EXPECT_TRUE(says(refusal_with(key, raw({1})), "wrong type"));
  for (const byte_buffer& value : {raw({0}), raw({1}), raw_text("true"), raw({0xc0})}) {
    EXPECT_TRUE(
        says(refusal_of<proof_body>(joined({raw({0x83, 1, 1, 2, 2, 3}), value, byte_buffer(32)})),
             "sole is of the wrong type"));
  }
  // Bytes are no text, and text is no bytes.
  EXPECT_TRUE(says(refusal_with(6, raw_text(std::string(32, 'n'))), "wrong type"));
  EXPECT_TRUE(says(refusal_of<refuse_body>(joined({raw({0x82, 1, 1, 2}), raw_bytes(3)})),
                   "text is of the wrong type"));
  EXPECT_TRUE(says(refusal_with(7, joined({raw_array(1), raw_bytes(3)})), "wrong type"));
  EXPECT_TRUE(says(refusal_with(7, joined({raw_array(1), raw({0x90})})), "wrong type"));
}

TEST(Body, IsRefusedWhenAFieldIsNegative) {
  for (const byte_buffer& value :
       {raw({0xff}), raw({0xd0, 0x80}), raw({0xd1, 0x80, 0}), raw({0xd2, 0x80, 0, 0, 0}),
        raw({0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0})}) {
    EXPECT_TRUE(says(refusal_with(4, value), "id is negative"));
    EXPECT_TRUE(says(refusal_with(1, value), "version_min is negative"));
  }
}

TEST(Body, IsRefusedWhenAFieldIsOutOfItsRange) {
  EXPECT_EQ(refusal_with(1, raw_number(0xffff)), "accepted");
  EXPECT_TRUE(says(refusal_with(1, raw_number(0x10000)), "version_min is too large"));
  EXPECT_TRUE(says(refusal_with(2, raw_number(~0ULL)), "version_max is too large"));
  EXPECT_EQ(refusal_with(13, raw_number(0xff)), "accepted");
  EXPECT_TRUE(says(refusal_with(13, raw_number(0x100)), "range_length is too large"));
  EXPECT_EQ(refusal_with(14, raw_number(3)), "accepted");
  EXPECT_TRUE(says(refusal_with(14, raw_number(4)), "relation is too large"));
  EXPECT_TRUE(
      says(refusal_of<bye_body>(joined({raw({0x82, 1}), raw_number(0x10000), raw({2, 0xa0})})),
           "reason is too large"));
  for (const std::size_t size : {0U, 31U, 33U, 5000U})
    EXPECT_TRUE(says(refusal_with(6, raw_bytes(size)), "nonce has the wrong number")) << size;
  EXPECT_TRUE(says(refusal_with(8, raw_bytes(32)), "host has the wrong number"));
}

TEST(Body, IsRefusedWhenAStringIsTooLong) {
  const auto address = [](std::size_t size) {
    return refusal_with(7, joined({raw_array(1), raw_text(std::string(size, 'a'))}));
  };
  EXPECT_EQ(address(address_size_max), "accepted");
  EXPECT_TRUE(says(address(address_size_max + 1), "addresses has an element that is too long"));
  const auto text = [](std::size_t size) {
    return refusal_of<bye_body>(joined({raw({0x82, 1, 1, 2}), raw_text(std::string(size, 't'))}));
  };
  EXPECT_EQ(text(text_size_max), "accepted");
  EXPECT_TRUE(says(text(text_size_max + 1), "text is too long"));
}

TEST(Body, IsRefusedWhenThereAreTooManyAddresses) {
  const auto addresses = [](std::size_t count) {
    return refusal_with(7, joined({raw_array(count), repeated(raw({0xa0}), count)}));
  };
  EXPECT_EQ(addresses(0), "accepted");
  EXPECT_EQ(addresses(addresses_max), "accepted");
  EXPECT_TRUE(says(addresses(addresses_max + 1), "addresses has too many elements"));
}

TEST(Body, IsRefusedWhenAFieldIsMissing) {
  for (const auto& [key, value] : hello_fields()) {
    raw_fields fields = hello_fields();
    fields.erase(key);
    EXPECT_TRUE(says(refusal_of(raw_body(fields)), "is missing")) << key;
  }
  EXPECT_TRUE(says(refusal_of(raw({0x80})), "version_min is missing"));
}

TEST(Body, IsRefusedWhenAFieldIsThereTwice) {
  EXPECT_TRUE(says(refusal_of<ping_body>(raw({0x82, 1, 1, 1, 2})), "number is there twice"));
  EXPECT_EQ(refusal_of<ping_body>(raw({0x83, 1, 1, 9, 2, 9, 3})), "accepted");
}

TEST(Body, IsRefusedWhenAKeyIsNoWholeNumber) {
  for (const byte_buffer& key : {raw({0xa1, '1'}), raw({0xc0}), raw({0xff}), raw({0x90}),
                                 raw({0x81, 1, 1}), raw({0xca, 0x3f, 0x80, 0, 0})}) {
    EXPECT_TRUE(says(refusal_of<ping_body>(joined({raw({0x82, 1, 1}), key, raw({1})})),
                     "a key that is not a whole number"));
  }
}

TEST(Body, IsRefusedWhenItIsNoMap) {
  for (const byte_buffer& body : {raw({0xc0}), raw({1}), raw({0xff}), raw({0x90}), raw({0xa1, 'a'}),
                                  raw_bytes(10), raw({0xca, 0, 0, 0, 0})})
    EXPECT_TRUE(says(refusal_of(body), "is not a map"));
  EXPECT_TRUE(says(refusal_of(raw({0xc1})), "not msgpack"));
}

TEST(Body, IsRefusedAtEveryLengthButItsOwn) {
  const byte_buffer whole = raw_body(hello_fields());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const byte_buffer cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_TRUE(says(refusal_of(cut), "ends too early")) << size;
  }
  EXPECT_TRUE(says(refusal_of(joined({whole, raw({0})})), "bytes behind the body"));
  EXPECT_TRUE(says(refusal_of<ping_body>(raw({0x81, 1, 5, 0xc0})), "bytes behind the body"));
  EXPECT_TRUE(says(refusal_of<ping_body>(raw({0x81, 1, 0xcd, 5})), "ends too early"));
}

TEST(Body, IsRefusedWithoutItsMac) {
  const byte_buffer body = raw({0x84, 1, 1, 2, 2, 3, 0xc2, 4, 0xc2});
  EXPECT_EQ(refusal_of<proof_body>(joined({body, byte_buffer(32)})), "accepted");
  EXPECT_TRUE(says(refusal_of<proof_body>(byte_buffer(31)), "no MAC"));
  EXPECT_NE(refusal_of<proof_body>(body), "accepted");
  EXPECT_NE(refusal_of<accept_body>(joined({body, byte_buffer(31)})), "accepted");
  EXPECT_NE(refusal_of<accept_body>(joined({body, byte_buffer(33)})), "accepted");
}

TEST(Body, IsRefusedInAMessageOfAnotherKind) {
  ping_body read;
  EXPECT_EQ(decode(raw_message(message_kind::pong, raw({0x81, 1, 5})), read), errc::protocol_error);
  EXPECT_EQ(decode(raw({7, 0, 0, 0}), read), errc::protocol_error);
  EXPECT_EQ(decode(raw({7, 1, 0, 0, 0, 0, 0, 0, 0x81, 1, 5}), read), errc::protocol_error);
}

}  // namespace
}  // namespace atbus::detail
