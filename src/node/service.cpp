#include "atbus/service.hpp"

#include <algorithm>
#include <utility>

#include "atbus/directory.hpp"
#include "node/node_access.h"
#include "node/service/key_owner.h"

namespace atbus {

struct service::state {
  state(node& of, std::string_view name_of_it);
  ~state() {
    if (from != nullptr && watch != directory::watch_id{})
      from->unwatch(watch);
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  // What the directory says now.
  void refresh();
  // Null once the node is closed.
  [[nodiscard]] detail::node_core* open_core() const noexcept {
    return *open_node ? core : nullptr;
  }
  [[nodiscard]] bool is_away(bus_id id) const noexcept {
    return open_core() != nullptr && open_core()->is_away(id);
  }
  [[nodiscard]] std::size_t draw() noexcept {
    random = random * 6364136223846793005U + 1442695040888963407U;  // Knuth's
    return static_cast<std::size_t>(random >> 33U);
  }

  std::string name;
  detail::node_core* core = nullptr;
  std::shared_ptr<const bool> open_node = std::make_shared<const bool>(false);
  std::shared_ptr<directory> from;  // null: there is none
  directory::watch_id watch = 0;
  bool has_changed = true;
  std::vector<bus_id> members;
  detail::key_owner owners;
  std::uint64_t random = 0;
  std::size_t turn = 0;
};

service::state::state(atbus::node& of, std::string_view name_of_it) : name(name_of_it) {
  if (!of.is_open())
    return;
  core = &detail::node_access::core(of);
  open_node = core->is_open();
  random = core->draw_word();
  turn = draw();  // so that nodes do not all begin with the first one
  from = core->directory();
  if (from != nullptr)
    watch = from->watch_members(name, [this] { has_changed = true; });
}

void service::state::refresh() {
  if (open_core() == nullptr) {
    members.clear();
    return owners.set_members({});
  }
  if (!has_changed || from == nullptr)
    return;
  members = from->members(name);
  owners.set_members(members);
  has_changed = false;
}

service::service(node& of, std::string_view name) : state_(std::make_unique<state>(of, name)) {}
service::service(service&& other) noexcept = default;
service& service::operator=(service&& other) noexcept = default;
service::~service() = default;

const std::string& service::name() const noexcept {
  return state_->name;
}

const std::vector<bus_id>& service::members() {
  state_->refresh();
  return state_->members;
}

bus_id service::any() {
  constexpr std::size_t looks = 8;
  const std::vector<bus_id>& all = members();
  if (all.empty())
    return {};
  for (std::size_t look = 0; look != std::min(looks, all.size()); ++look) {
    const bus_id next = all[state_->turn++ % all.size()];
    if (!state_->is_away(next))
      return next;
  }
  return all[state_->turn++ % all.size()];
}

bus_id service::least_busy() {
  const std::vector<bus_id>& all = members();
  if (all.size() < 2)
    return all.empty() ? bus_id{} : all.front();
  const std::size_t at = state_->draw() % all.size();
  const bus_id one = all[at];
  const bus_id other = all[(at + 1 + state_->draw() % (all.size() - 1)) % all.size()];
  if (state_->is_away(one) != state_->is_away(other))
    return state_->is_away(one) ? other : one;
  detail::node_core& node = *state_->open_core();
  return node.requests_to(one) <= node.requests_to(other) ? one : other;
}

bus_id service::for_key(std::uint64_t key) {
  state_->refresh();
  return state_->owners.of(key);
}

bus_id service::for_key(std::string_view key) {
  return for_key(detail::key_owner::number_of(key));
}

}  // namespace atbus
