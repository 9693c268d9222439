// Requests, gathers and cancels among nodes whose links and processes fail, by seeds: every request has one
// outcome, and what its outcome says is what happened.
//
//   ATBUS_SIMULATION_SEEDS=10000 ATBUS_SIMULATION_FIRST_SEED=1 bin/simulation_requests_test
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include "atbus/atbus.hpp"
#include "atbus/testing.hpp"
#include "simulated_runs.h"

namespace atbus {
namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t asked_type = 7;
constexpr nanoseconds longest_timeout = std::chrono::seconds{8};

// What became of one request, as its asking process knows it.
struct question {
  bus_id from;
  bus_id to;
  std::uint64_t asked_by = 0;  // incarnation
  nanoseconds asked_at{0};
  nanoseconds timeout{0};
  std::string text;
  int outcomes = 0;
  std::uint64_t replied_by = 0;  // the incarnation whose handler has, with its text; 0: none
  bool cancelled = false;
  request_handle handle;
  std::set<std::uint64_t> handled_by;  // incarnations
};

class world {
 public:
  // Counts how often each outcome was told.
  world(std::uint64_t seed, std::map<errc, std::uint64_t>& outcomes)
      : outcomes_(outcomes), sim_(seed) {}

  std::string run() {
    const std::uint64_t nodes = 2 + sim_.draw(3);
    for (std::uint64_t id = 1; id <= nodes; ++id) {
      testing::process_options options;
      options.host = 1 + static_cast<unsigned>(sim_.draw(2));
      options.node.requests(sim_.draw(4) == 0 ? 4 : 1000);
      if (sim_.draw(4) == 0)
        options.node.send_buffer_size(4096);
      sim_.start(
          bus_id{id}, [this, nodes, id](node& n) { begin(n, id, nodes); }, options);
    }
    testing::disturbances faults;
    faults.clock_steps = 0;  // an outcome is never early: that is looked at on one clock
    faults.restarts = 4;
    sim_.disturb(std::chrono::seconds{20}, faults);
    for (int step = 0; step != 400 && fault_.empty(); ++step) {
      sim_.run_for(std::chrono::milliseconds{sim_.draw(100)});
      act(nodes);
    }
    sim_.run_for(std::chrono::seconds{30});
    answer_all();
    sim_.run_for(longest_timeout + std::chrono::seconds{2});
    for (const auto& [number, one] : questions_) {
      if (one.outcomes == 0 && is_here(one))
        fail(one, "has no outcome");
    }
    if (gathers_ended_ < gathers_)
      fail("a gather has no outcome");
    return fault_;
  }

 private:
  void begin(node& n, std::uint64_t id, std::uint64_t nodes) {
    const auto address = [](std::uint64_t of) {
      return "ipv4://10.0.0." + std::to_string(of) + ":7000";
    };
    (void)n.listen(address(id));
    (void)n.listen("shm://requests-" + std::to_string(id));
    for (std::uint64_t other = 1; other <= nodes; ++other) {
      if (other != id)
        (void)n.connect(bus_id{other}, address(other));
    }
    n.on_request(asked_type, [this, &n](request& r) { handle(n, r); });
    n.on_request(asked_type + 1, [this](request& r) {
      if (sim_.draw(4) != 0)
        r.reply("gathered");
    });
    n.on_undelivered([this](const undelivered&) { fail("a request went to on_undelivered"); });
  }

  void handle(node& n, request& r) {
    const std::uint64_t number = std::stoull(std::string{r.text()});
    const auto found = questions_.find(number);
    if (found == questions_.end() || found->second.text != r.text())
      return fail("a request has become another one");
    question& asked = found->second;
    if (!asked.handled_by.insert(n.incarnation()).second)
      fail(asked, "was handled twice by one process");
    if (asked.handled_by.size() > 1 && !r.redelivered())
      fail(asked, "was handled by two processes without a mark");
    if (r.source() != asked.from)
      fail(asked, "has another source");
    if (!r.is_wanted())
      fail(asked, "came to a handler when its time was over");
    switch (sim_.draw(10)) {
      case 0:
      case 4:
      case 5:
      case 6:
      case 7:
        kept_.push_back({r.detach(), number, n.incarnation()});
        break;
      case 1:
        r.fail("failed " + std::to_string(number));
        break;
      case 2:
        break;  // dropped
      case 3: {
        const std::string text = reply_to(number);
        if (auto slot = r.claim(text.size())) {
          std::ranges::copy(as_bytes(text), slot.bytes().begin());
          asked.replied_by = n.incarnation();
          slot.commit();
        }
        break;
      }
      default:
        if (r.reply(reply_to(number)))
          asked.replied_by = n.incarnation();
    }
    if (sim_.draw(6) == 0)
      answer_one();
  }

  static std::string reply_to(std::uint64_t number) {
    return "reply " + std::to_string(number) + std::string(number % 500, 'r');
  }

