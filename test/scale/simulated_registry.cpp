#include "simulated_registry.h"

#include <utility>

namespace atbus::test {

using namespace std::chrono_literals;

namespace {

// Those of etcd_client and etcd_options.
constexpr std::chrono::nanoseconds start_jitter = 50ms;
constexpr std::chrono::nanoseconds pause_min = 50ms;
constexpr std::chrono::nanoseconds pause_max = 10s;

}  // namespace

// --- the registry

std::shared_ptr<registry_client> simulated_registry::make_client() {
  std::erase_if(clients_, [](const auto& one) { return one.expired(); });
  auto made = std::make_shared<registry_client>(*this);
  clients_.push_back(made);
  made->begin();
  return made;
}

void simulated_registry::lose() {
  is_away_ = true;
  for (const auto& one : clients_) {
    if (const auto client = one.lock(); client != nullptr && client->is_watching_)
      client->fail(net_.now());
  }
}

void simulated_registry::return_again() {
  is_away_ = false;
}

bool simulated_registry::ask(request what, bool announces) {
  if (net_.now() >= second_ + 1s) {
    second_ = std::chrono::floor<std::chrono::seconds>(net_.now());
    answered_in_second_ = unanswered_in_second_ = 0;
  }
  if (is_away_) {
    ++load_.unanswered;
    load_.unanswered_peak = std::max(load_.unanswered_peak, ++unanswered_in_second_);
    return false;
  }
  end_leases();
  ++load_.answered[static_cast<std::size_t>(what)];
  load_.answered_leaves += announces ? 0 : 1;
  load_.answered_peak = std::max(load_.answered_peak, ++answered_in_second_);
  return true;
}

void simulated_registry::put(const directory_record& record, std::uint64_t lease) {
  const time ends = net_.now() + lease_time;
  entries_[record.id] = {.lease = lease, .ends = ends};
  next_end_ = std::min(next_end_, ends);
  changes_.push_back({.id = record.id, .record = record});
}

void simulated_registry::remove(bus_id id, std::uint64_t lease) {
  const auto at = entries_.find(id);
  if (at == entries_.end() || at->second.lease != lease)
    return;
  entries_.erase(at);
  changes_.push_back({.id = id, .record = std::nullopt});
}

bool simulated_registry::keep_alive(bus_id id, std::uint64_t lease) {
  const auto at = entries_.find(id);
  if (at == entries_.end() || at->second.lease != lease)
    return false;
  at->second.ends = net_.now() + lease_time;
  return true;
}

void simulated_registry::end_leases() {
  if (net_.now() < next_end_)
    return;
  next_end_ = time::max();
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (at->second.ends <= net_.now()) {
      changes_.push_back({.id = at->first, .record = std::nullopt});
      at = entries_.erase(at);
    } else {
      next_end_ = std::min(next_end_, at->second.ends);
      ++at;
    }
  }
}

// --- a directory

registry_client::time registry_client::up_to(time most) {
  return time{
      static_cast<std::int64_t>(registry_.net_.draw(static_cast<std::uint64_t>(most.count()) + 1))};
}

void registry_client::begin() {
  ready_at_ = registry_.net_.now() + up_to(start_jitter);
  plan(ready_at_);
}

void registry_client::plan(time when) {
  when = std::max(when, ready_at_);
  if (when >= planned_)
    return;
  planned_ = when;
  registry_.net_.timer(when, [weak = weak_from_this(), when] {
    if (const auto self = weak.lock(); self != nullptr && self->planned_ == when)
      self->work();
  });
}

void registry_client::work() {
  planned_ = time::max();
  if (is_killed_)
    return;
  const time now = registry_.net_.now();
  if (now >= ready_at_) {
    // Both are under way at a time.
    const bool reads = read(now);
    const bool writes = write(now);
    if (!reads || !writes)
      fail(now);
  }
  const bool keeps = lease_ != 0 && announced_;
  plan(is_watching_ ? std::min(check_at_, keeps ? keep_at_ : time::max()) : ready_at_);
}

bool registry_client::read(time now) {
  if (is_watching_ && now < check_at_)
    return true;
  if (!is_listed_ && !ask(request::list))
    return false;
  is_listed_ = true;
  if (!ask(is_watching_ ? request::check : request::watch))
    return false;
  if (is_watching_)
    failures_ = 0;
  is_watching_ = true;
  check_at_ = now + about(simulated_registry::lease_time);
  return true;
}

bool registry_client::write(time now) {
  if (!announced_)
    return true;
  if (lease_ != 0 && now >= keep_at_) {
    if (!ask(request::keep_alive))
      return false;
    if (!registry_.keep_alive(announced_->id, lease_))
      lease_ = 0;
    keep_at_ = now + about(simulated_registry::lease_time / 3);
  }
  if (lease_ == 0) {
    if (!ask(request::grant))
      return false;
    lease_ = ++registry_.leases_;
    is_owed_ = true;
    keep_at_ = now + about(simulated_registry::lease_time / 3);
  }
  if (!is_owed_)
    return true;
  if (!ask(request::put))
    return false;
  registry_.put(*announced_, lease_);
  is_owed_ = false;
  return true;
}

void registry_client::fail(time now) {
  is_watching_ = false;
  ++failures_;
  time pause = pause_min;
  for (std::size_t i = 1; i < failures_ && pause < pause_max; ++i)
    pause *= 2;
  ready_at_ = now + about(std::min(pause, pause_max));
  planned_ = time::max();
  plan(ready_at_);
}

error registry_client::announce(const directory_record& record) {
  if (record.place == tree_place::leaf)
    return {};
  announced_ = record;
  is_owed_ = true;
  plan(registry_.net_.now());
  return {};
}

error registry_client::withdraw(bus_id id) {
  if (!is_killed_ && lease_ != 0 && announced_ && ask(request::withdraw))
    registry_.remove(id, lease_);
  announced_.reset();
  return {};
}

error registry_client::poll() {
  if (is_watching_) {
    const std::vector<simulated_registry::change>& all = registry_.changes();
    for (; seen_ != all.size(); ++seen_) {
      const simulated_registry::change& one = all[seen_];
      if (one.record)
        records_.put(*one.record);
      else
        records_.remove(one.id);
    }
  }
  records_.tell_changed();
  return is_watching_ ? error{} : error{errc::not_connected, "the registry does not answer"};
}

}  // namespace atbus::test
