// Ends of links that write down what they are told, and the kinds of link they are tried with.
#pragma once

#include <poll.h>
#include <unistd.h>

#include "atbus/clock.hpp"
#include "node/link/channels.h"
#include "node/link/lane_transport.h"
#include "node/link/link.h"
#include "node/link/stream_transport.h"
#include "scratch_directory.h"
#include "test.h"
#include "testing/simulated_network.h"

namespace atbus::detail {

// What differs between the tests' ways of making a transport.
struct link_setting {
  std::string directory;
  std::uint64_t message_limit = 4096;
  std::uint64_t queue_size = 64 * 1024;
  send_buffer_kind buffer = send_buffer_kind::growing;
  std::chrono::nanoseconds confirm_timeout = 0s;
  std::chrono::nanoseconds connect_timeout = 30s;
  simulated_network* network = nullptr;  // of simulated links
};

// One transport, what it told, and what a test wants to happen then.
class recorded_end final : public link_events {
 public:
  explicit recorded_end(std::unique_ptr<transport> made, node_instance self = {})
      : way(std::move(made)) {
    way->start(self, *this);
  }

  struct told {
    std::string what;
    link* at = nullptr;
    errc why = errc::ok;
    std::string text;
  };

  void opened(link& at, bool accepted) override {
    const inside here{*this};
    events.push_back({accepted ? "accepted" : "opened", &at, {}, {}});
    last = &at;
    if (on_opened)
      on_opened(at, accepted);
  }
  bool received_other(link& from, bytes_view message, bool redelivered) override {
    const inside here{*this};
    messages.emplace_back(as_text(message));
    if (redelivered)
      events.push_back({"redelivered", &from, {}, messages.back()});
    if (on_received)
      on_received(from, message);
    return takes;
  }
  void writable(link& at) override {
    const inside here{*this};
    events.push_back({"writable", &at, {}, {}});
    if (on_writable)
      on_writable(at);
  }
  void closed(link& at, const error& why) override {
    const inside here{*this};
    events.push_back({"closed", &at, why.code(), why.text()});
    at.take_unreleased([&](bytes_view message, errc outcome) {
      unreleased.emplace_back(as_text(message), outcome);
    });
    if (last == &at)
      last = nullptr;
    if (on_closed)
      on_closed(at);
  }
  void left(link& at) override {
    const inside here{*this};
    events.push_back({"left", &at, {}, {}});
    if (on_left)
      on_left(at);
  }
  void recalling(link& at) override {
    const inside here{*this};
    events.push_back({"recalling", &at, {}, {}});
  }
  void returned(link& at) override {
    const inside here{*this};
    events.push_back({"returned", &at, {}, {}});
  }
  bool inherited(const node_instance& source, bytes_view message, bool redelivered,
                 bool awaited) override {
    const inside here{*this};
    events.push_back({redelivered ? "inherited again" : "inherited",
                      nullptr,
                      {},
                      source.id.to_string() + "/" + std::to_string(source.incarnation) + ": " +
                          std::string{as_text(message)} + (awaited ? "" : ", not awaited")});
    if (!takes)
      way->close();  // as a node does that a handler has closed
    return takes && !hands_back;
  }
  void problem(const error& what) override {
    const inside here{*this};
    events.push_back({"problem", nullptr, what.code(), what.text()});
  }

  std::size_t poll(const poll_limits& limits = {}) {
    polling_ = true;
    const std::size_t count = way->poll(limits);
    polling_ = false;
    return count;
  }
  std::string listen(std::string_view at) {
    auto where = way->listen(*address::parse(at));
    EXPECT_TRUE(where) << where.error().text();
    return where ? *where : std::string{};
  }
  link* connect(std::string_view to) {
    auto made = way->connect(*address::parse(to));
    EXPECT_TRUE(made) << made.error().text();
    return made ? *made : nullptr;
  }

  [[nodiscard]] std::size_t count(std::string_view what) const {
    return static_cast<std::size_t>(
        std::count_if(events.begin(), events.end(), [&](const told& e) { return e.what == what; }));
  }
  // The first of that kind; one of nothing if there is none.
  [[nodiscard]] told find(std::string_view what) const {
    const auto at =
        std::find_if(events.begin(), events.end(), [&](const told& e) { return e.what == what; });
    return at == events.end() ? told{} : *at;
  }

  std::function<void(link&, bool)> on_opened;
  std::function<void(link&, bytes_view)> on_received;
  std::function<void(link&)> on_writable;
  std::function<void(link&)> on_closed;
  std::function<void(link&)> on_left;

