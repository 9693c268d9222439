#include "node/core/request_table.h"

namespace atbus::detail {
namespace {

// Nodes that were asked once and have no request now are forgotten beyond this number.
constexpr std::size_t idle_nodes_max = 1024;

}  // namespace

request_table::asked_node& request_table::node_of(bus_id id) {
  if (last_node_ != nullptr && last_node_->id == id)
    return *last_node_;
  if (nodes_.size() >= idle_nodes_max + waiting_ && !nodes_.contains(id.value())) {
    last_node_ = nullptr;
    std::erase_if(
        nodes_, [](const auto& one) { return one.second.waiting == 0 && !one.second.wants_room; });
  }
  last_node_ = &nodes_.try_emplace(id.value(), asked_node{.id = id}).first->second;
  return *last_node_;
}

request_table::entry& request_table::take(asked_node& to) {
  wheel_.prepare();
  if (free_ == nullptr) {
    chunks_.reserve(chunks_.size() + 1);
    auto fresh = std::make_unique<entries>();
    const std::uint64_t count = random_.word();
    std::uint64_t place = chunks_.size() * chunk_size + chunk_size;
    for (std::size_t at = chunk_size; at-- != 0;) {
      entry& one = (*fresh)[at];
      one.number = (count << place_bits) | --place;
      one.next_free = std::exchange(free_, &one);
    }
    chunks_.push_back(std::move(fresh));
  }
  entry& taken = *free_;
  free_ = taken.next_free;
  taken.number += std::uint64_t{1} << place_bits;
  taken.to = &to;
  taken.ends = false;
  ++to.waiting;
  ++waiting_;
  return taken;
}

request_table::entry* request_table::find(std::uint64_t number) noexcept {
  const std::size_t place = number & (places_max - 1);
  if (place >= chunks_.size() * chunk_size)
    return nullptr;
  entry& found = (*chunks_[place / chunk_size])[place % chunk_size];
  return found.to != nullptr && found.number == number ? &found : nullptr;
}

void request_table::free(entry& which) noexcept {
  which.cancel();
  --which.to->waiting;
  --waiting_;
  which.to = nullptr;
  which.next_free = std::exchange(free_, &which);
}

}  // namespace atbus::detail
