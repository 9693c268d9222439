// Nodes of a simulated network that write down what they are told, and one that is played by hand.
#pragma once

#include "protocol/control.h"
#include "protocol/handshake.h"
#include "quiet_link_events.h"
#include "test.h"
#include "testing/foreign_code.h"
#include "testing/simulated_link.h"
#include "testing/simulated_network.h"
#include "testing/simulated_node.h"

namespace atbus::detail {

inline node_options plain() {
  return node_options{}.allow_unauthenticated();
}

inline std::string address_of(std::uint64_t id) {
  return "ipv4://10.0.0." + std::to_string(id) + ":7000";
}

inline host_identity host_of(std::uint64_t id) {
  host_identity made{};
  made[0] = static_cast<std::byte>(id);
  return made;
}

// Each is on a host of its own unless one is named, and listens at address_of(id).
class party {
 public:
  struct report {
    std::string text;
    errc outcome;
    errc reason;
    bus_id destination;
  };

  party(simulated_network& net, std::uint64_t id, const node_options& options = plain())
      : party(net, id, options, host_of(id)) {}
  party(simulated_network& net, std::uint64_t id, const node_options& options, host_identity host)
      : node(net, id, options, host) {
    node_handlers& on = core().handlers();
    on.on_message = [this](const message& what) {
      const foreign_code here;
      got.emplace_back(what.text());
      if (on_message)
        on_message(what);
    };
    on.on_undelivered = [this](const undelivered& what) {
      const foreign_code here;
      reports.push_back(
          {std::string{as_text(what.bytes())}, what.outcome(), what.reason(), what.destination()});
    };
    on.on_endpoint = [this](const endpoint&, endpoint_event event) {
      const foreign_code here;
      events.push_back(event);
    };
    on.on_writable = [this](bus_id) { ++writable; };
    on.on_log = [this](std::string_view line) {
      const foreign_code here;
      log.emplace_back(line);
    };
    // One that is said to be gone may listen there still.
    const auto where = core().listen(address_of(id));
    EXPECT_TRUE(where || where.error() == errc::receiver_exists) << where.error().text();
  }

  void connect(std::uint64_t id) {
    EXPECT_TRUE(core().connect(id, address_of(id)));
    node.wake();
  }
  status send(std::uint64_t to, std::string_view text) {
    const status sent = node.user().send(to, 0, text);
    node.wake();
    return sent;
  }
  [[nodiscard]] node_core& core() { return node.core(); }
  [[nodiscard]] bool is_connected(std::uint64_t id) {
    const auto all = core().endpoints();
    return std::any_of(all.begin(), all.end(), [&](const endpoint& one) {
      return one.id() == bus_id{id} && one.connected();
    });
  }
  [[nodiscard]] std::ptrdiff_t count(endpoint_event what) const {
    return std::count(events.begin(), events.end(), what);
  }
  [[nodiscard]] std::ptrdiff_t logged(std::string_view part) const {
    return std::count_if(log.begin(), log.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    });
  }

  std::vector<std::string> got;
  std::vector<report> reports;
  std::vector<endpoint_event> events;
  std::vector<std::string> log;
  int writable = 0;
  std::function<void(const message&)> on_message;
  simulated_node node;
};

// On a node's host: dials it and registers, if it is told to; then says whatever a test wants.
class hand_played final : private quiet_link_events {
 public:
  // `sole`: it says that it has no other link. `change`: of what it says of itself.
  hand_played(simulated_network& net, std::uint64_t id, std::uint64_t whom, bool registers,
              bool sole = true, std::function<void(introduction&)> change = {},
              const std::string& at = {})
      : net_(net),
        id_(id),
        registers_(registers),
        sole_(sole),
        change_(std::move(change)),
        way_(net, {.host = host_of(whom)}, [this] {
          net_.at(net_.now() + 1us, [this, alive = alive_] {
            if (*alive)
              way_.poll({});
          });
        }) {
    way_.start({id, 77}, *this);
    link_ = *way_.connect(*address::parse(at.empty() ? address_of(whom) : at));
  }
  ~hand_played() { *alive_ = false; }

  template <class Body>
  void say(const Body& body) {
    EXPECT_TRUE(say_to(*link_, body));
  }
  void say_bytes(bytes_view bytes) { EXPECT_TRUE(say_bytes_to(*link_, bytes)); }
  void stop_reading() { link_->pause(); }
  [[nodiscard]] bool is_open() const { return open_; }
  [[nodiscard]] bool is_registered() const { return registered_; }
  [[nodiscard]] bool has_ended() const { return link_ == nullptr; }
  // How many messages of a kind have come since it is registered.
  [[nodiscard]] std::ptrdiff_t heard(message_kind kind) const {
    return std::count_if(got.begin(), got.end(), [kind](const byte_buffer& message) {
      message_head head;
      return decode(message, head) == head_fault::none && head.kind == kind;
    });
  }

  std::vector<byte_buffer> got;  // since it is registered

 private:
  void opened(link&, bool) override {
    open_ = true;
    if (!registers_)
      return;
    introduction self;
    self.id = id_;
    self.incarnation = 77;
    self.nonce[0] = std::byte{5};
    self.message_limit = 1024;
    if (change_)
      change_(self);
    shake_ = std::make_unique<handshake_initiator>(
        self, bus_id{}, none_, [sole = sole_](const peer_identity&) {
          return result<resume_point>{resume_point{1, 0, sole}};
        });
    say_bytes(shake_->start().send);
  }
  bool received_other(link&, bytes_view message, bool) override {
    if (registered_)
      got.emplace_back(message.begin(), message.end());
    if (!shake_ || registered_)
      return true;
    const handshake_step step = shake_->receive(message);
    if (!step.send.empty())
      say_bytes(step.send);
    registered_ = step.state == handshake_state::done;
    return true;
  }
  void closed(link&, const error&) override { link_ = nullptr; }

  simulated_network& net_;
  bus_id id_;
  bool registers_;
  bool sole_;
  std::function<void(introduction&)> change_;
  bool open_ = false;
  bool registered_ = false;
  token_list none_;
  std::unique_ptr<handshake_initiator> shake_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  simulated_transport way_;
  link* link_ = nullptr;
};

}  // namespace atbus::detail