  void answer_one() {
    if (kept_.empty())
      return;
    const std::size_t at = sim_.draw(kept_.size());
    kept& one = kept_[at];
    if (one.what.reply(reply_to(one.number)))
      questions_.at(one.number).replied_by = one.by;
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void answer_all() {
    while (!kept_.empty())
      answer_one();
  }

  question& make(node& from, bus_id to, nanoseconds timeout, std::uint64_t& number) {
    number = ++last_;
    question& made = questions_[number];
    made.from = from.id();
    made.to = to;
    made.asked_by = from.incarnation();
    made.asked_at = sim_.now();
    made.timeout = timeout;
    made.text = std::to_string(number) + " " + std::string(sim_.draw(700), 'q');
    return made;
  }

  void act(std::uint64_t nodes) {
    const bus_id from{1 + sim_.draw(nodes)};
    if (!sim_.is_running(from))
      return;
    node& n = sim_.node(from);
    const nanoseconds timeout{static_cast<std::int64_t>(
        sim_.draw(static_cast<std::uint64_t>(longest_timeout.count()) >> sim_.draw(12)))};
    switch (sim_.draw(8)) {
      case 0:
        return cancel_one();
      case 1:
        return answer_one();
      case 2:
        return gather(n, nodes, timeout);
      default: {
        std::uint64_t number = 0;
        question& made = make(n, bus_id{1 + sim_.draw(nodes)}, timeout, number);
        made.handle = n.request(made.to, asked_type, made.text, timeout,
                                [this, number](const response& r) { ended(number, r); });
        if (!made.handle)
          questions_.erase(number);
      }
    }
  }

  void cancel_one() {
    if (questions_.empty())
      return;
    const auto at = questions_.lower_bound(1 + sim_.draw(last_));
    if (at == questions_.end() || !is_here(at->second))
      return;
    if (sim_.node(at->second.from).cancel(at->second.handle))
      at->second.cancelled = true;
  }

  void gather(node& n, std::uint64_t nodes, nanoseconds timeout) {
    std::vector<bus_id> all;
    for (std::uint64_t id = 1; id <= nodes; ++id)
      all.push_back(bus_id{id});
    std::uint64_t number = 0;
    question& made = make(n, n.id(), timeout, number);
    const std::size_t enough = 1 + sim_.draw(nodes);
    const auto called = std::make_shared<int>(0);
    const auto begun =
        n.gather(all, asked_type + 1, as_bytes(made.text), enough, timeout,
                 [this, enough, nodes, called](const std::vector<kept_response>& got) {
                   ++gathers_ended_;
                   if (++*called != 1)
                     fail("a gather ended twice");
                   if (got.size() != nodes)
                     fail("a gather does not tell of all nodes");
                   const auto replies = std::ranges::count_if(
                       got, [](const kept_response& r) { return static_cast<bool>(r); });
                   if (static_cast<std::size_t>(replies) > enough)
                     fail("a gather waited for more than was asked for");
                 });
    questions_.erase(number);
    if (begun)
      ++gathers_;
  }

  void ended(std::uint64_t number, const response& r) {
    question& asked = questions_.at(number);
    if (++asked.outcomes != 1)
      return fail(asked, "has two outcomes");
    ++outcomes_[r.how().code()];
    switch (r.how().code()) {
      case errc::ok:
        if (asked.replied_by == 0 || r.text() != reply_to(number))
          fail(asked, "has a reply that nobody made");
        break;
      case errc::request_failed:
        if (asked.handled_by.empty())
          fail(asked, "failed without a handler");
        break;
      case errc::timed_out:
        if (sim_.now() < asked.asked_at + asked.timeout)
          fail(asked, "timed out early");
        break;
      case errc::cancelled:
        if (!asked.cancelled)
          fail(asked, "was cancelled by nobody");
        break;
      case errc::unknown_request:
        fail(asked, "has no handler");
        break;
      case errc::outcome_unknown:
        if (asked.replied_by != 0 && sim_.is_running(asked.to) &&
            sim_.node(asked.to).incarnation() == asked.replied_by)
          fail(asked, "is told outcome_unknown, although that process has replied");
        break;
      default:
        break;
    }
  }

  // Whether the process that asked lives.
  [[nodiscard]] bool is_here(const question& one) {
    return sim_.is_running(one.from) && sim_.node(one.from).incarnation() == one.asked_by;
  }
  void fail(std::string what) {
    if (fault_.empty())
      fault_ = std::move(what);
  }
  void fail(const question& one, std::string_view what) {
    std::ostringstream text;
    text << "request " << one.text.substr(0, one.text.find(' ')) << " of " << one.from.to_string()
         << " to " << one.to.to_string() << ", asked at "
         << std::chrono::duration<double>{one.asked_at}.count() << " s for "
         << std::chrono::duration<double>{one.timeout}.count() << " s, " << what << " at "
         << std::chrono::duration<double>{sim_.now()}.count() << " s";
    fail(text.str());
  }

  std::map<errc, std::uint64_t>& outcomes_;
  std::string fault_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, question> questions_;
  std::uint64_t gathers_ = 0;
  std::uint64_t gathers_ended_ = 0;
  struct kept {
    request what;
    std::uint64_t number = 0;
    std::uint64_t by = 0;  // incarnation
  };
  std::vector<kept> kept_;
  testing::simulation sim_;
};

TEST(RequestSimulation, KeepsEveryPromiseUnderEveryFault) {
  const std::uint64_t first = test::from_environment("ATBUS_SIMULATION_FIRST_SEED", 1);
  const std::uint64_t seeds =
      test::from_environment("ATBUS_SIMULATION_SEEDS", test::is_sanitized ? 100 : 2000);
  const bool counts = test::from_environment("ATBUS_SIMULATION_COUNT", 0) != 0;
  std::uint64_t failed = 0;
  std::map<errc, std::uint64_t> outcomes;
  for (std::uint64_t seed = first; seed != first + seeds; ++seed) {
    const std::string fault = world{seed, outcomes}.run();
    failed += fault.empty() ? 0 : 1;
    if (!counts) {
      ASSERT_EQ(fault, "") << "seed " << seed;
    }
  }
  if (counts)
    std::cout << failed << " of " << seeds << " seeds fail\n";
  for (const auto& [how, times] : outcomes)
    std::cout << name(how) << ' ' << times << '\n';
  for (const errc how : {errc::ok, errc::request_failed, errc::timed_out, errc::cancelled,
                         errc::outcome_unknown, errc::closed})
    EXPECT_NE(outcomes[how], 0U) << name(how) << " was never seen: the runs show little";
}

}  // namespace
}  // namespace atbus
