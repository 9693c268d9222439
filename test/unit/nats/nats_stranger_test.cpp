// A client of the same NATS server that sees all and says what it likes; and other ends that stop or die.
#include <nats/nats.h>

#include <atomic>
#include <fstream>
#include <mutex>

#include "nats/carrier_frame.h"
#include "nats_party.h"

namespace atbus::test {
namespace {

struct seen_message {
  std::string subject;
  detail::byte_buffer bytes;
};

// Only speaks.
class talker {
 public:
  explicit talker(const nats_server& at) {
    EXPECT_EQ(natsConnection_ConnectTo(&connection_, at.url().c_str()), NATS_OK);
  }
  talker(const talker&) = delete;
  talker& operator=(const talker&) = delete;
  ~talker() { natsConnection_Destroy(connection_); }
  void say(const std::string& subject, bytes_view bytes) {
    natsConnection_Publish(connection_, subject.c_str(), bytes.data(),
                           static_cast<int>(bytes.size()));
  }

 private:
  natsConnection* connection_ = nullptr;
};

class eavesdropper {
 public:
  explicit eavesdropper(const nats_server& at) {
    natsOptions* options = nullptr;
    EXPECT_EQ(natsOptions_Create(&options), NATS_OK);
    natsOptions_SetURL(options, at.url().c_str());
    natsOptions_SetNoEcho(options, true);
    natsOptions_SetSendAsap(options, true);
    EXPECT_EQ(natsConnection_Connect(&connection_, options), NATS_OK);
    natsOptions_Destroy(options);
    EXPECT_EQ(natsConnection_Subscribe(&all_, connection_, ">", heard, this), NATS_OK);
    EXPECT_EQ(natsConnection_Flush(connection_), NATS_OK);
  }
  eavesdropper(const eavesdropper&) = delete;
  eavesdropper& operator=(const eavesdropper&) = delete;
  ~eavesdropper() {
    // It may call until then.
    std::atomic<bool> is_over{false};
    (void)natsSubscription_SetOnCompleteCB(
        all_, [](void* over) { static_cast<std::atomic<bool>*>(over)->store(true); }, &is_over);
    natsSubscription_Destroy(all_);
    while (!is_over)
      std::this_thread::yield();
    natsConnection_Destroy(connection_);
  }

  [[nodiscard]] std::vector<seen_message> take() {
    const std::lock_guard lock{mutex_};
    return std::exchange(seen_, {});
  }
  void say(const std::string& subject, bytes_view bytes) {
    natsConnection_Publish(connection_, subject.c_str(), bytes.data(),
                           static_cast<int>(bytes.size()));
  }
  // As the server says when nobody listens.
  void say_nobody_listens(const std::string& subject) {
    natsMsg* made = nullptr;
    natsMsg_Create(&made, subject.c_str(), nullptr, nullptr, 0);
    natsMsgHeader_Set(made, "Status", "503");
    natsConnection_PublishMsg(connection_, made);
    natsMsg_Destroy(made);
  }

 private:
  static void heard(natsConnection*, natsSubscription*, natsMsg* message, void* closure) {
    auto& self = *static_cast<eavesdropper*>(closure);
    const auto* const data = reinterpret_cast<const std::byte*>(natsMsg_GetData(message));
    {
      const std::lock_guard lock{self.mutex_};
      self.seen_.push_back(
          {natsMsg_GetSubject(message), {data, data + natsMsg_GetDataLength(message)}});
    }
    natsMsg_Destroy(message);
  }