  bool takes = true;        // what comes, as far as links ask
  bool hands_back = false;  // what is inherited
  std::vector<told> events;
  std::vector<std::string> messages;
  std::vector<std::pair<std::string, errc>> unreleased;  // of links that were closed
  link* last = nullptr;                                  // opened last

  std::unique_ptr<transport> way;
  simulated_network* network = nullptr;  // null: the kernel's

 private:
  // Events come from poll alone and never one inside another.
  struct inside {
    explicit inside(recorded_end& end) : of(end) {
      EXPECT_TRUE(of.polling_);
      EXPECT_FALSE(of.telling_);
      of.telling_ = true;
    }
    ~inside() { of.telling_ = false; }
    recorded_end& of;
  };

  bool polling_ = false;
  bool telling_ = false;
};

inline status send(link& to, std::string_view text,
                   message_purpose purpose = message_purpose::data) {
  status why;
  std::byte* const at = to.claim(text.size(), purpose, why);
  if (at == nullptr)
    return why;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % 8, 0U);
  std::copy_n(as_bytes(text).begin(), text.size(), at);
  to.commit(text.size());
  return {};
}

// Waits for events as a loop would, until one of them has something to do. prepare_sleep, longest_sleep and
// finish_sleep are the transport's verbs, which are under test here; nothing sleeps for a time. The
// 100 ms are for a wake-up that is missing: turn_until looks again then.
inline void sleep_all(std::initializer_list<recorded_end*> all) {
  std::vector<pollfd> watched;
  auto longest = std::chrono::nanoseconds{100ms};
  for (recorded_end* one : all) {
    if (one->network != nullptr) {
      if (one->way->prepare_sleep())
        one->network->step(one->network->now() + 60s);
      return;
    }
    if (!one->way->prepare_sleep())
      longest = 0s;
    const auto own = one->way->longest_sleep();
    if (own >= 0s)
      longest = std::min(longest, own);
    watched.push_back({one->way->descriptor(), POLLIN, 0});
  }
  const timespec timeout{0, longest.count()};
  (void)ppoll(watched.data(), watched.size(), &timeout, nullptr);
  for (recorded_end* one : all)
    one->way->finish_sleep();
}

// Turns all of them until `done`, thirty seconds at most. True: done.
inline bool turn_until(std::initializer_list<recorded_end*> all,
                       const std::function<bool()>& done) {
  const auto deadline = now() + 30s;
  while (!done()) {
    if (now() > deadline)
      return false;
    std::size_t told = 0;
    for (recorded_end* one : all)
      told += one->poll();
    if (told == 0 && !done())
      sleep_all(all);
  }
  return true;
}

inline stream_transport_options stream_options_for(const link_setting& wanted) {
  stream_transport_options options;
  options.message_limit = wanted.message_limit;
  options.buffer = wanted.buffer;
  options.send_buffer_size = wanted.queue_size;
  options.send_buffer_number = wanted.queue_size / build_settings::data_node_size;
  options.socket.send_buffer = options.socket.receive_buffer = 16 * 1024;
  options.confirm_timeout = wanted.confirm_timeout;
  options.connect_timeout = wanted.connect_timeout;
  return options;
}
inline lane_transport_options lane_options_for(const link_setting& wanted) {
  return {.message_limit = wanted.message_limit,
          .lane_size = wanted.queue_size,
          .directory = wanted.directory,
          .connect_timeout = wanted.connect_timeout};
}
inline std::unique_ptr<transport> make_streams(const link_setting& wanted) {
  return std::make_unique<stream_transport>(stream_options_for(wanted));
}
inline std::unique_ptr<transport> make_lanes(const link_setting& wanted) {
  return std::make_unique<lane_transport>(lane_options_for(wanted));
}
inline std::unique_ptr<transport> make_both(const link_setting& wanted) {
  return std::make_unique<channels>(
      channels_options{.streams = stream_options_for(wanted), .lanes = lane_options_for(wanted)});
}
inline std::unique_ptr<transport> make_simulated(const link_setting& wanted) {
  return std::make_unique<simulated_transport>(
      *wanted.network,
      simulated_process{.message_limit = wanted.message_limit, .queue_size = wanted.queue_size},
      [] {});
}

struct kind_of_link {
  const char* name;
  const char* where;  // to listen, or how that begins
  link_kind kind;
  link_trust trust;
  std::unique_ptr<transport> (*make)(const link_setting&);
  bool is_simulated = false;

