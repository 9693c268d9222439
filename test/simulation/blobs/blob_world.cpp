#include "simulation/blobs/blob_world.h"

#include <algorithm>

#include "dice.h"

namespace atbus::detail {
namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t taken_type = 7;
constexpr std::uint32_t unknown_type = 8;
constexpr std::uint32_t message_type = 9;
constexpr std::size_t window = node_options::blob_window_min;
constexpr nanoseconds faults_take = std::chrono::seconds{20};
// A node that is not heard of is given up after half a minute.
constexpr nanoseconds recovery_takes = std::chrono::seconds{75};

// What a blob has at each place.
std::byte byte_at(std::uint64_t number, std::uint64_t position) {
  return static_cast<std::byte>((position * 31 + number * 7 + position / 251) & 0xff);
}

}  // namespace

blob_world::blob_world(std::uint64_t seed, std::map<errc, std::uint64_t>& outcomes)
    : outcomes_(outcomes), sim_(seed) {
  test::dice draw{~seed};
  is_tree_ = draw.one_in(3);
  nodes_ = make_small_topology(draw, is_tree_, "blobs");
  if (draw.one_in(3)) {
    sim_.conditions().queue_size = 4000;
    sim_.conditions().kernel_holds = 2000;
  }
}

std::string blob_world::run() {
  for (const tree_node& one : nodes_)
    start(one);
  testing::disturbances faults;
  faults.cuts = 8;
  faults.restarts = 4;
  sim_.disturb(faults_take, faults);
  for (int step = 0; step != 150 && fault_.empty(); ++step) {
    sim_.run_for(std::chrono::milliseconds{sim_.draw(270)});
    act();
  }
  recovers_ = true;
  resume_all();
  sim_.run_for(recovery_takes);
  check_ended();
  return fault_;
}

void blob_world::start(const tree_node& which) {
  testing::process_options options;
  options.host = 1 + which.host;
  options.node.blob_window(window);
  if (sim_.draw(4) == 0)
    options.node.send_buffer_size(std::size_t{40} * 1024);
  else if (sim_.draw(3) == 0)
    options.node.send_buffer_size(500 + sim_.draw(5000));
  options.node.overflow(static_cast<overflow_policy>(sim_.draw(4)));
  if (sim_.draw(3) == 0)
    options.node.message_deadline(std::chrono::milliseconds{1 + sim_.draw(300)});
  if (sim_.draw(4) == 0)
    options.node.message_limit(1000);
  if (is_tree_)
    options.node.ping_interval(std::chrono::seconds{2});
  if (which.range)
    options.node.children(which.range->to_string());
  if (!which.dials.empty() && &which != nodes_.data())
    options.node.parent(which.dials);
  sim_.start(
      which.id, [this, self = which](node& n) { begin(n, self); }, options);
}

void blob_world::begin(node& n, const tree_node& self) {
  for (const std::string& one : self.addresses)
    (void)n.listen(one);
  for (const tree_node& other : nodes_) {
    if (!is_tree_ && other.id != self.id)
      (void)n.connect(other.id, other.addresses.front());
  }
  n.on_blob(taken_type, [this, &n](incoming_blob& blob) { announced(n, blob); });
  n.on_undelivered([this](const undelivered& what) {
    if (what.type() != message_type)
      fail("a blob went to on_undelivered");
  });
}

void blob_world::act() {
  const bus_id id = draw_id();
  switch (sim_.draw(7)) {
    case 0:
      return cancel_one();
    case 1:
      return resume_one();
    case 2:
      return send_messages(id, sim_.draw(30));
    default:
      if (sim_.is_running(id))
        send(sim_.node(id));
  }
}

void blob_world::send(node& n) {
  const std::uint64_t number = ++last_;
  record& made = records_[number];
  made.from = n.id();
  made.to = draw_id();
  made.sent_by = n.incarnation();
  made.size = sim_.draw(8) == 0 ? sim_.draw(2) : sim_.draw(300000);
  const auto write = [this, number](mutable_bytes room) {
    record& of = records_[number];
    for (std::byte& one : room)
      one = byte_at(number, of.made++);
    std::uint64_t taken = 0;
    for (const auto& [by, one] : of.received_by)
      taken = std::max(taken, one.taken);
    if (of.made - taken > window)
      fail(number, "has more than a window under way");
    return sim_.draw(400) == 0 ? status{errc::no_space} : status{};
  };
  made.handle =
      n.send_blob(made.to, sim_.draw(10) == 0 ? unknown_type : taken_type, {made.size, write},
                  [this, number](const blob_outcome& how) { ended(number, how); },
                  {.note = std::to_string(number)});
  if (!made.handle)
    records_.erase(number);
}

// Bursts, so that there is no room for blobs between them.
void blob_world::send_messages(bus_id from, std::uint64_t bursts) {
  if (!sim_.is_running(from))
    return;
  const bus_id to = draw_id();
  for (std::uint64_t left = sim_.draw(100); left != 0; --left) {
    if (!sim_.node(from).send(to, message_type, std::string(sim_.draw(900), 'm')))
      break;
  }
  if (bursts == 0 || recovers_)
    return;
  sim_.after(std::chrono::milliseconds{sim_.draw(5)},
             [this, from, bursts] { send_messages(from, bursts - 1); });
}

