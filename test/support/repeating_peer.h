// A node of a simulated network that sends to another one, loses its link again and again, and after each
// registration repeats more than it needs to: also what the other one says it has. The protocol lets a
// sender do that. What the other one hands to its handler has to be new nevertheless.
//
// A message has no bytes; its type is its number, from 1.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "atbus/address.hpp"
#include "dice.h"
#include "protocol/control.h"
#include "protocol/handshake.h"
#include "quiet_link_events.h"
#include "testing/simulated_link.h"
#include "testing/simulated_network.h"

namespace atbus::detail {

class repeating_peer final : private quiet_link_events {
 public:
  // On that host, with a token or without one.
  repeating_peer(simulated_network& net, host_identity host, bus_id id, token_list tokens,
                 std::uint64_t seed)
      : net_(net),
        host_(host),
        id_(id),
        tokens_(std::move(tokens)),
        draw_(seed),
        way_(net, {.host = host}, [this] { later({}, [this] { way_.poll({}); }); }) {
    way_.start({id_, incarnation}, *this);
  }
  ~repeating_peer() { *alive_ = false; }
  repeating_peer(const repeating_peer&) = delete;
  repeating_peer& operator=(const repeating_peer&) = delete;

  [[nodiscard]] bus_id id() const noexcept { return id_; }

  // Dials it for as long as this object lives.
  void dial(const std::string& address) {
    const auto made = way_.connect(*address::parse(address));
    link_ = made ? *made : nullptr;
    later(std::chrono::milliseconds{1} + draw_.time(std::chrono::seconds{1}), [this, address] {
      if (link_ != nullptr)
        std::exchange(link_, nullptr)->abort();
      dial(address);
    });
  }

 private:
  static constexpr std::uint64_t incarnation = 77;

  template <class What>
  void later(std::chrono::nanoseconds after, What what) {
    net_.at(net_.now() + std::max<std::chrono::nanoseconds>(after, std::chrono::microseconds{1}),
            [alive = alive_, what = std::move(what)]() mutable {
              if (*alive)
                what();
            });
  }

  void opened(link& at, bool) override {
    introduction self;
    self.id = id_;
    self.incarnation = incarnation;
    self.host = host_;
    self.message_limit = 1024;
    for (std::byte& one : self.nonce)
      one = static_cast<std::byte>(draw_.word());
    shake_.emplace(self, bus_id{}, tokens_, [](const peer_identity&) {
      return result<resume_point>{resume_point{.session = 1, .last = 0, .sole = true}};
    });
    say_all(at, shake_->start().send);
  }
  bool received_other(link& from, bytes_view message, bool) override {
    if (&from != link_ || !shake_ || shake_->state() != handshake_state::going_on)
      return true;
    const handshake_step step = shake_->receive(message);
    if (!step.send.empty())
      say_all(from, step.send);
    if (step.state == handshake_state::done)
      repeat(from);
    return true;
  }

  // Also what was handled, if the other end remembers it; else what may have been handled is left out.
  void repeat(link& to) {
    const resume_point& known = shake_->resume();
    const bool remembers = shake_->peer().incarnation == peer_ && known.session == session_;
    peer_ = shake_->peer().incarnation;
    session_ = known.session;
    std::uint64_t first = sent_ + 1;
    if (remembers)
      first = std::max(session_first_, known.last + 1 - std::min(known.last, draw_.below(6)));
    else
      session_first_ = first;
    if (!say_to(to, flow_body{.next = first, .before = first - 1}))
      return to.abort();
    const std::uint64_t end = first + 1 + draw_.below(8);
    for (std::uint64_t number = first; number != end; ++number) {
      byte_buffer bytes(message_head_size);
      encode(message_head{.type = static_cast<std::uint32_t>(number)}, bytes.data());
      say_all(to, bytes);
    }
    sent_ = std::max(sent_, end - 1);
  }

  // A gap would give later messages the numbers of earlier ones.
  static void say_all(link& to, bytes_view bytes) {
    if (!say_bytes_to(to, bytes))
      to.abort();
  }

  void closed(link& at, const error&) override {
    if (&at == link_)
      link_ = nullptr;
  }

  simulated_network& net_;
  host_identity host_;
  bus_id id_;
  token_list tokens_;
  test::dice draw_;
  std::uint64_t sent_ = 0;           // the highest number
  std::uint64_t peer_ = 0;           // incarnation
  std::uint64_t session_ = 0;        // of what was sent
  std::uint64_t session_first_ = 1;  // the lowest number that was sent in it
  std::optional<handshake_initiator> shake_;
  link* link_ = nullptr;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  simulated_transport way_;
};

}  // namespace atbus::detail
