#include "simulation/requests/request_world.h"

#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>

#include "dice.h"

namespace atbus::detail {

namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t asked_type = 7;
constexpr nanoseconds usual_timeout_max = std::chrono::seconds{8};
// Longer than faults go on and than it takes to recover from them.
constexpr nanoseconds long_timeout = std::chrono::minutes{2};
constexpr nanoseconds faults_take = std::chrono::seconds{20};
constexpr nanoseconds recovery_takes = std::chrono::seconds{30};

}  // namespace

request_world::request_world(std::uint64_t seed, std::map<errc, std::uint64_t>& outcomes)
    : outcomes_(outcomes), sim_(seed) {
  test::dice draw{~seed};
  is_tree_ = draw.one_in(3);
  nodes_ = make_small_topology(draw, is_tree_, "requests");
}

std::string request_world::run() {
  for (const tree_node& one : nodes_)
    start(one);
  testing::disturbances faults;
  faults.clock_steps = 0;  // an outcome is never early: that is looked at on one clock
  faults.restarts = 4;
  sim_.disturb(faults_take, faults);
  for (int step = 0; step != 400 && fault_.empty(); ++step) {
    sim_.run_for(std::chrono::milliseconds{sim_.draw(100)});
    act();
  }
  sim_.run_for(recovery_takes);
  check_in_hand();
  answer_all();
  sim_.run_for(usual_timeout_max + std::chrono::seconds{2});
  check_ended();
  return fault_;
}

void request_world::start(const tree_node& which) {
  testing::process_options options;
  options.host = 1 + which.host;
  options.node.requests(sim_.draw(4) == 0 ? 4 : 1000);
  if (sim_.draw(4) == 0)
    options.node.send_buffer_size(4096);
  // A node without a link is given up after half a minute, with the replies for it. A relay that has died
  // unseen is to be noticed well before that.
  if (is_tree_)
    options.node.ping_interval(std::chrono::seconds{2});
  if (which.range)
    options.node.children(which.range->to_string());
  if (!which.dials.empty() && &which != nodes_.data())
    options.node.parent(which.dials);
  sim_.start(
      which.id, [this, self = which](node& n) { begin(n, self); }, options);
}

void request_world::begin(node& n, const tree_node& self) {
  for (const std::string& one : self.addresses)
    (void)n.listen(one);
  for (const tree_node& other : nodes_) {
    if (!is_tree_ && other.id != self.id)
      (void)n.connect(other.id, other.addresses.front());
  }
  n.on_request(asked_type, [this, &n](request& r) { handle(n, r); });
  n.on_request(asked_type + 1, [this](request& r) {
    if (sim_.draw(4) != 0)
      r.reply("gathered");
  });
  n.on_undelivered([this](const undelivered&) { fail("a request went to on_undelivered"); });
}

void request_world::handle(node& n, request& r) {
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
  const std::string text = reply_to(number, n.incarnation());
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
    case 3:
      if (auto slot = r.claim(text.size())) {
        std::ranges::copy(as_bytes(text), slot.bytes().begin());
        asked.replied_by.insert(n.incarnation());
        slot.commit();
      }
      break;
    default:
      if (r.reply(text))
        asked.replied_by.insert(n.incarnation());
  }
  if (sim_.draw(6) == 0)
    answer_one();
}

std::string request_world::reply_to(std::uint64_t number, std::uint64_t by) {
  return std::to_string(by) + " replies to " + std::to_string(number) +
         std::string(number % 500, 'r');
}

void request_world::answer_one() {
  if (kept_.empty())
    return;
  const std::size_t at = sim_.draw(kept_.size());
  kept& one = kept_[at];
  if (one.what.reply(reply_to(one.number, one.by)))
    questions_.at(one.number).replied_by.insert(one.by);
  kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(at));
}

void request_world::answer_all() {
  while (!kept_.empty())
    answer_one();
}

request_world::question& request_world::make(node& from, bus_id to, nanoseconds timeout,
                                             std::uint64_t& number) {
  number = ++last_;
  question& made = questions_[number];
  made.from = from.id();
  made.to = to;
  made.asked_by = from.incarnation();
  made.asked_of = connected_to(from, to);
  made.asked_at = sim_.now();
  made.timeout = timeout;
  made.text = std::to_string(number) + " " + std::string(sim_.draw(700), 'q');
  return made;
}

void request_world::act() {
  if (sim_.draw(64) == 0)
    restart_soon();
  const bus_id from = draw_id();
  if (!sim_.is_running(from))
    return;
  node& n = sim_.node(from);
  const nanoseconds timeout{static_cast<std::int64_t>(
      sim_.draw(static_cast<std::uint64_t>(usual_timeout_max.count()) >> sim_.draw(12)))};
  switch (sim_.draw(8)) {
    case 0:
      return cancel_one();
    case 1:
      return answer_one();
    case 2:
      return gather(n, timeout);
    case 3:
      return ask(n, long_timeout);
    default:
      return ask(n, timeout);
  }
}

