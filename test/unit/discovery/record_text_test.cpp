#include "discovery/record_text.h"

#include <string>

#include "discovery/base64.h"
#include "discovery/dialled_addresses.h"
#include "discovery/line_splitter.h"
#include "test.h"

namespace atbus::test {
namespace {

using namespace atbus::detail;

TEST(RecordText, IsReadAsItWasWritten) {
  const directory_record record{.id = 0x10000,
                                .addresses = {"ipv4://10.0.0.7:7000", "unix://@one"},
                                .services = {"chat", "match"},
                                .labels = {{"zone", "a"}, {"note", "\"two\"\nlines"}},
                                .place = tree_place::relay};
  const auto text = write_record(record);
  ASSERT_TRUE(text);
  const auto read = read_record(0x10000, *text);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->record.addresses, record.addresses);
  EXPECT_EQ(read->record.services, record.services);
  EXPECT_EQ(read->record.labels, record.labels);
  EXPECT_EQ(read->record.place, tree_place::relay);
  EXPECT_EQ(read->wrong_addresses, 0);
}

// Other programs, of other versions of this library, read it.
TEST(RecordText, KeepsItsForm) {
  EXPECT_EQ(to_key(0x10000), "0000000000010000");
  EXPECT_EQ(
      *write_record({.id = 7, .addresses = {"unix://@one"}, .place = tree_place::root}),
      R"({"addresses":["unix://@one"],"labels":{},"place":"root","services":[],"version":1})");
}

TEST(RecordText, NeedsNoMoreThanAVersion) {
  const auto read = read_record(7, R"({"version":1,"later":{"or":"never"}})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->record.id, bus_id{7});
  EXPECT_TRUE(read->record.addresses.empty());
}

TEST(RecordText, KeepsAddressesThatItUnderstands) {
  const auto read = read_record(
      7, R"({"version":1,"addresses":["ipv9://x","unix://@one","","ipv4://1.2.3.4:99999"]})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->record.addresses, std::vector<std::string>{"unix://@one"});
  EXPECT_EQ(read->wrong_addresses, 3);
}

TEST(RecordText, IsRefusedByType) {
  EXPECT_EQ(read_record(7, R"({"version":2})").error(), errc::version_mismatch);
  EXPECT_EQ(read_record(7, std::string(record_bytes_max + 1, ' ')).error(),
            errc::message_too_large);
  std::string many = "{\"version\":1,\"addresses\":[\"unix://@0\"";
  for (int i = 0; i != 16; ++i)
    many += ",\"unix://@1\"";
  for (const std::string& text : std::initializer_list<std::string>{
           "",
           "{",
           "[]",
           "7",
           "null",
           "{}",
           R"({"version":"1"})",
           R"({"version":1.0})",
           R"({"version":1}x)",
           R"({"version":1,"addresses":"unix://@one"})",
           R"({"version":1,"addresses":[7]})",
           many + "]}",
           R"({"version":1,"services":[""]})",
           R"({"version":1,"services":["a\n"]})",
           R"({"version":1,"services":{"a":"b"}})",
           R"({"version":1,"labels":[]})",
           R"({"version":1,"labels":{"a":1}})",
           R"({"version":1,"place":"king"})",
           R"({"version":1,"place":7})",
           "{\"version\":1,\"labels\":{\"a\":\"\xff\"}}",
           "{\"version\":1,\"x\":" + std::string(50, '[') + std::string(50, ']') + "}"})
    EXPECT_EQ(read_record(7, text).error(), errc::malformed) << text;
}

TEST(RecordText, IsNotWrittenIfNobodyCouldReadIt) {
  directory_record record{.id = 7};
  EXPECT_TRUE(write_record(record));
  record.labels = {{"a", "\xff"}};
  EXPECT_EQ(write_record(record).error(), errc::invalid_argument);
  record.labels = {{"a", std::string(5000, 'x')}};
  EXPECT_EQ(write_record(record).error(), errc::invalid_argument);
}

TEST(RecordKey, IsAnIdOfSixteenDigits) {
  EXPECT_EQ(from_key("0000000000000007"), bus_id{7});
  EXPECT_EQ(from_key("ffffffffffffffff"), bus_id{~std::uint64_t{0}});
  for (const char* const wrong :
       {"", "7", "0000000000000000", "000000000000000A", "000000000000000g", "00000000000000007",
        "0x00000000000007", " 000000000000007", "+000000000000007"})
    EXPECT_FALSE(from_key(wrong)) << wrong;
}

TEST(DialledAddresses, HaveAHostInPlaceOfAllInterfaces) {
  using all = std::vector<std::string>;
  const all said{"ipv4://0.0.0.0:7000?tls=false", "ipv4://10.0.0.7:7000", "ipv6://[::]:7001",
                 "unix://@one"};
  EXPECT_EQ(addresses_to_dial(said, "", "10.0.0.8"),
            (all{"ipv4://10.0.0.8:7000?tls=false", "ipv4://10.0.0.7:7000", "unix://@one"}));
  EXPECT_EQ(addresses_to_dial(said, "", "fd00::8"),
            (all{"ipv4://10.0.0.7:7000", "ipv6://[fd00::8]:7001", "unix://@one"}));
  EXPECT_EQ(addresses_to_dial(said, "zone.example", "10.0.0.8"),
            (all{"dns://zone.example:7000?tls=false", "ipv4://10.0.0.7:7000",
                 "dns://zone.example:7001", "unix://@one"}));
  EXPECT_EQ(addresses_to_dial(said, "", ""), (all{"ipv4://10.0.0.7:7000", "unix://@one"}));
}

TEST(Base64, HasTheBytesOfRfc4648) {
  const std::array<std::pair<std::string_view, std::string_view>, 7> known{
      {{"", ""},
       {"f", "Zg=="},
       {"fo", "Zm8="},
       {"foo", "Zm9v"},
       {"foob", "Zm9vYg=="},
       {"fooba", "Zm9vYmE="},
       {"foobar", "Zm9vYmFy"}}};
  for (const auto& [bytes, text] : known) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  for (const char* const wrong : {"Z", "Zg", "Zg=", "Z===", "Zm9v\n", "Zm 9", "Zg==Zg==", "_-+/"})
    EXPECT_FALSE(from_base64(wrong)) << wrong;
}

TEST(LineSplitter, GivesEachLineOnceHoweverTheBytesCome) {
  const std::string_view bytes = "one\n\ntwo\nthree\nrest";
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    line_splitter lines{10};
    std::vector<std::string> got;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      EXPECT_TRUE(lines.take(bytes.substr(at, size), [&](std::string_view line) {
        got.emplace_back(line);
        return true;
      }));
    }
    EXPECT_EQ(got, (std::vector<std::string>{"one", "two", "three"})) << size;
  }
}

TEST(LineSplitter, FailsForGoodAtALineThatIsTooLongAndWhenItIsTold) {
  const auto any = [](std::string_view) { return true; };
  line_splitter whole{4};
  EXPECT_TRUE(whole.take("four\n", any));
  EXPECT_FALSE(whole.take("fives\n", any));
  EXPECT_FALSE(whole.take("four\n", any));
  line_splitter parts{4};
  EXPECT_TRUE(parts.take("fo", any));
  EXPECT_TRUE(parts.take("ur", any));
  EXPECT_FALSE(parts.take("s", any));
  line_splitter told{4};
  int count = 0;
  EXPECT_FALSE(told.take("a\nb\nc\n", [&](std::string_view) { return ++count != 2; }));
  EXPECT_EQ(count, 2);
}

}  // namespace
}  // namespace atbus::test
