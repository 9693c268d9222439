// A peer that speaks the protocol and says anything: good messages at the wrong time, changed ones,
// forged ones, bytes. It may end its own link, and nothing else: not the node, nor what the others do.
//
//   ATBUS_HOSTILE_SEEDS=20000 ATBUS_SEED=4711 bin/hostile_node_test --gtest_filter=RandomPeer.*
#include "atbus/topic.hpp"
#include "from_environment.h"
#include "protocol/broadcast_head.h"
#include "protocol/topic_head.h"
#include "raw_body.h"
#include "unit/node/core/command_message.h"
#include "unit/node/hand_played_circuit.h"

namespace atbus::detail {
namespace {

constexpr std::uint64_t root = 1;
constexpr std::uint64_t hub = 64;         // children 64 to 127
constexpr std::uint64_t child = 70;       // below it
constexpr std::uint64_t peer = 2;         // beside it
constexpr std::uint64_t bad_child = 100;  // what says anything, as one of these
constexpr std::uint64_t bad_peer = 3;
constexpr std::array<std::uint64_t, 4> honest{root, hub, child, peer};

class anything {
 public:
  explicit anything(std::uint64_t seed) : random_(seed) {}

  std::uint64_t draw(std::uint64_t limit) { return random_() % limit; }

  // The answer to a command, or nearly.
  byte_buffer answer_to(std::uint64_t asked) {
    std::vector<std::string> words(draw(3));
    for (std::string& word : words)
      word = text();
    return command_message(flag_reply, draw(4) == 0 ? static_cast<std::uint32_t>(number()) : 0,
                           asked, words);
  }
  // Of what the peer with that id says.
  byte_buffer message(std::uint64_t self) {
    self_ = self;
    byte_buffer made = good();
    if (draw(3) == 0)
      damage(made);
    return made;
  }

