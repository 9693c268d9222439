// Who speaks to nodes of a simulated network and never proves who it is: it dials one, or answers where
// one dials, in the name of another node. What it says follows from a seed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "atbus/address.hpp"
#include "dice.h"
#include "protocol/control.h"
#include "quiet_link_events.h"
#include "testing/simulated_link.h"
#include "testing/simulated_network.h"

namespace atbus::detail {

class unproven_peer final : private quiet_link_events {
 public:
  // On that host. It speaks in the name of `name`, to `to`.
  unproven_peer(simulated_network& net, host_identity host, const node_instance& name, bus_id to,
                std::uint64_t seed)
      : name_(name), to_(to), draw_(seed), way_(net, {.host = host}, [this, &net] {
          net.at(net.now() + std::chrono::microseconds{1}, [this, alive = alive_] {
            if (*alive)
              way_.poll({});
          });
        }) {
    way_.start(name, *this);
  }
  ~unproven_peer() { *alive_ = false; }

  void dial(const std::string& address, std::uint64_t links) {
    for (; links != 0; --links)
      (void)way_.connect(*address::parse(address));
  }
  void listen(const std::string& address) { (void)way_.listen(*address::parse(address)); }

 private:
  void opened(link& at, bool accepted) override {
    if (!accepted && !draw_.one_in(4))
      say_hello(at);
    while (draw_.one_in(3))
      say_something(at);
  }
  bool received_other(link& from, bytes_view message, bool) override {
    const bool is_hello =
        !message.empty() && message[0] == static_cast<std::byte>(message_kind::hello);
    if (is_hello && !draw_.one_in(4))
      say_welcome(from);
    while (draw_.one_in(2))
      say_something(from);
    if (draw_.one_in(16))
      from.abort();
    return true;
  }

  [[nodiscard]] introduction introduce() {
    introduction self;
    self.id = draw_.one_in(8) ? bus_id{draw_.below(4)} : name_.id;
    // Of the incarnation that there is, of one before or after it, or none.
    self.incarnation = draw_.one_in(2) ? name_.incarnation : draw_.below(3) + name_.incarnation - 1;
    for (std::byte& one : self.nonce)
      one = static_cast<std::byte>(draw_.word());
    if (draw_.one_in(4))
      self.addresses.emplace_back("ipv4://10.9.0.1:7000");
    self.message_limit = draw_.of<std::uint64_t>({0, 1, 1024, 65536, ~std::uint64_t{0}});
    if (draw_.one_in(4)) {
      self.range_first = name_.id;
      self.range_length = static_cast<std::uint8_t>(draw_.below(64));
    }
    self.as = static_cast<relation>(draw_.below(4));
    if (draw_.one_in(16))
      self.version_min = self.version_max = static_cast<std::uint16_t>(draw_.below(4));
    return self;
  }
  void say_hello(link& at) {
    say(at, hello_body{.self = introduce(), .expected = draw_.one_in(4) ? bus_id{} : to_});
  }
  void say_welcome(link& at) {
    say(at, welcome_body{.self = introduce(), .version = protocol_version});
  }
  [[nodiscard]] resume_point resume() {
    return {.session = draw_.below(3),
            .last = draw_.of<std::uint64_t>({0, 1, 1000, ~std::uint64_t{0}}),
            .sole = draw_.one_in(2),
            .superseded = draw_.one_in(2)};
  }
  [[nodiscard]] std::uint64_t number() {
    return draw_.of<std::uint64_t>({0, 1, 2, 1000, ~std::uint64_t{0}});
  }
  // Never right.
  [[nodiscard]] message_mac mac() {
    message_mac made;
    for (std::byte& one : made)
      one = static_cast<std::byte>(draw_.word() | 1);
    return made;
  }
  void say_something(link& at) {
    switch (draw_.below(14)) {
      case 0:
        return say_hello(at);
      case 1:
        return say_welcome(at);
      case 2:
        return say(at, proof_body{.resume = resume(), .mac = mac()});
      case 3:
        return say(at, accept_body{.resume = resume(), .mac = mac()});
      case 4:
        return say(at, acknowledge_body{number()});
      case 5:
        return say(at, ping_body{number()});
      case 6:
        return say(at, pong_body{number()});
      case 7:
        return say(at, flow_body{.next = number(), .before = number()});
      case 8:
        return say(at, bye_body{.reason = errc::superseded, .text = "go away"});
      case 9:
        return say(at, refuse_body{.reason = errc::superseded, .text = "go away"});
      case 10:
        return say(at, addresses_body{{"ipv4://10.9.0.1:7000"}});
      case 11:
        return say(at, where_body{to_});
      case 12:
        return (void)say_bytes_to(at, anything(false));
      default:
        return (void)say_bytes_to(at, anything(true));
    }
  }
  // Bytes, behind a head of a known kind or not.
  [[nodiscard]] byte_buffer anything(bool with_head) {
    byte_buffer made(draw_.below(300));
    for (std::byte& one : made)
      one = static_cast<std::byte>(draw_.word());
    if (with_head) {
      made.resize(std::max(made.size(), message_head_size));
      std::fill_n(made.begin(), message_head_size, std::byte{});
      made[0] = static_cast<std::byte>(draw_.below(message_kind_count));
    }
    return made;
  }
  template <class Body>
  static void say(link& at, const Body& body) {
    (void)say_to(at, body);
  }

  node_instance name_;
  bus_id to_;
  test::dice draw_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  simulated_transport way_;
};

}  // namespace atbus::detail
