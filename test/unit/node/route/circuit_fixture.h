// Two circuits' ends over relays that drop, delay, reorder and refuse.
#pragma once

#include "atbus/clock.hpp"
#include "node/route/circuit.h"
#include "raw_body.h"
#include "routed_message.h"
#include "test.h"
#include "test_random.h"

namespace atbus::detail {

inline constexpr std::byte data_kind{0};
inline constexpr std::byte call_kind{1};  // hello
inline constexpr std::byte told_kind{6};  // acknowledge

class end;

struct network {
  explicit network(std::uint64_t seed) : random(seed), clock(1s) {}

  [[nodiscard]] bool happens(unsigned percent) { return random() % 100 < percent; }
  void run_for(std::chrono::nanoseconds time, const std::function<void()>& each = {});

  std::mt19937_64 random;
  manual_clock clock;
  std::multimap<std::chrono::nanoseconds, std::function<void()>> under_way;
  std::vector<end*> ends;
  unsigned drops = 0;    // of a hundred
  unsigned fails = 0;    // dropped, and the origin is told
  unsigned changes = 0;  // a bit of it
  errc reason = errc::would_block;
  unsigned blocks = 0;             // has no room
  std::size_t capacity = 1 << 30;  // bytes under way to an end: what is more fails
  std::uint64_t failed = 0;
  bool reorders = false;
  // A relay that looks at what it passes on.
  std::function<void(const routed_head&, bytes_view)> carries = [](const routed_head&, bytes_view) {
  };
  std::uint64_t carried = 0;  // by relays: batches, and words about them
  std::size_t longest = 0;    // of the batches
};

// A node as circuits see it: hops, events, and a session that counts and acknowledges.
class end final : public next_hops, public link_events {
 public:
  end(network& net, std::uint64_t id,
      const circuit_options& options = {.message_limit = 16 * 1024, .queue_size = 64 * 1024})
      : random(id),
        all(id, options, *this, *this, timers, net.clock, random, progress),
        id_(id),
        net_(net) {
    net.ends.push_back(this);
  }

  status pass_on(const routed_head& head, bytes_view batch) noexcept override {
    if (net_.happens(net_.blocks)) {
      blocked = true;
      return errc::would_block;
    }
    if (no_way)
      return errc::no_route;
    ++net_.carried;
    net_.longest = std::max(net_.longest, batch.size());
    words_said += head.step == circuit_step::expects ? 1 : 0;
    std::vector<std::byte> message(routed_head_size);
    encode(head, message.data());
    message.insert(message.end(), batch.begin(), batch.end());
    routed_head read;
    EXPECT_TRUE(decode(message, read));
    called_as = read.circuit;
    messages_sent += read.messages;
    EXPECT_TRUE(read.messages < 2 || batch.size() <= 4096 + batch_cipher::overhead)
        << "more than every node takes";
    if (net_.happens(net_.drops))
      return {};
    const bool full = under_way_ + batch.size() > net_.capacity;
    if (read.step == circuit_step::carry && (net_.happens(net_.fails) || full)) {
      ++net_.failed;
      read.step = circuit_step::failed;
      read.reason = net_.reason;
      std::swap(read.source, read.destination);
      std::vector<std::byte> bytes(routed_head_size);
      encode(read, bytes.data());
      send(read, std::move(bytes), this);
      return {};
    }
    if (!batch.empty() && net_.happens(net_.changes))
      message[routed_head_size + net_.random() % batch.size()] ^= std::byte{1};
    net_.carries(read, message);
    for (end* one : net_.ends) {
      if (one->id_ == head.destination)
        send(read, message, one);
    }
    return {};
  }
  link_trust trust_towards(bus_id) const noexcept override { return link_trust::same_user; }
  std::string way_to(bus_id) const override { return "a way"; }
  void end_poll() noexcept override { ++polls_ended; }

  void opened(link& at, bool accepted) override {
    EXPECT_EQ(at.kind(), link_kind::relayed);
    if (accepted) {
      ++accepts;
      at_ = &at;
    } else {
      put(at, call_kind, 0);
    }
  }
  bool received_other(link& from, bytes_view message, bool) override {
    if (expect_many)
      return true;
    EXPECT_EQ(&from, at_);
    if (message.empty()) {
      ++breaches;
      return true;
    }
    if (message[0] == told_kind) {
      ++handled;
      from.release(number_in(message) - released);
      released = number_in(message);
      return true;
    }
    ++handled;
    if (message[0] == data_kind) {
      owes = true;
      got.push_back(number_in(message));
      if (is_told_all)
        check(message);
      if ((message[1] & std::byte{flag_acknowledge}) != std::byte{})
        asked = true;
      ++progress.told;
      if (on_data)
        on_data();
    }
    return true;
  }
  void writable(link&) override { ++writables; }
  void closed(link& at, const error& why) override {
    ++closes;
    if (expect_many)
      return;
    EXPECT_EQ(&at, at_);
    ended = why.code();
    at.take_unreleased([this](bytes_view message, errc fate) {
      if (message[0] == data_kind)
        not_released.emplace_back(number_in(message), fate);
    });
    at_ = nullptr;
  }
  void problem(const error&) override { ++problems; }
  void left(link&) override {}
  void recalling(link&) override {}
  void returned(link&) override {}
  bool inherited(const node_instance&, bytes_view, bool, bool) override { return true; }

