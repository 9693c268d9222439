// Nodes whose access rules refuse some of the messages that arrive. What they refuse is reported to its sender, once.
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "atbus/testing.hpp"
#include "from_environment.h"
#include "sanitizer.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t allowed = 1;
constexpr std::uint32_t forbidden = 3;
constexpr std::uint32_t question = 7;

enum class shape : std::uint8_t {
  any,       // two or three nodes, of which one or both of each two dial
  one_link,  // the same, and nothing but one of the two dials
  tree,      // two leaves below a relay
};

// What one node has sent to another one, and what has become of it.
struct account {
  struct by_type {
    std::uint64_t accepted = 0;
    std::uint64_t handled = 0;
    std::uint64_t not_delivered = 0;
    std::uint64_t unknown = 0;
  };
  std::map<std::uint32_t, by_type> of;
  std::set<std::uint64_t> seen;
  std::uint64_t twice = 0;
  std::uint64_t asked = 0;
  std::uint64_t answers = 0;
};

class refusal_world {
 public:
  refusal_world(std::uint64_t seed, shape how, const std::string& folder)
      : sim_(seed), shape_(how), folder_(folder) {
    nodes_ = how == shape::tree ? 3 : 2 + sim_.draw(2);
    many_ = sim_.draw(3) == 0;
    answers_ = sim_.draw(2) == 0;
    kind_ = sim_.draw(how == shape::any ? 5 : 4);
    both_dial_ = how == shape::any && sim_.draw(3) == 0;
    lower_dials_ = sim_.draw(2) == 0;
    disconnects_ = how != shape::tree && sim_.draw(3) == 0;
    options_.node.report_directory("")
        .allow_unauthenticated()
        .retry(10ms, 500ms)
        .ping_interval(1s)
        .fault_tolerance(3)
        .message_limit(4096);
    if (sim_.draw(2) == 0)
      options_.node.send_buffer_size(std::size_t{16} * 1024);
    if (sim_.draw(4) == 0)
      options_.node.message_deadline(std::chrono::milliseconds{50 + sim_.draw(3000)});
    if (sim_.draw(4) == 0)
      options_.node.overflow(static_cast<overflow_policy>(sim_.draw(4)));
    if (how == shape::any && sim_.draw(3) == 0)
      options_.node.first_idle_timeout(std::chrono::seconds{1 + sim_.draw(5)});
  }

  // Empty, or what is wrong.
  std::string run() {
    for (std::uint64_t id = 1; id <= nodes_; ++id)
      start(id);
    sim_.run_for(1s);
    sim_.disturb(20s, {.cuts = static_cast<unsigned>(sim_.draw(12)),
                       .delays = 3,
                       .refusals = static_cast<unsigned>(sim_.draw(3)),
                       .stops = static_cast<unsigned>(sim_.draw(3)),
                       .restarts = 0,
                       .clock_steps = 1});
    for (int i = 0; i != 200; ++i) {
      act(1 + sim_.draw(nodes_), false);
      sim_.run_for(std::chrono::milliseconds{sim_.draw(200)});
    }
    active_ = false;
    sim_.run_for(30s);
    std::string fault = sim_.run_until_idle(180s) ? "" : "not idle; ";
    sim_.run_for(90s);  // words may come later than that
    for (auto& [who, one] : accounts_)
      fault += check(who, one);
    return fault;
  }

 private:
  using ends = std::pair<std::uint64_t, std::uint64_t>;

  [[nodiscard]] std::string address_of(std::uint64_t id, std::uint64_t kind) const {
    const std::string number = std::to_string(id);
    constexpr std::array<const char*, 2> within{"unix:///node", "shm://node"};
    return kind < 2 ? "ipv4://10.0.0." + number + ":7000" : within[kind % 2] + number;
  }
  [[nodiscard]] bool dials(std::uint64_t from, std::uint64_t to) const {
    return both_dial_ || lower_dials_ == (from < to);
  }

