#include "simulated_fleet.h"

#include <cstring>
#include <random>
#include <stdexcept>

#include "atbus/node_options.hpp"

namespace atbus::test {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

constexpr std::uint32_t talk = 1;
constexpr nanoseconds glance = 10ms;
constexpr nanoseconds patience = 5min;

std::string address_of(std::uint64_t place, bool has_moved = false) {
  return "ipv4://10." + std::to_string(place >> 16U) + '.' + std::to_string(place >> 8U & 0xFFU) +
         '.' + std::to_string(place & 0xFFU) + (has_moved ? ":7001" : ":7000");
}

// A number of a host, which is each process's own here: all links are TCP.
detail::host_identity host_of(std::uint64_t place) {
  detail::host_identity made{};
  std::memcpy(made.data(), &place, sizeof place);
  made.back() = std::byte{1};  // all zero would be no host
  return made;
}

}  // namespace

void fleet::start(std::uint64_t place) {
  node_options options;
  options.allow_unauthenticated().send_buffer_size(256 * 1024).message_limit(4096);
  if (at_.role_of(place) != role::root)
    options.parent(address_of(at_.parent_of(place)));
  if (at_.role_of(place) != role::leaf)
    options.children(at_.children_of(place));
  if (registry_) {
    directories_[place] = registry_->make_client();
    options.directory(directories_[place]);
  }
  processes_[place] =
      std::make_unique<simulated_node>(net_, at_.id_of(place), options, host_of(place));
  node& node = processes_[place]->user();
  if (const error bad = node.listen(address_of(place, moved_ == place)); !bad)
    throw std::runtime_error(bad.text());
  node.on_message([this](const message& got) {
    settle_one(got.bytes(), got.redelivered() ? fate::redelivered : fate::delivered);
  });
  node.on_undelivered([this](const undelivered& back) {
    settle_one(back.bytes(),
               back.outcome() == errc::not_delivered ? fate::reported : fate::unknown);
  });
}

void fleet::settle_one(bytes_view bytes, fate now) {
  std::uint64_t number = 0;
  if (bytes.size() != sizeof number)
    return;
  std::memcpy(&number, bytes.data(), sizeof number);
  if (number >= sent_.size())
    return;
  telling& told = sent_[number];
  const bool was_delivered = told.now == fate::delivered || told.now == fate::redelivered;
  if (now == fate::delivered && was_delivered)
    ++repeated_;
  const bool is_delivered = now == fate::delivered || now == fate::redelivered;
  // What is reported as not delivered must not have come, and must not come later.
  if ((now == fate::reported && was_delivered) || (is_delivered && told.now == fate::reported))
    ++contradicted_;
  if (!is_delivered && told.now != fate::under_way)
    return;
  told.now = now;
}

void fleet::kill(std::uint64_t place) {
  if (!is_running(place))
    return;
  of_the_dead_[static_cast<std::size_t>(at_.role_of(place))].add(processes_[place]->user().stats());
  if (directories_[place] != nullptr)
    directories_[place]->kill();
  processes_[place].reset();
  for (telling& one : sent_) {
    if (one.from == place && one.now == fate::under_way)
      one.now = fate::sender_died;
  }
}

// One of eight, which stay the same.
std::uint64_t fleet::partner_of(std::uint64_t from) {
  const std::uint64_t leaves = at_.count() - 1 - at_.relays;
  std::mt19937_64 same{from * 8 + net_.draw(8)};
  const std::uint64_t own = from - 1 - at_.relays;
  return 1 + at_.relays + (own + 1 + same() % (leaves - 1)) % leaves;
}

void fleet::say(std::uint64_t from) {
  const std::uint64_t to = partner_of(from);
  const std::uint64_t number = sent_.size();
  std::string text(sizeof number, '\0');
  std::memcpy(text.data(), &number, sizeof number);
  sent_.push_back({from, fate::under_way});
  if (!processes_[from]->user().send(at_.id_of(to), talk, text))
    sent_.back().now = fate::refused;
  processes_[from]->wake();
}

void fleet::talk_for(nanoseconds time) {
  const auto leaves = static_cast<std::int64_t>(at_.count() - 1 - at_.relays);
  const nanoseconds pause = nanoseconds{1s} / leaves;
  const nanoseconds end = net_.now() + time;
  while (net_.now() < end) {
    if (is_running(speaker_))
      say(speaker_);
    speaker_ = speaker_ + 1 == at_.count() ? 1 + at_.relays : speaker_ + 1;
    net_.run_for(pause);
  }
}

void fleet::restart_after(nanoseconds time, std::uint64_t place) {
  net_.at(net_.now() + time, [this, place] {
    kill(place);
    net_.at(net_.now() + 1s, [this, place] { start(place); });
  });
}

void fleet::move_after(nanoseconds time, std::uint64_t place) {
  restart_after(time, place);
  net_.at(net_.now() + time + 1s, [this, place] {
    mended_at_ = net_.now();
    look_for_finders_of(place);
  });
  moved_ = place;
}

void fleet::look_for_finders_of(std::uint64_t relay) {
  net_.timer(net_.now() + glance, [this, relay] {
    for (std::uint64_t leaf = 1 + at_.relays; leaf != at_.count(); ++leaf) {
      if (at_.relay_of(leaf) == relay && is_running(leaf) &&
          processes_[leaf]->user().parent() != at_.id_of(relay))
        return look_for_finders_of(relay);
    }
    found_at_ = net_.now();
  });
}

void fleet::restart_all_within(nanoseconds time) {
  const nanoseconds pause = time / static_cast<std::int64_t>(at_.count());
  for (std::uint64_t place = 0; place != at_.count(); ++place)
    restart_after(pause * static_cast<std::int64_t>(place), place);
  talk_for(time + 1s);
}

bool fleet::is_healed() {
  for (std::uint64_t place = 1; place != at_.count(); ++place) {
    if (is_running(place) && processes_[place]->user().parent() == bus_id{})
      return false;
  }
  return true;
}

std::optional<nanoseconds> fleet::heal() {
  const nanoseconds begin = net_.now();
  while (!is_healed()) {
    if (net_.now() - begin > patience)
      return std::nullopt;
    net_.run_for(glance);
  }
  return net_.now() - begin;
}

void fleet::settle() {
  const nanoseconds latest = net_.now() + patience;
  while (fate_count(fate::under_way) != 0 && net_.now() < latest)
    net_.run_for(100 * glance);
}

costs_of_roles fleet::all_costs() {
  costs_of_roles all = of_the_dead_;
  for (std::uint64_t place = 0; place != at_.count(); ++place) {
    if (is_running(place))
      all[static_cast<std::size_t>(at_.role_of(place))].add(processes_[place]->user().stats());
  }
  return all;
}

std::uint64_t fleet::fate_count(fate which) const {
  std::uint64_t count = 0;
  for (const telling& one : sent_)
    count += one.now == which ? 1 : 0;
  return count;
}

}  // namespace atbus::test