  natsConnection* connection_ = nullptr;
  natsSubscription* all_ = nullptr;
  std::mutex mutex_;
  std::vector<seen_message> seen_;
};

class NatsStrangers : public NatsNodes {
 protected:
  bool shows(bool encrypted, std::string_view text) {
    const nats_server server;
    eavesdropper ear{server};
    const auto options = [] { return with_carrier(make_carrier()).allow_unencrypted(true); };
    const std::string address = server.address("fleet.b") + (encrypted ? "" : "?tls=false");
    nats_side a{1, options()};
    nats_side b{2, options()};
    EXPECT_TRUE(b.self.listen(address));
    EXPECT_TRUE(a.self.connect(2, address));
    EXPECT_TRUE(reaches(a, b, text));
    // The ear hears later of all that b has: it hears everything before what is said now.
    talker last{server};
    last.say("the.end", as_bytes("the end"));
    bool found = false;
    bool over = false;
    for (const auto limit = now() + patience; !over && now() < limit;
         std::this_thread::sleep_for(1ms)) {
      for (const seen_message& one : ear.take()) {
        found |= as_text(one.bytes).find(text) != std::string_view::npos;
        over |= one.subject == "the.end";
      }
    }
    EXPECT_TRUE(over);
    return found;
  }
};

TEST_F(NatsStrangers, ReadNothingOfALink) {
  EXPECT_FALSE(shows(true, "nobody else is meant to read this"));
  EXPECT_TRUE(shows(false, "everyone may read this"));  // so this test would see it
}

TEST_F(NatsStrangers, DisturbNoLinkByRepeatingChangingAndInventingMessages) {
  const nats_server server;
  eavesdropper stranger{server};
  nats_side a{1, with_carrier(make_carrier())};
  nats_side b{2, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  ASSERT_TRUE(reaches(a, b, "first"));
  std::size_t said = 0;
  const auto disturb = [&] {
    for (seen_message& one : stranger.take()) {
      stranger.say(one.subject, one.bytes);
      one.bytes[one.bytes.size() / 2] ^= std::byte{1};
      stranger.say(one.subject, one.bytes);
      one.bytes.resize(one.bytes.size() / 2);
      stranger.say(one.subject, one.bytes);
      stranger.say(one.subject, {});
      stranger.say_nobody_listens(one.subject);
      said += 5;
    }
  };
  for (int i = 0; i != 500; ++i) {
    ASSERT_TRUE(a.self.send(2, 1, std::to_string(i)));
    ASSERT_TRUE(b.self.send(1, 1, std::to_string(i)));
    a.self.poll();
    b.self.poll();
    disturb();
  }
  for (const auto limit = now() + 4s;
       now() < limit;) {  // longer than a link that nobody hears lives
    a.self.poll();
    b.self.poll();
    disturb();
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(
      until({&a, &b}, [&] { return b.received.size() == 501 && a.received.size() == 500; }));
  EXPECT_EQ(b.received.back(), "499");
  EXPECT_GT(said, 50U);
  EXPECT_EQ(a.self.stats().links_lost + b.self.stats().links_lost, 0U);
  EXPECT_EQ(a.self.stats().duplicates + b.self.stats().duplicates, 0U);
}

detail::byte_buffer opening_to(const std::string& inbox, int key) {
  detail::byte_buffer made;
  detail::write_head(detail::carrier_kind::open, 0, made);
  made.insert(made.end(), detail::carrier_key_size, static_cast<std::byte>(key));
  for (const char c : inbox)
    made.push_back(static_cast<std::byte>(c));
  return made;
}
std::string some_inbox(int number) {
  return "_INBOX.atbus.00112233445566778899aabbccddeeff.0123456789" +
         std::to_string(100'000 + number % 900'000);
}

TEST_F(NatsStrangers, HoldUpNoLinkByOpeningAsManyAsTheyCan) {
  const nats_server server;
  nats_side a{1, with_carrier(make_carrier())};
  nats_side b{2, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  ASSERT_TRUE(reaches(a, b, "first"));
  b.self.on_message([&](const message& m) { (void)b.self.send(m.source(), 1, m.text()); });
  std::atomic<bool> is_over{false};
  std::thread other{[&] {  // accepts as fast as it can
    while (!is_over)
      b.self.poll();
  }};
  talker stranger{server};
  std::uint64_t echoes = 0;
  bool waits = false;
  for (int opened = 0; opened != 40'000 || waits; a.self.poll()) {
    for (int i = 0; i != 10 && opened != 40'000; ++i, ++opened)
      stranger.say("fleet.b", opening_to(some_inbox(opened), opened % 200 + 9));
    if (waits && !a.received.empty()) {
      a.received.clear();
      ++echoes;
      waits = false;
    }
    if (!waits && opened != 40'000)
      waits = static_cast<bool>(a.self.send(2, 1, "echo"));
    std::this_thread::sleep_for(200us);  // 50,000 openings a second at most
  }
  is_over = true;
  other.join();
  EXPECT_EQ(a.self.stats().links_lost, 0U);
  const std::uint64_t accepted = b.self.stats().strangers.crowded;
  EXPECT_GT(accepted, 500U);
  EXPECT_LT(accepted / echoes, 200U) << echoes << " messages passed " << accepted << " openings";
}

TEST_F(NatsStrangers, KeepNobodyOutByOpeningManyLinks) {
  const nats_server server;
  eavesdropper stranger{server};
  nats_side a{1, with_carrier(make_carrier())};
  nats_side b{2, with_carrier(make_carrier()).unconfirmed(16)};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  ASSERT_TRUE(reaches(a, b, "first"));
  const std::size_t before = open_descriptors();
  std::size_t most = before;
  for (int i = 0; i != 2000; ++i) {
    stranger.say("fleet.b", opening_to(some_inbox(i), i + 9));
    a.self.poll();
    b.self.poll();
    most = std::max(most, open_descriptors());
  }
  EXPECT_LT(most, before + 1000) << "two for each of what has been opened and not closed";
  EXPECT_TRUE(reaches(a, b, "still here"));
  EXPECT_EQ(a.self.stats().links_lost, 0U);
  nats_side c{3, with_carrier(make_carrier())};
  ASSERT_TRUE(c.self.connect(2, server.address("fleet.b")));
  EXPECT_TRUE(until({&a, &b, &c}, [&] { return c.self.stats().registrations != 0; }));
  EXPECT_GT(b.self.stats().strangers.crowded, 0U);
}

TEST_F(NatsStrangers, CannotMakeAListenerPublishToAnySubject) {
  const nats_server server;
  eavesdropper stranger{server};
  nats_side b{2, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  const auto ask = [&](const std::string& inbox) { stranger.say("fleet.b", opening_to(inbox, 9)); };
  const std::string good = "_INBOX.atbus.00112233445566778899aabbccddeeff.0123456789abcdef";
  bool answered = false;
  EXPECT_TRUE(until({&b}, [&] {
    ask("orders.pay");
    ask(good);
    for (const seen_message& one : stranger.take()) {
      EXPECT_NE(one.subject, "orders.pay");
      answered |= one.subject == good;
    }
    return answered;
  }));
}

// What `ear` hears on a subject first.
detail::byte_buffer first_on(eavesdropper& ear, const std::string& subject) {
  for (const auto limit = now() + 30s; now() < limit; std::this_thread::sleep_for(1ms)) {
    for (seen_message& one : ear.take()) {
      if (one.subject == subject)
        return std::move(one.bytes);
    }
  }
  ADD_FAILURE() << "nothing on " << subject;
  return {};
}

TEST_F(NatsStrangers, EndNothingThatARelayDialsByNamingAnInboxThatItMayNotPublishTo) {
  const nats_server server{
      "authorization { users: [ { user: relay, password: pass, permissions: { publish: "
      "[\"fleet.>\", "
      "\"_INBOX.>\"], subscribe: \">\" } }, { user: other, password: pass } ] }\n"
      "no_auth_user: other"};
  const std::string file = server.directory() + "/user";
  std::ofstream{file} << "relay\npass\n";
  eavesdropper stranger{server};
  // It waits for the answer to what it dials for longer than this test lasts, and does not dial again.
  nats_side b{2, with_carrier(make_carrier({.user_file = file})).retry(1h, 1h)};
  nats_side c{3, with_carrier(make_carrier())};
  ASSERT_TRUE(c.self.listen(server.address("fleet.c")));
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(b.self.connect(3, server.address("fleet.unheard")));
  b.self.poll();
  const detail::byte_buffer opening = first_on(stranger, "fleet.unheard");
  stranger.say("fleet.b", opening_to("secret" + some_inbox(1), 9));
  ASSERT_TRUE(until({&b}, [&] { return b.log.find("secret_INBOX") != b.log.npos; }));
  EXPECT_NE(b.log.find("inbox_prefix"), b.log.npos) << b.log;
  // Now it is answered.
  stranger.say("fleet.c", opening);
  EXPECT_TRUE(until({&b, &c}, [&] { return b.self.stats().registrations != 0; })) << b.log;
}

TEST_F(NatsStrangers, DoNotHideWhatADialMayNotPublishTo) {
  const nats_server server{
      "authorization { users: [ { user: relay, password: pass, permissions: { publish: "
      "\"_INBOX.>\", subscribe: \">\" } } ] }"};
  const std::string file = server.directory() + "/user";
  std::ofstream{file} << "relay\npass\n";
  nats_side b{2, with_carrier(make_carrier({.user_file = file}))};
  ASSERT_TRUE(b.self.connect(3, server.address("fleet.c")));
  EXPECT_TRUE(until({&b}, [&] { return b.log.find("Publish to \"fleet.c\"") != b.log.npos; }));
}

// A node in a process of its own, which says what it gets back to the sender.
child_process echo_at(const std::string& address) {
  return child_process{[address] {
    nats_side b{2, with_carrier(make_carrier())};
    require(static_cast<bool>(b.self.listen(address)), "listen");
    b.self.on_message([&](const message& m) { (void)b.self.send(m.source(), 1, m.text()); });
    for (;;) {
      b.self.poll();
      std::this_thread::sleep_for(500us);
    }
    return 0;
  }};
}

TEST_F(NatsStrangers, ALinkEndsSoonAfterTheProcessAtTheOtherEndWasKilled) {
  const nats_server server;
  child_process other = echo_at(server.address("fleet.b"));
  nats_side a{1, with_carrier(make_carrier())};
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  ASSERT_TRUE(a.self.send(2, 1, "one"));
  ASSERT_TRUE(until({&a}, [&] { return a.received.size() == 1; }));
  other.kill_and_wait();
  const auto before = now();
  EXPECT_TRUE(until({&a}, [&] { return a.self.stats().links_lost == 1; }));
  EXPECT_LT(now() - before, 5s);  // silence alone takes six
  other = echo_at(server.address("fleet.b"));
  ASSERT_TRUE(a.self.send(2, 1, "two"));
  EXPECT_TRUE(until({&a}, [&] { return a.received.size() == 2; }));
}

TEST_F(NatsStrangers, ALinkComesBackAfterTheProcessAtTheOtherEndStoodStill) {
  const nats_server server;
  child_process other = echo_at(server.address("fleet.b"));
  nats_side a{1, with_carrier(make_carrier()).ping_interval(60s)};  // which notice nothing
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  ASSERT_TRUE(a.self.send(2, 1, "0"));
  ASSERT_TRUE(until({&a}, [&] { return a.received.size() == 1; }));
  other.stop();
  int sent = 1;
  EXPECT_TRUE(until({&a}, [&] {
    if (sent != 200)
      sent += a.self.send(2, 1, std::to_string(sent)) ? 1 : 0;
    return a.self.stats().links_lost == 1;
  }));
  other.resume();
  EXPECT_TRUE(until({&a}, [&] { return static_cast<int>(a.received.size()) == sent; }));
  for (int i = 0; i != sent; ++i)
    EXPECT_EQ(a.received[static_cast<std::size_t>(i)], std::to_string(i));
}

}  // namespace
}  // namespace atbus::test
