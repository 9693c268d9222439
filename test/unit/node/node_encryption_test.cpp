// Nodes with a token encrypt their TCP links, and bind the registration to them.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "atbus/address.hpp"
#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "test.h"

namespace atbus {
namespace {

constexpr std::string_view shared_secret = "the secret of these two nodes";

class NodeEncryption : public ::testing::Test {
 protected:
  struct side {
    side(bus_id id, const node_options& options) : self{id, options} {
      self.on_log([this](std::string_view line) { log.append(line).append("\n"); });
      self.on_message([this](const message& m) { received.emplace_back(as_text(m.bytes())); });
    }
    std::string log;
    std::vector<std::string> received;
    node self;
  };
  static node_options with_token() { return node_options{}.token(shared_secret).retry(5ms, 20ms); }
  static void until(std::initializer_list<side*> ends, const std::function<bool()>& done) {
    bool is_done = false;
    for (const auto limit = now() + 10s; !(is_done = done()) && now() < limit;) {
      for (side* one : ends)
        one->self.poll();
    }
    EXPECT_TRUE(is_done) << (*ends.begin())->log;
  }
};

// Everything that passes through it is kept.
class wiretap {
 public:
  explicit wiretap(std::uint16_t to) : to_(to) {
    listener_ = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in6 at = loopback(0);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin6_port);
  }
  ~wiretap() {
    for (const pair& one : pairs_) {
      ::close(one.ends[0]);
      ::close(one.ends[1]);
    }
    ::close(listener_);
  }
  wiretap(const wiretap&) = delete;
  wiretap& operator=(const wiretap&) = delete;

  [[nodiscard]] std::string address() const { return "ipv6://[::1]:" + std::to_string(port_); }
  void pass_on() {
    if (const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        fd >= 0) {
      const int out = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in6 at = loopback(to_);
      EXPECT_EQ(::connect(out, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
      pairs_.push_back({{fd, out}});
    }
    for (const pair& one : pairs_) {
      for (const int from : {0, 1}) {
        char bytes[65536];
        const ssize_t n = ::recv(one.ends[from], bytes, sizeof bytes, MSG_DONTWAIT);
        if (n > 0) {
          seen.append(bytes, static_cast<std::size_t>(n));
          EXPECT_EQ(::send(one.ends[1 - from], bytes, static_cast<std::size_t>(n), MSG_NOSIGNAL),
                    n);
        } else if (n == 0) {
          ::shutdown(one.ends[1 - from], SHUT_WR);
        }
      }
    }
  }

  std::string seen;

 private:
  struct pair {
    int ends[2];
  };
  static sockaddr_in6 loopback(std::uint16_t port) {
    sockaddr_in6 at{};
    at.sin6_family = AF_INET6;
    at.sin6_addr = in6addr_loopback;
    at.sin6_port = htons(port);
    return at;
  }
  std::uint16_t to_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  std::vector<pair> pairs_;
};

TEST_F(NodeEncryption, ShowsTheNetworkNoMessageAndNoToken) {
  for (const bool encrypted : {true, false}) {  // without it the wiretap must see them
    side one{1, with_token().allow_unencrypted(!encrypted)};
    side two{2, with_token().allow_unencrypted(!encrypted)};
    const std::string option = encrypted ? "" : "?tls=false";
    ASSERT_TRUE(two.self.listen("ipv6://[::1]:0" + option));
    wiretap tap{address::parse(two.self.addresses().at(0))->port()};
    ASSERT_TRUE(one.self.connect(2, tap.address() + option));
    ASSERT_TRUE(one.self.send(2, 7, "meet me at the old oak"));
    until({&one, &two}, [&] {
      tap.pass_on();
      return two.received.size() == 1;
    });
    ASSERT_TRUE(two.self.send(1, 7, "the old oak it is"));
    until({&one, &two}, [&] {
      tap.pass_on();
      return one.received.size() == 1;
    });
    EXPECT_EQ(tap.seen.find("old oak") == std::string::npos, encrypted);
    EXPECT_EQ(tap.seen.find(shared_secret), std::string::npos);
    for (const side* end : {&one, &two})
      EXPECT_EQ(end->log.find("is not encrypted") == std::string::npos, encrypted) << end->log;
  }
}

TEST_F(NodeEncryption, RefusesPlainAddressesUnlessBothEndsAllowThem) {
  side strict{1, with_token()};
  const error refused = strict.self.listen("ipv6://[::1]:0?tls=false");
  EXPECT_EQ(refused.code(), errc::denied);
  EXPECT_NE(refused.text().find("allow_unencrypted"), std::string::npos) << refused.text();
  EXPECT_EQ(strict.self.connect(2, "ipv6://[::1]:1?tls=false").code(), errc::denied);

  side lax{2, with_token().allow_unencrypted()};
  ASSERT_TRUE(lax.self.listen("ipv6://[::1]:0?tls=false"));
  const std::string plain = lax.self.addresses().at(0);
  EXPECT_TRUE(plain.ends_with("?tls=false")) << plain;
  ASSERT_TRUE(strict.self.connect(2, plain.substr(0, plain.find('?'))));
  until({&strict, &lax}, [&] { return strict.self.stats().registrations_failed > 2; });
  EXPECT_EQ(strict.self.stats().registrations, 0U);
}

TEST_F(NodeEncryption, CountsAndLogsAnotherToken) {
  side one{1, node_options{}.token("another token than the other").retry(5ms, 20ms)};
  side two{2, with_token()};
  ASSERT_TRUE(two.self.listen("ipv6://[::1]:0"));
  ASSERT_TRUE(one.self.connect(2, two.self.addresses().at(0)));
  until({&one, &two}, [&] {
    return one.self.stats().registrations_failed > 2 && two.self.stats().registrations_failed > 2;
  });
  EXPECT_NE(one.log.find("secret"), std::string::npos) << one.log;
  EXPECT_NE(two.log.find("secret"), std::string::npos) << two.log;
  EXPECT_EQ(one.log.find("another token"), std::string::npos) << one.log;
}

TEST_F(NodeEncryption, RotatesTokens) {
  side one{1, node_options{}.token("the token of last year").retry(5ms, 20ms)};
  side two{2, node_options{}.token("the token of this year").token("the token of last year")};
  ASSERT_TRUE(two.self.listen("ipv6://[::1]:0"));
  ASSERT_TRUE(one.self.connect(2, two.self.addresses().at(0)));
  ASSERT_TRUE(one.self.send(2, 0, "rotated"));
  until({&one, &two}, [&] { return two.received.size() == 1; });
}

}  // namespace
}  // namespace atbus