  [[nodiscard]] std::string write_rules(std::uint64_t id) const {
    const std::string self = std::to_string(id);
    std::string path = folder_ + "/" + self + ".toml";
    const auto may_send = [](const std::string& from, const std::string& to,
                             const std::string& what) {
      return "[[send]]\nfrom = " + from + "\nto = " + to + "\nmessages = " + what +
             "\nrequests = \"any\"\n";
    };
    std::string others;
    for (std::uint64_t other = 1; other <= nodes_; ++other)
      others += other == id ? "" : (others.empty() ? "" : ", ") + std::to_string(other);
    std::ofstream{path} << "register = \"any\"\n"
                        << may_send("[" + self + "]", "\"any\"", "\"any\"")
                        << may_send("\"any\"", "[" + self + "]", "[1]")
                        << may_send("\"any\"", "[" + others + "]", "\"any\"");
    return path;
  }

  void start(std::uint64_t id) {
    process_options own = options_;
    own.host = kind_ < 2 && shape_ == shape::tree ? static_cast<unsigned>(id) : 1;
    own.node.access(write_rules(id));
    if (shape_ == shape::tree && id == 1)
      own.node.children("0x0/60");
    else if (shape_ == shape::tree)
      own.node.parent(address_of(1, kind_));
    sim_.start(
        id, [this, id](node& of) { begin(id, of); }, own);
  }

  void begin(std::uint64_t id, node& of) {
    EXPECT_TRUE(of.fault());
    for (const std::uint64_t kind : {0U, 2U, 3U}) {
      const bool is_used = kind == kind_ || kind_ == 4 || (kind == 0 && kind_ < 2);
      if (is_used && (shape_ != shape::tree || id == 1)) {
        EXPECT_TRUE(of.listen(address_of(id, kind)));
      }
    }
    for (std::uint64_t other = 1; shape_ != shape::tree && other <= nodes_; ++other) {
      if (other == id || !dials(id, other))
        continue;
      EXPECT_TRUE(of.connect(other, address_of(other, kind_ == 4 ? 0 : kind_)));
      if (kind_ == 4) {
        EXPECT_TRUE(of.connect(other, address_of(other, 2 + sim_.draw(2))));
      }
    }
    of.on_message([this, id](const message& what) { handled(id, what); });
    of.on_request([this](request& asked) {
      if (sim_.draw(3) != 0)
        (void)asked.reply("yes");
    });
    of.on_undelivered([this, id](const undelivered& what) {
      account::by_type& in = accounts_[{id, what.destination().value()}].of[what.type()];
      (what.outcome() == errc::not_delivered ? in.not_delivered : in.unknown) += what.count();
    });
  }

  void handled(std::uint64_t by, const message& what) {
    account& in = accounts_[{what.source().value(), by}];
    std::uint64_t number = 0;
    std::memcpy(&number, what.bytes().data(), sizeof number);
    if (in.seen.insert(number).second)
      ++in.of[what.type()].handled;
    else
      ++in.twice;
    if (answers_ && sim_.draw(4) == 0)
      act(by, true);
  }

  bool send(node& from, std::uint64_t to, account& in, std::uint64_t one_of, bool required) {
    const std::uint32_t type = sim_.draw(one_of) != 0 ? forbidden : allowed;
    const std::uint64_t number = ++sent_;
    std::vector<std::byte> bytes(sizeof number + sim_.draw(3) * sim_.draw(1000));
    std::memcpy(bytes.data(), &number, sizeof number);
    const status how = required ? from.send(to, type, bytes, delivery_policy::require)
                                : from.send(to, type, bytes);
    in.of[type].accepted += how ? 1 : 0;
    return bool{how};
  }

  void disconnect(node& from, std::uint64_t self, std::uint64_t to) {
    (void)from.disconnect(to);
    sim_.after(std::chrono::milliseconds{1 + sim_.draw(500)}, [this, self, to] {
      if (sim_.is_running(self) && dials(self, to))
        (void)sim_.node(self).connect(to, address_of(to, kind_ == 4 ? 0 : kind_));
    });
  }