  [[nodiscard]] std::string fresh_address(const std::string& directory) const {
    static int count = 0;
    const std::string at{where};
    if (at.starts_with("unix:///"))
      return "unix://" + directory + "/socket" + at.substr(std::string_view{"unix:///"}.size());
    return at.back() == '0' || at == "shm://"
               ? at
               : at + "atbus-test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
  }
  friend void PrintTo(const kind_of_link& of, std::ostream* out) { *out << of.name; }
};

inline const kind_of_link stream_kinds[] = {
    {"unix", "unix:///", link_kind::unix_socket, link_trust::same_user, make_streams},
    {"unix_abstract", "unix://@", link_kind::unix_socket, link_trust::same_user, make_streams},
    {"ipv4", "ipv4://127.0.0.1:0", link_kind::tcp, link_trust::unproven, make_streams},
    {"ipv6", "ipv6://[::1]:0", link_kind::tcp, link_trust::unproven, make_streams},
};

inline const kind_of_link lane_kinds[] = {
    {"mem", "mem://", link_kind::memory, link_trust::same_process, make_lanes},
    {"shm", "shm://", link_kind::shared_memory, link_trust::same_user, make_lanes},
};
inline const kind_of_link simulated_kinds[] = {
    {"simulated_unix", "unix:///", link_kind::unix_socket, link_trust::same_user, make_simulated,
     true},
    {"simulated_tcp", "ipv4://127.0.0.1:0", link_kind::tcp, link_trust::unproven, make_simulated,
     true},
    {"simulated_mem", "mem://", link_kind::memory, link_trust::same_process, make_simulated, true},
    {"simulated_shm", "shm://", link_kind::shared_memory, link_trust::same_user, make_simulated,
     true},
};

// Those that a process of its own can sleep on and use.
inline std::vector<kind_of_link> real_kinds() {
  std::vector<kind_of_link> all{std::begin(stream_kinds), std::end(stream_kinds)};
  all.insert(all.end(), std::begin(lane_kinds), std::end(lane_kinds));
  for (const std::size_t through_channels : {0U, 3U, 4U, 5U}) {
    static const char* const names[] = {"channels_unix", "", "", "channels_ipv6", "channels_mem",
                                        "channels_shm"};
    all.push_back(all[through_channels]);
    all.back().name = names[through_channels];
    all.back().make = make_both;
  }
  all[6].where = "unix:///?shm=false";
  all.push_back({"lanes", "unix:///", link_kind::lanes, link_trust::same_user, make_both});
  return all;
}
inline std::vector<kind_of_link> all_kinds() {
  std::vector<kind_of_link> all = real_kinds();
  all.insert(all.end(), std::begin(simulated_kinds), std::end(simulated_kinds));
  return all;
}

// Two ends with one link: `a` listens, `b` has dialled.
class TwoEnds : public ::testing::TestWithParam<kind_of_link> {
 protected:
  recorded_end& make(std::unique_ptr<recorded_end>& end, std::uint64_t id) {
    setting.directory = directory.path();
    setting.network = GetParam().is_simulated ? &network : nullptr;
    end = std::make_unique<recorded_end>(GetParam().make(setting), node_instance{id, 1});
    end->network = setting.network;
    return *end;
  }
  // Both ends, without a link.
  void start() {
    make(a, 1);
    make(b, 2);
    where = a->listen(GetParam().fresh_address(directory.path()));
  }
  void join() {
    start();
    b->connect(where);
    ASSERT_TRUE(until([&] { return a->count("accepted") == 1 && b->count("opened") == 1; }));
    in = a->last;
    out = b->last;
  }
  bool until(const std::function<bool()>& done) { return turn_until({a.get(), b.get()}, done); }
  // As many messages of that text as there is room for.
  static std::size_t fill(link& to, const std::string& text) {
    std::size_t count = 0;
    status s;
    while ((s = send(to, text)))
      ++count;
    EXPECT_EQ(s, errc::would_block);
    to.flush();
    return count;
  }

  test::scratch_directory directory;
  simulated_network network{1};
  link_setting setting;
  std::unique_ptr<recorded_end> a;
  std::unique_ptr<recorded_end> b;
  std::string where;
  link* in = nullptr;
  link* out = nullptr;
};

inline std::string kind_name(const ::testing::TestParamInfo<kind_of_link>& info) {
  return info.param.name;
}

}  // namespace atbus::detail