void request_world::ask(node& n, nanoseconds timeout) {
  std::uint64_t number = 0;
  question& made = make(n, draw_id(), timeout, number);
  made.handle = n.request(made.to, asked_type, made.text, timeout,
                          [this, number](const response& r) { ended(number, r); });
  if (!made.handle)
    questions_.erase(number);
}

void request_world::cancel_one() {
  if (questions_.empty())
    return;
  const auto at = questions_.lower_bound(1 + sim_.draw(last_));
  if (at == questions_.end() || !is_here(at->second))
    return;
  if (sim_.node(at->second.from).cancel(at->second.handle))
    at->second.cancelled = true;
}

void request_world::restart_soon() {
  const bus_id who = draw_id();
  if (!sim_.is_running(who))
    return;
  sim_.kill(who);
  sim_.run_for(std::chrono::milliseconds{sim_.draw(300)});
  if (!sim_.is_running(who))
    sim_.restart(who);
}

void request_world::gather(node& n, nanoseconds timeout) {
  std::vector<bus_id> all;
  for (const tree_node& one : nodes_)
    all.push_back(one.id);
  std::uint64_t number = 0;
  question& made = make(n, n.id(), timeout, number);
  const std::size_t enough = 1 + sim_.draw(all.size());
  const auto called = std::make_shared<int>(0);
  const auto begun =
      n.gather(all, asked_type + 1, as_bytes(made.text), enough, timeout,
               [this, enough, nodes = all.size(), called](const std::vector<kept_response>& got) {
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

void request_world::ended(std::uint64_t number, const response& r) {
  question& asked = questions_.at(number);
  if (++asked.outcomes != 1)
    return fail(asked, "has two outcomes");
  ++outcomes_[r.how().code()];
  if (asked.cancelled && r.how() != errc::cancelled)
    fail(asked, "has another outcome than that it was cancelled");
  switch (r.how().code()) {
    case errc::ok:
      return replied(number, r);
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
      if (sim_.is_running(asked.to) && asked.replied_by.contains(sim_.node(asked.to).incarnation()))
        fail(asked, "is told outcome_unknown, although that process has replied");
      break;
    default:
      break;
  }
}

void request_world::replied(std::uint64_t number, const response& r) {
  const question& asked = questions_.at(number);
  for (const std::uint64_t by : asked.replied_by) {
    if (r.text() == reply_to(number, by))
      return check_asked_before(number, by);
  }
  fail(asked, "has a reply that nobody made");
}

// The node that has replied was asked about all that waited when it had registered, and answered before it
// got this request: its answers are messages of one flow, in order.
void request_world::check_asked_before(std::uint64_t number, std::uint64_t by) {
  const question& last = questions_.at(number);
  if (last.asked_of != by || !sim_.is_running(last.to) || sim_.node(last.to).incarnation() != by)
    return;
  for (const auto& [before, one] : questions_) {
    if (before >= number)
      return;
    if (one.from == last.from && one.asked_by == last.asked_by && one.to == last.to &&
        is_left_by_another(one, by) && sim_.now() < one.asked_at + one.timeout)
      return fail(one,
                  "waits for a process that is gone, though its successor has replied to "
                  "a later one");
  }
}

// Everybody has been connected for long enough, and nobody who is gone answers.
void request_world::check_in_hand() {
  for (const auto& [number, one] : questions_) {
    if (!is_here(one) || !sim_.is_running(one.to))
      continue;
    const std::uint64_t now = sim_.node(one.to).incarnation();
    if (is_left_by_another(one, now) && connected_to(sim_.node(one.from), one.to) == now)
      fail(one, "waits for a process that is gone, though its successor is connected");
  }
}

void request_world::check_ended() {
  bool all_ended = true;
  const auto look = [&] {
    all_ended = std::ranges::all_of(questions_, [&](const auto& one) {
      return one.second.outcomes != 0 || !is_here(one.second);
    });
    return all_ended;
  };
  // Most has ended before. What was never handled may wait for as long as it said.
  if (!look())
    sim_.run_for(long_timeout);
  if (!look()) {
    for (const auto& [number, one] : questions_) {
      if (one.outcomes == 0 && is_here(one))
        fail(one, "has no outcome");
    }
  }
  if (gathers_ended_ < gathers_)
    fail("a gather has no outcome");
}

std::uint64_t request_world::connected_to(const node& n, bus_id other) {
  for (const endpoint& one : n.endpoints()) {
    if (one.id() == other)
      return one.connected() ? one.incarnation() : 0;
  }
  return 0;
}

bool request_world::is_here(const question& one) {
  return sim_.is_running(one.from) && sim_.node(one.from).incarnation() == one.asked_by;
}

void request_world::fail(std::string what) {
  if (fault_.empty())
    fault_ = std::move(what);
}

void request_world::fail(const question& one, std::string_view what) {
  std::ostringstream text;
  text << "request " << one.text.substr(0, one.text.find(' ')) << " of " << one.from.to_string()
       << " to " << one.to.to_string() << ", asked at "
       << std::chrono::duration<double>{one.asked_at}.count() << " s for "
       << std::chrono::duration<double>{one.timeout}.count() << " s, " << what << " at "
       << std::chrono::duration<double>{sim_.now()}.count() << " s";
  fail(text.str());
}

}  // namespace atbus::detail