  void act(std::uint64_t self, bool in_handler) {
    if (!active_)
      return;
    node& from = sim_.node(self);
    std::uint64_t to = 1 + sim_.draw(nodes_);
    if (to == self)
      to = to % nodes_ + 1;
    account& in = accounts_[{self, to}];
    const std::uint64_t what = sim_.draw(16);
    const std::uint64_t times = in_handler ? 1 : 1 + sim_.draw(many_ ? 300 : 8);
    if (what == 13)
      return from.flush();
    if (what == 14) {
      if (disconnects_ && sim_.draw(4) == 0)
        disconnect(from, self, to);
      return;
    }
    for (std::uint64_t i = 0; i != times; ++i) {
      if (what != 12) {
        if (!send(from, to, in, what < 4 ? 2 : 4, what == 15))
          return;
        continue;
      }
      if (!from.request(to, question, "x", std::chrono::milliseconds{10 + sim_.draw(500)},
                        [&in](const response&) { ++in.answers; }))
        return;
      ++in.asked;
    }
  }

  [[nodiscard]] std::string check(const ends& who, account& one) const {
    account::by_type yes = one.of[allowed];
    account::by_type no = one.of[forbidden];
    // Drops are reported together, and say the type of the last one.
    const overflow_policy policy = options_.node.overflow();
    const bool has_drops =
        policy == overflow_policy::drop_newest || policy == overflow_policy::drop_oldest;
    if (has_drops) {
      yes.accepted += std::exchange(no.accepted, 0);
      yes.not_delivered += std::exchange(no.not_delivered, 0);
      yes.unknown += std::exchange(no.unknown, 0);
    }
    const std::uint64_t known = yes.handled + yes.not_delivered;
    const bool is_good = no.handled == 0 && no.accepted == no.not_delivered + no.unknown &&
                         known <= yes.accepted && yes.accepted <= known + yes.unknown &&
                         one.twice == 0 && one.asked == one.answers;
    if (is_good)
      return {};
    const auto text = [](const account::by_type& of) {
      return std::to_string(of.accepted) + " accepted, " + std::to_string(of.handled) +
             " handled, " + std::to_string(of.not_delivered) + " not delivered, " +
             std::to_string(of.unknown) + " unknown; ";
    };
    return std::to_string(who.first) + " to " + std::to_string(who.second) + ": forbidden " +
           text(no) + "allowed " + text(yes) + std::to_string(one.twice) + " twice, " +
           std::to_string(one.asked) + " asked, " + std::to_string(one.answers) + " answers; ";
  }

  simulation sim_;
  const shape shape_;
  const std::string folder_;
  std::uint64_t nodes_ = 2;
  bool many_ = false;
  bool answers_ = false;
  std::uint64_t kind_ = 0;  // 0, 1: TCP, 2: Unix sockets, 3: shared memory, 4: TCP and one of these
  bool both_dial_ = false;
  bool lower_dials_ = false;
  bool disconnects_ = false;
  bool active_ = true;
  std::uint64_t sent_ = 0;
  process_options options_;
  std::map<ends, account> accounts_;
};

void run_seeds(shape how, std::uint64_t usual_seeds) {
  const test::scratch_directory folder;
  const std::uint64_t first = test::from_environment("ATBUS_SIMULATION_FIRST_SEED", 1);
  const std::uint64_t seeds = test::from_environment(
      "ATBUS_SIMULATION_SEEDS", test::has_sanitizer ? usual_seeds / 20 : usual_seeds);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed)
    ASSERT_EQ((refusal_world{seed, how, folder.path()}.run()), "") << "seed " << seed;
}

TEST(SimulatedRefusals, AreReportedOnceEachUnderEveryFault) {
  run_seeds(shape::any, 1000);
}

TEST(SimulatedRefusals, AreReportedOnceEachThroughTheOnlyLink) {
  run_seeds(shape::one_link, 500);
}

TEST(SimulatedRefusals, AreReportedOnceEachOverARelay) {
  run_seeds(shape::tree, 300);
}

}  // namespace
}  // namespace atbus::testing
