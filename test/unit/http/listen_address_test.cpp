// Where a status server listens, and which names of it requests may use.
#include "http/listen_address.h"

#include "test.h"

namespace atbus::detail {
namespace {

using namespace std::string_view_literals;

TEST(ListenAddress, IsReadAndWritten) {
  for (const char* const text : {"127.0.0.1:9464", "0.0.0.0:0", "[::1]:65535", "[::]:80"}) {
    const auto read = parse_listen_address(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->to_string(), text);
  }
}

TEST(ListenAddress, OfOtherFormsIsRefusedWithAnExample) {
  for (const std::string_view text : {""sv,
                                      ":"sv,
                                      "9464"sv,
                                      "127.0.0.1"sv,
                                      "127.0.0.1:"sv,
                                      "127.0.0.1:65536"sv,
                                      "127.0.0.1:-1"sv,
                                      "127.0.0.1:80x"sv,
                                      "localhost:80"sv,
                                      "::1:80"sv,
                                      "[::1]"sv,
                                      "[::1"sv,
                                      "[127.0.0.1]:80"sv,
                                      "[::1]80"sv,
                                      "http://127.0.0.1:80"sv,
                                      "127.0.0.1:80/"sv,
                                      " 127.0.0.1:80"sv,
                                      "127.0.0.1 :80"sv,
                                      "127.0.0.1\0:80"sv,
                                      "127.0.0.1:80?tls=true"sv}) {
    const auto read = parse_listen_address(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error(), errc::invalid_address);
    EXPECT_NE(read.error().text().find("[::1]:9464"), std::string::npos) << read.error().text();
  }
}

TEST(ListenAddress, ShowsNoControlCharactersOfWhatIsRefused) {
  const auto read = parse_listen_address("\x1b[2J");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().text().find('\x1b'), std::string::npos);
}

TEST(ListenAddress, KnowsLoopback) {
  for (const char* const text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"})
    EXPECT_TRUE(parse_listen_address(text)->is_loopback()) << text;
  for (const char* const text : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[fd00::1]:1"})
    EXPECT_FALSE(parse_listen_address(text)->is_loopback()) << text;
}

TEST(ListenAddress, NamesThisHostByAddressOrAsLocalhost) {
  for (const char* const host : {"127.0.0.1", "127.0.0.1:9464", "localhost", "localhost:9464",
                                 "[::1]", "[::1]:9464", "10.1.2.3:80"})
    EXPECT_TRUE(names_this_host(host)) << host;
  for (const char* const host : {"", "example.org", "example.org:9464", "localhost.example.org",
                                 "127.0.0.1.example.org", "[localhost]", "[::1", "127.1"})
    EXPECT_FALSE(names_this_host(host)) << host;
}

}  // namespace
}  // namespace atbus::detail