  void call(std::uint64_t whom) { at_ = all.open(whom); }
  // Data with that number; false: no room.
  bool send_data(std::uint64_t number) { return put(*at_, data_kind, number); }
  std::size_t (*size_of)(std::uint64_t number) = [](std::uint64_t number) {
    return static_cast<std::size_t>(16 + number % 500);
  };
  // Then messages come.
  void begin_poll() {
    progress = {.most = most, .deadline = deadline};
    timers.run(net_.clock.now());
    all.poll_rests();
  }
  void poll() {
    if (std::exchange(blocked, false))
      all.writable();
    all.poll();
    const bool due = net_.clock.now() - told_at >= 20ms;
    if (at_ != nullptr && owes && (due || std::exchange(asked, false)) &&
        put(*at_, told_kind, handled)) {
      owes = false;
      told_at = net_.clock.now();
    }
    all.flush();
  }
  [[nodiscard]] link* at() const { return at_; }

  test_random random;
  timer_queue timers;
  std::size_t most = 4096;  // messages that a poll tells
  std::chrono::nanoseconds deadline{0};
  poll_progress progress{.most = most};
  circuits all;
  std::function<void()> on_data;
  int polls_ended = 0;
  int breaches = 0;  // of the protocol
  std::uint64_t messages_sent = 0;
  std::uint64_t words_said = 0;  // how far it has come
  bool blocked = false;
  bool no_way = false;
  bool owes = false;  // an acknowledgement
  bool asked = false;
  bool expect_many = false;     // circuits
  bool is_told_all = false;     // of what the other end has sent with send_data()
  std::uint64_t called_as = 0;  // the circuit that was spoken in last
  int accepts = 0;
  std::size_t closes = 0;
  int problems = 0;
  int writables = 0;
  std::uint64_t handled = 0;
  std::uint64_t released = 0;
  std::chrono::nanoseconds told_at{0};
  std::vector<std::uint64_t> got;
  std::vector<std::pair<std::uint64_t, errc>> not_released;
  std::optional<errc> ended;

 private:
  void check(bytes_view message) const {
    ASSERT_EQ(message.size(), size_of(got.back()));
    for (std::size_t i = 16; i < message.size(); i += 997)
      ASSERT_EQ(message[i], static_cast<std::byte>(got.back() % 251));
  }
  static std::uint64_t number_in(bytes_view message) {
    return load_little_endian<std::uint64_t>(message.data() + 8);
  }
  bool put(link& to, std::byte kind, std::uint64_t number) {
    const auto purpose = kind == data_kind ? message_purpose::data : message_purpose::control;
    const std::size_t size = kind == data_kind ? size_of(number) : 16;
    status why;
    std::byte* const at = to.claim(size, purpose, why);
    if (at == nullptr)
      return false;
    std::memset(at, static_cast<int>(number % 251), size);
    std::memset(at, 0, 8);
    at[0] = kind;
    store_little_endian(at + 8, number);
    to.commit(size);
    return true;
  }
  void send(const routed_head& head, std::vector<std::byte> bytes, end* to) {
    auto when = net_.clock.now() + std::chrono::microseconds{50 + net_.random() % 450};
    if (!net_.reorders)
      when = last_arrival_ = std::max(when, last_arrival_);
    under_way_ += bytes.size();
    net_.under_way.emplace(when, [this, head, bytes = std::move(bytes), to] {
      under_way_ -= bytes.size();
      to->all.arrived(head, bytes, link_trust::same_user);
    });
  }

  bus_id id_;
  network& net_;
  std::size_t under_way_ = 0;
  link* at_ = nullptr;
  std::chrono::nanoseconds last_arrival_{0};
};

inline void network::run_for(std::chrono::nanoseconds time, const std::function<void()>& each) {
  for (const auto until = clock.now() + time; clock.now() < until;) {
    clock.advance(100us);
    for (end* one : ends)
      one->begin_poll();
    while (!under_way.empty() && under_way.begin()->first <= clock.now()) {
      const auto what = std::move(under_way.begin()->second);
      under_way.erase(under_way.begin());
      what();
    }
    for (end* one : ends)
      one->poll();
    if (each)
      each();
  }
}

class Circuit : public ::testing::Test {
 protected:
  void open() {
    one.call(2);
    net.run_for(5ms);
    ASSERT_EQ(two.accepts, 1);
  }
  // Sends so many from `from`, as fast as there is room; then all that is under way arrives.
  void send(end& from, std::uint64_t count) {
    std::uint64_t sent = 0;
    const auto more = [&] {
      while (sent != count && from.at() != nullptr && from.send_data(sent))
        ++sent;
    };
    for (int i = 0; i != 3000 && sent != count; ++i)
      net.run_for(10ms, more);
    net.run_for(1s);
    EXPECT_EQ(sent, count);
  }
  static void expect_all(const end& at, std::uint64_t count) {
    ASSERT_EQ(at.got.size(), count);
    for (std::uint64_t i = 0; i != count; ++i)
      ASSERT_EQ(at.got[i], i);
  }

  network net{1};
  end one{net, 1};
  end two{net, 2};
};

}  // namespace atbus::detail