void blob_world::cancel_one() {
  if (records_.empty())
    return;
  auto found = records_.lower_bound(1 + sim_.draw(last_));
  if (found == records_.end() || found->second.outcomes != 0 ||
      !lives(found->second.from, found->second.sent_by))
    return;
  if (sim_.node(found->second.from).cancel_blob(found->second.handle))
    found->second.cancelled = true;
}

void blob_world::resume_one() {
  if (paused_.empty())
    return;
  const paused_blob one = paused_[sim_.draw(paused_.size())];
  if (lives(one.at, one.by))
    (void)sim_.node(one.at).resume_blob(one.id);
}

void blob_world::resume_all() {
  for (const paused_blob& one : paused_) {
    if (lives(one.at, one.by))
      (void)sim_.node(one.at).resume_blob(one.id);
  }
}

void blob_world::announced(node& n, incoming_blob& blob) {
  const std::uint64_t number = std::stoull(std::string{blob.note()});
  const auto found = records_.find(number);
  if (found == records_.end())
    return fail("a blob came that was never sent");
  record& of = found->second;
  if (blob.source() != of.from || blob.size() != of.size || n.id() != of.to)
    fail(number, "has become another one");
  const auto [place, is_new] = of.received_by.try_emplace(n.incarnation());
  if (!is_new)
    return fail(number, "began twice at one process");
  if (of.received_by.size() > 1 && !blob.redelivered())
    fail(number, "began at two processes without a mark");
  if (sim_.draw(12) == 0) {
    place->second.refused = true;
    return blob.refuse("no");
  }
  blob.accept([this, at = n.id(), number, by = n.incarnation()](const blob_part& part) {
    part_came(at, number, by, part);
  });
}

void blob_world::part_came(bus_id at, std::uint64_t number, std::uint64_t by,
                           const blob_part& part) {
  record& of = records_[number];
  reception& here = of.received_by[by];
  if (here.ended || here.refused)
    fail(number, "was told something after its end");
  if (part.position() != here.taken)
    fail(number, "has a gap, or came twice");
  if (part.ended()) {
    here.ended = part.how();
    if (part.how() && here.taken != of.size)
      fail(number, "ended well before all was there");
    return;
  }
  for (const std::byte one : part.bytes()) {
    if (one != byte_at(number, here.taken++))
      return fail(number, "has other bytes than were sent");
  }
  if (part.is_last() != (here.taken == of.size))
    fail(number, "says wrongly which part is the last");
  if (sim_.draw(40) == 0) {
    here.refused = true;
    part.refuse("no more");
  } else if (!recovers_ && sim_.draw(20) == 0) {
    part.pause();
    paused_.push_back({at, by, part.id()});
  }
}

void blob_world::ended(std::uint64_t number, const blob_outcome& how) {
  record& of = records_[number];
  ++outcomes_[how.how().code()];
  if (++of.outcomes != 1)
    fail(number, "has two outcomes");
  const bool is_whole = std::ranges::any_of(
      of.received_by, [](const auto& one) { return one.second.ended && *one.second.ended; });
  const bool was_refused =
      std::ranges::any_of(of.received_by, [](const auto& one) { return one.second.refused; });
  switch (how.how().code()) {
    case errc::ok:
      if (!is_whole)
        fail(number, "was taken, as its sender was told, and was not");
      return;
    case errc::request_failed:
      if (!was_refused)
        fail(number, "was refused by nobody");
      return;
    case errc::cancelled:
      if (!of.cancelled)
        fail(number, "was cancelled by nobody");
      return;
    case errc::protocol_error:
      return fail(number, "broke the protocol");
    case errc::peer_closed:
    case errc::no_space:
    case errc::unknown_request:
      if (is_whole)
        fail(number, "was taken, and its sender was told that it was not");
      return;
    default:
      return;
  }
}

void blob_world::check_ended() {
  for (const auto& [number, of] : records_) {
    if (lives(of.from, of.sent_by) && of.outcomes != 1)
      fail(number, "has " + std::to_string(of.outcomes) + " outcomes");
    for (const auto& [by, here] : of.received_by) {
      if (lives(of.to, by) && !here.ended && !here.refused)
        fail(number, "has no end at its receiver");
    }
  }
}

bool blob_world::lives(bus_id id, std::uint64_t incarnation) {
  return sim_.is_running(id) && sim_.node(id).incarnation() == incarnation;
}

void blob_world::fail(std::string what) {
  if (fault_.empty())
    fault_ = std::move(what);
}

void blob_world::fail(std::uint64_t number, std::string_view what) {
  const record& of = records_[number];
  fail("blob " + std::to_string(number) + " of " + of.from.to_string() + " to " +
       of.to.to_string() + " with " + std::to_string(of.size) + " bytes " + std::string{what});
}

}  // namespace atbus::detail
