#include "atbus/topic.hpp"

#include <new>
#include <utility>

#include "node/core/node_core.h"
#include "node/node_access.h"

namespace atbus {

static_assert(topic::overhead("prices") == detail::topic_head_size("prices") &&
              topic::name_size_max == detail::topic_name_max &&
              subscription_options::waiting_max == detail::topic_waiting_max);

struct topic::state {
  state(atbus::node& of, std::string_view name_of_it, const topic_options& how)
      : name(name_of_it), options(how) {
    if (!of.is_open())
      return;
    core = &detail::node_access::core(of);
    open_node = core->is_open();
    entry = core->topic().hold(name);
  }
  ~state() {
    if (*open_node && entry != nullptr)
      core->topic().release(*entry);
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  std::string name;
  topic_options options;
  detail::node_core* core = nullptr;
  std::shared_ptr<const bool> open_node = std::make_shared<const bool>(false);
  detail::topic_entry* entry = nullptr;  // null: there can't be one of that name
};

topic::topic(node& of, std::string_view name, const topic_options& options)
    : state_(std::make_unique<state>(of, name, options)) {}
topic::topic(topic&& other) noexcept = default;
topic& topic::operator=(topic&& other) noexcept = default;
topic::~topic() = default;

const std::string& topic::name() const noexcept {
  return state_->name;
}

publication topic::publish(std::uint32_t type, bytes_view bytes) {
  if (!*state_->open_node)
    return {errc::closed, 0};
  if (state_->entry == nullptr)
    return {errc::invalid_argument, 0};
  std::size_t links = 0;
  try {
    const status how = state_->core->topic().publish(*state_->entry, state_->options.waits_for_slow,
                                                     type, bytes, links);
    return {how, links};
  } catch (const std::bad_alloc&) {
    return {{errc::out_of_memory, bytes.size()}, links};
  }
}

std::size_t topic::links() const noexcept {
  return *state_->open_node && state_->entry != nullptr
             ? state_->core->topic().links(*state_->entry)
             : 0;
}

}  // namespace atbus