 private:
  std::uint64_t number() { return draw(4) == 0 ? random_() : draw(6); }
  bus_id id() {
    constexpr std::array<std::uint64_t, 6> ids{hub, child, peer, bad_child, bad_peer, 5};
    return draw(10) == 0 ? bus_id{random_()} : bus_id{ids[draw(ids.size())]};
  }
  std::string text() { return std::string(draw(4) == 0 ? draw(900) : draw(20), 'x'); }
  host_identity host() { return host_of(draw(2) == 0 ? hub : number()); }
  template <class Body>
  static byte_buffer encoded(const Body& body) {
    byte_buffer made;
    encode(body, made);
    return made;
  }
  introduction self() {
    introduction made;
    made.id = id();
    made.incarnation = number();
    made.addresses = {address_of(draw(110)), text()};
    made.host = host();
    made.message_limit = number();
    made.range_length = static_cast<std::uint8_t>(draw(64));
    made.as = static_cast<relation>(draw(4));
    return made;
  }
  byte_buffer data() {
    message_head head{message_kind::data, 0, 0, static_cast<std::uint32_t>(number())};
    head.flags = static_cast<std::uint8_t>(draw(3) == 0 ? draw(32) : 0);
    byte_buffer made(message_head_size);
    encode(head, made.data());
    append_bytes(made, as_bytes(text()));
    return made;
  }
  byte_buffer command() {
    // A number, a deadline, and an array of words.
    byte_buffer made = raw({0, static_cast<int>(draw(2) == 0 ? 8 : 16), 0, 0, 0, 0, 0, 0});
    append_bytes(made, raw({static_cast<int>(draw(256)), 0, 0, 0, 0, 0, 0, 0}));
    append_bytes(made, raw({0, 0, 0, 0, static_cast<int>(draw(256)), 0, 0, 0}));
    append_bytes(made, raw_array(draw(4)));
    append_bytes(made, raw_text(text()));
    return made;
  }
  // What a node answers itself.
  byte_buffer built_in_command() {
    const std::string simple = draw(3) == 0   ? "atbus.ping"
                               : draw(2) == 0 ? "atbus.report"
                                              : "atbus.route";
    std::vector<std::string> words{simple};
    if (draw(4) != 0)
      words = {
          "atbus.ask",
          draw(2) == 0 ? id().to_string() : std::to_string(draw(2) == 0 ? bad_child : bad_peer),
          simple};
    if (draw(3) == 0)
      words.push_back(draw(2) == 0 ? id().to_string() : text());
    return command_message(flag_command, 0, number(), words);
  }
  byte_buffer interest() {
    const bool wanted = draw(3) != 0;
    return encoded(
        interest_body{.topic = draw(8) == 0   ? text()
                               : draw(2) == 0 ? "news"
                                              : std::to_string(draw(20)),
                      .wanted = wanted,
                      .slow = static_cast<std::uint8_t>(draw(8) == 0 ? draw(256) : draw(3)),
                      .waiting = draw(8) == 0 ? number() : 1 + draw(10),
                      .fresh = draw(3) != 0,
                      .whole = draw(3) == 0,
                      .turn = number()});
  }
  byte_buffer copy() {
    topic_head head{.publisher = draw(2) == 0 ? bus_id{self_} : id(),
                    .stream = 1 + draw(3),
                    .number = number(),
                    .what = static_cast<topic_part>(draw(4)),
                    .hops_left = static_cast<std::uint8_t>(draw(20)),
                    .unproven = draw(2) == 0,
                    .name = draw(4) == 0 ? "other" : "news"};
    head.base = head.number - std::min(head.number, draw(3));
    if (head.what >= topic_part::begin) {
      head.publisher = {};
      head.stream = 0;
    }
    byte_buffer made(message_head_size + topic_head_size(head.name) + topic_mark_size);
    encode(message_head{message_kind::data, flag_topic, 0, static_cast<std::uint32_t>(draw(8))},
           made.data());
    encode(head, made.data() + message_head_size);
    if (head.what >= topic_part::begin)
      made.resize(made.size() - topic_mark_size);
    return made;
  }
  byte_buffer request() {
    // A number, a deadline, what is left of the time, and a payload.
    byte_buffer made = raw(
        {0, static_cast<int>(draw(2) == 0 ? 64 : 80), 0, 0, static_cast<int>(draw(8)), 0, 0, 0});
    append_bytes(made, raw({static_cast<int>(draw(256)), 0, 0, 0, 0, 0, 0, 0}));
    append_bytes(made, raw({0, 0, 0, 0, 0, 0, 0, static_cast<int>(draw(4) == 0 ? draw(256) : 1)}));
    append_bytes(made, raw({0, 0, static_cast<int>(draw(256)), 0,
                            static_cast<int>(draw(8) == 0 ? draw(256) : 0), 0, 0, 0}));
    append_bytes(made, as_bytes(text()));
    return made;
  }
  byte_buffer routed() {
    routed_head head;
    head.hops_left = static_cast<std::uint8_t>(draw(20));
    head.step = static_cast<circuit_step>(draw(6));
    head.asks = draw(2) == 0;
    head.destination = id();
    head.source = draw(2) == 0 ? bus_id{self_} : id();
    head.circuit = number();
    head.number = number();
    if (head.step == circuit_step::carry) {
      const byte_buffer inside = draw(2) == 0 ? encoded(hello_body{self(), id()}) : data();
      return routed_message(head, {inside});
    }
    if (head.step == circuit_step::failed)
      head.reason = static_cast<errc>(draw(errc_count));
    byte_buffer made(routed_head_size);
    encode(head, made.data());
    return made;
  }
  byte_buffer broadcast() {
    const broadcast_head head{.type = 0,
                              .to = *id_range::parse(draw(2) == 0 ? "64/58" : "0/0"),
                              .source = draw(2) == 0 ? bus_id{self_} : id(),
                              .number = number() | 1,
                              .answers = draw(2) == 0};
    byte_buffer made(broadcast_head_size);
    encode(head, made.data());
    append_bytes(made, as_bytes(text()));
    return made;
  }
  byte_buffer handshake() {
    switch (draw(5)) {
      case 0:
        return encoded(hello_body{self(), id()});
      case 1:
        return encoded(welcome_body{self(), 1});
      case 2:
        return encoded(proof_body{{number(), number(), draw(2) == 0, draw(2) == 0}, {}});
      case 3:
        return encoded(accept_body{{number(), number(), draw(2) == 0, draw(2) == 0}, {}});
      default:
        return encoded(refuse_body{static_cast<errc>(draw(60)), text()});
    }
  }
  byte_buffer good() {
    switch (draw(23)) {
      case 14:
        return draw(2) == 0 ? encoded(cancel_body{number()})
               : draw(2) == 0
                   ? encoded(in_hand_body{number()})
                   : encoded(turned_away_body{number(), number(), number(), draw(2) == 0});
      case 15:
      case 16:
        return request();
      case 17:
      case 18:
        return interest();
      case 19:
      case 20:
      case 21:
        return copy();
      case 0:
        return encoded(flow_body{number(), number()});
      case 1:
        return encoded(acknowledge_body{number()});
      case 2:
        return encoded(ping_body{number()});
      case 3:
        return encoded(pong_body{number()});
      case 4:
        return encoded(addresses_body{{address_of(draw(110)), text()}});
      case 5:
        return encoded(where_body{id()});
      case 6:
        return encoded(found_body{id(), id(), {address_of(draw(110))}, host()});
      case 7:
        return draw(4) == 0 ? encoded(bye_body{errc::ok, text()}) : data();
      case 8:
        return handshake();
      case 9:
        return draw(2) == 0 ? command() : built_in_command();
      case 10:
        return broadcast();
      case 11:
      case 12:
        return routed();
      default:
        return data();
    }
  }
  void damage(byte_buffer& of) {
    switch (draw(4)) {
      case 0:
        of.resize(draw(of.size() + 1));
        break;
      case 1:
        append_bytes(of, as_bytes(text()));
        break;
      case 2:
        for (std::byte& one : of)
          one = draw(8) == 0 ? static_cast<std::byte>(random_()) : one;
        break;
      default:
        if (!of.empty())
          of[draw(of.size())] ^= static_cast<std::byte>(1U << draw(8));
    }
  }

