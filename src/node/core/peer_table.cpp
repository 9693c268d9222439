#include "node/core/peer_table.h"

#include <algorithm>
#include <new>

namespace atbus::detail {

peer* peer_table::look_up(bus_id id) noexcept {
  const auto found = peers_.find(id.value());
  if (found == peers_.end())
    return nullptr;
  if (!node_.is_client())  // which sends commands only
    last_found_ = found->second.get();
  return found->second.get();
}

peer* peer_table::find(const node_instance& who) noexcept {
  if (node_.is_client() || who.id != bus_id{})
    return find(node_.known_as(who.id));
  const auto found =
      std::ranges::find(clients_, who, [](const auto& one) { return one->instance; });
  return found != clients_.end() ? found->get() : nullptr;
}

peer& peer_table::find_or_make(const node_instance& who) {
  if (node_.is_client() || who.id != bus_id{})
    return find_or_make(node_.known_as(who.id));
  peer* const known = find(who);
  return known != nullptr ? *known : *clients_.emplace_back(make(who.id));
}

peer& peer_table::find_or_make(bus_id id) {
  if (peer* const known = find(id); known != nullptr)
    return *known;
  return *peers_.emplace(id.value(), make(id)).first->second;
}

std::unique_ptr<peer> peer_table::make(bus_id id) {
  auto made = std::make_unique<peer>(id, numbers_used_, node_.timers);
  const auto own = policies_.find(id.value());
  made->policy = own != policies_.end()
                     ? own->second
                     : peer_policy{node_.options.overflow(), node_.options.message_deadline()};
  hooks_.made(*made);
  made->reported = take_reported(id);
  return made;
}

// Without memory it may report some a second time.
void peer_table::remember_reported(peer& of) noexcept {
  const std::size_t stretches = of.reported.stretches();
  if (stretches == 0 || of.id == bus_id{})
    return;
  try {
    reported_.emplace_back(of.id, std::move(of.reported));
    reported_stretches_ += stretches;
  } catch (const std::bad_alloc&) {
  }
  for (; reported_stretches_ > reported_max; reported_.pop_front())
    reported_stretches_ -= reported_.front().second.stretches();
}

reported_numbers peer_table::take_reported(bus_id id) noexcept {
  const auto found =
      std::ranges::find_if(reported_, [id](const auto& one) { return one.first == id; });
  if (found == reported_.end())
    return {};
  reported_numbers taken = std::move(found->second);
  reported_stretches_ -= taken.stretches();
  reported_.erase(found);
  return taken;
}

void peer_table::erase(peer& of) {
  hooks_.erased(of);
  numbers_used_ = std::max(numbers_used_, of.out.accepted());
  remember_reported(of);
  if (last_found_ == &of)
    last_found_ = nullptr;
  if (node_.is_client(of))
    std::erase_if(clients_, [&](const auto& one) { return one.get() == &of; });
  else
    peers_.erase(of.id.value());
}

void peer_table::set_policy(bus_id id, const peer_policy& policy) {
  policies_[id.value()] = policy;
  if (peer* const known = find(id); known != nullptr)
    known->policy = policy;
}

}  // namespace atbus::detail