  std::mt19937_64 random_;
  std::uint64_t self_ = 0;
};

// The hub with its parent, its child and its peer, which all send to each other, and the visits of one that says
// anything.
class world {
 public:
  explicit world(std::uint64_t seed) : random_(seed), net_(seed) {
    nodes_[root] = std::make_unique<party>(net_, root, plain().children("0/56"));
    nodes_[hub] =
        std::make_unique<party>(net_, hub, plain().children("64/58").parent(address_of(root)));
    nodes_[child] = std::make_unique<party>(net_, child, plain().parent(address_of(hub)));
    nodes_[peer] = std::make_unique<party>(net_, peer);
    for (const std::uint64_t id : honest) {
      nodes_[id]->on_message = [this, id](const message& m) { take(m, id); };
      nodes_[id]->node.user().on_request([this](atbus::request& r) {
        if (kept_.size() < 100)
          kept_.push_back(r.detach());
        else
          kept_.clear();
      });
    }
    nodes_[peer]->connect(hub);
    for (const std::uint64_t id : {root, child, hub}) {
      const auto take_news = [this, id](const topic_message& m) { take(m, id); };
      const auto missed = [this](bus_id from, std::uint64_t messages) {
        if (std::find(honest.begin(), honest.end(), from.value()) != honest.end())
          wrong_ += std::to_string(messages) + " of " + from.to_string() + " are missed; ";
      };
      EXPECT_TRUE(nodes_[id]->node.user().subscribe("news", take_news, {.on_missed = missed}));
      news_[id] = std::make_unique<topic>(nodes_[id]->node.user(), "news");
    }
  }

  void run() {
    ASSERT_TRUE(net_.run_until(
        [&] {
          return nodes_[peer]->is_connected(hub) && nodes_[child]->is_connected(hub) &&
                 nodes_[hub]->is_connected(root);
        },
        5s));
    net_.run_for(5ms);
    for (int visits = 0; visits != 12; ++visits) {
      visit();
      all_send();
      all_publish();
    }
    ASSERT_TRUE(net_.run_until([&] { return sent_ == handled_ && published_ == taken_; }, 60s))
        << "what honest nodes sent to each other does not arrive: "
        << sent_total() - handled_total() << " messages";
    for (const std::uint64_t id : honest) {
      // Of an answer to the bad one it may say what it likes.
      for (const party::report& lost : nodes_[id]->reports)
        EXPECT_FALSE(is_honest(lost.destination.value())) << id << ": " << lost.text;
      for (const std::uint64_t other : honest) {
        EXPECT_EQ(nodes_[id]->logged("the link to " + std::to_string(other) + " is"), 0)
            << id << " has lost its link to " << other;
      }
    }
    EXPECT_EQ(wrong_, "");
  }

 private:
  using flow = std::pair<std::uint64_t, std::uint64_t>;  // from, to

  [[nodiscard]] static bool is_honest(std::uint64_t id) {
    return std::find(honest.begin(), honest.end(), id) != honest.end();
  }
  void take(const message& m, std::uint64_t at) {
    const std::uint64_t from = m.source().value();
    if (!is_honest(from))
      return;  // others may send what they like, in their own name
    std::uint64_t& next = handled_[{from, at}];
    if (m.text() != "m" + std::to_string(next))
      wrong_ += std::to_string(at) + " got " + std::string{m.text()} + " of " +
                std::to_string(from) + " in place of m" + std::to_string(next) + "; ";
    ++next;
  }
  void take(const topic_message& m, std::uint64_t at) {
    const std::uint64_t from = m.publisher().value();
    if (std::find(honest.begin(), honest.end(), from) == honest.end())
      return;
    std::uint64_t& last = taken_[{from, at}];
    if (m.text() != "n" + std::to_string(++last))
      wrong_ += std::to_string(at) + " got " + std::string{m.text()} + " of " +
                std::to_string(from) + "'s news in place of n" + std::to_string(last) + "; ";
  }
  void all_publish() {
    for (const auto& [from, news] : news_) {
      const std::uint64_t number = published_[{from, from}] + 1;
      ASSERT_TRUE(news->publish(0, "n" + std::to_string(number)));
      nodes_[from]->node.wake();
      for (const auto& [to, other] : news_)
        published_[{from, to}] = number;
    }
  }
  void all_send() {
    constexpr std::array<flow, 6> flows{flow{hub, child}, {child, hub}, {hub, peer},
                                        {peer, hub},      {hub, root},  {root, child}};
    for (const flow& one : flows) {
      for (std::uint64_t left = random_.draw(4); left != 0; --left) {
        std::uint64_t& next = sent_[one];
        ASSERT_TRUE(nodes_[one.first]->send(one.second, "m" + std::to_string(next)));
        ++next;
        (void)handled_[one];
      }
    }
  }
  void visit() {
    const bool registers = random_.draw(4) != 0;
    const bool as_child = random_.draw(2) == 0;
    const std::uint64_t self_id = as_child ? bad_child : bad_peer;
    // One that only answers, in words of its own, what the hub asks it for the other.
    std::optional<hand_played> helper;
    if (random_.draw(3) == 0) {
      helper.emplace(net_, as_child ? bad_peer : bad_child, hub, true);
      (void)net_.run_until([&] { return helper->has_ended() || helper->is_registered(); }, 5s);
      if (!helper->has_ended())
        helper->say(flow_body{.next = 1});
    }
    hand_played bad{net_, self_id, hub, registers, true, [&](introduction& self) {
                      self.as = as_child ? relation::child : relation::peer;
                      self.capabilities = random_.draw(4) == 0 ? 0 : capability_topics;
                      if (random_.draw(4) == 0)
                        self.host = host_of(hub);
                      if (random_.draw(3) == 0)
                        self.message_limit = random_.draw(40);
                    }};
    (void)net_.run_until(
        [&] { return bad.has_ended() || (registers ? bad.is_registered() : bad.is_open()); }, 5s);
    if (registers && random_.draw(3) != 0 && !bad.has_ended())
      bad.say(flow_body{.next = 1});  // so that data may follow
    if (registers && random_.draw(3) == 0 && !bad.has_ended())
      pretend(bad, self_id);
    for (std::uint64_t left = 1 + random_.draw(12); left != 0 && !bad.has_ended(); --left) {
      bad.say_bytes(random_.message(self_id));
      if (random_.draw(2) == 0)
        net_.run_for(std::chrono::milliseconds{random_.draw(30)});
      answer_commands(bad);
      if (helper)
        answer_commands(*helper);
    }
    net_.run_for(std::chrono::milliseconds{random_.draw(500)});
  }
  // What the hub asks it, mostly for another one.
  void answer_commands(hand_played& bad) {
    const std::vector<std::uint64_t> asked = commands_in(bad.got);
    bad.got.clear();
    for (const std::uint64_t number : asked) {
      if (!bad.has_ended())
        bad.say_bytes(random_.answer_to(number));
    }
  }
  // Over its link it registers as one of the honest nodes, and sends in that one's name.
  void pretend(hand_played& bad, std::uint64_t self_id) {
    const std::uint64_t as = honest[random_.draw(honest.size())];
    const std::uint64_t whom = honest[random_.draw(honest.size())];
    introduction self = introduction_of(as, 1 + random_.draw(5));
    if (random_.draw(2) == 0)
      self.incarnation = nodes_[as]->core().self().incarnation;
    hand_played_circuit call{bad, self_id, whom, self, 1 + random_.draw(1000)};
    (void)net_.run_until([&] { return bad.has_ended() || call.look(); }, 1s);
    if (call.is_registered() && as != whom)
      wrong_ += std::to_string(self_id) + " has registered with " + std::to_string(whom) + " as " +
                std::to_string(as) + "; ";
    if (bad.has_ended())
      return;
    call.say(flow_body{.next = random_.draw(1000)});
    byte_buffer forged(message_head_size);
    encode(message_head{.type = 3}, forged.data());
    call.say_bytes(forged);
  }
  [[nodiscard]] static std::uint64_t sum(const std::map<flow, std::uint64_t>& of) {
    std::uint64_t all = 0;
    for (const auto& [of_flow, count] : of)
      all += count;
    return all;
  }
  [[nodiscard]] std::uint64_t sent_total() const { return sum(sent_); }
  [[nodiscard]] std::uint64_t handled_total() const { return sum(handled_); }

  std::vector<atbus::request> kept_;  // of anybody's
  anything random_;
  simulated_network net_;
  std::map<std::uint64_t, std::unique_ptr<party>> nodes_;
  std::map<flow, std::uint64_t> sent_;
  std::map<flow, std::uint64_t> handled_;
  std::map<std::uint64_t, std::unique_ptr<topic>> news_;
  std::map<flow, std::uint64_t> published_;
  std::map<flow, std::uint64_t> taken_;
  std::string wrong_;
};

TEST(RandomPeer, HarmsItsOwnLinkAlone) {
  const std::uint64_t first = test::from_environment("ATBUS_SEED", 1);
  const std::uint64_t seeds = test::from_environment("ATBUS_HOSTILE_SEEDS", 200);
  for (std::uint64_t seed = first; seed != first + seeds; ++seed) {
    world{seed}.run();
    ASSERT_FALSE(HasFailure()) << "ATBUS_HOSTILE_SEEDS=1 ATBUS_SEED=" << seed;
  }
}

}  // namespace
}  // namespace atbus::detail
