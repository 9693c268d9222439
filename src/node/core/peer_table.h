// The nodes that this one knows, and the clients that are connected to it.
//
// A peer keeps its address in memory until erase(). One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "node/core/node_context.h"

namespace atbus::detail {

class peer_table {
 public:
  // Stretches of reported numbers that are remembered of peers that were erased, in all.
  static constexpr std::size_t reported_max = std::size_t{64} * 1024;

  // What other parts do when a peer is made, and before one is erased; set once, before the first peer.
  struct hooks {
    std::function<void(peer&)> made;
    std::function<void(peer&)> erased;
  };

  explicit peer_table(node_context& node) noexcept : node_(node) {}
  void set(hooks of) { hooks_ = std::move(of); }

  [[nodiscard]] peer* find(bus_id id) noexcept {
    return last_found_ != nullptr && last_found_->id == id ? last_found_ : look_up(id);
  }
  peer& find_or_make(bus_id id);
  // Clients are told apart by their incarnations, all others by their ids.
  [[nodiscard]] peer* find(const node_instance& who) noexcept;
  peer& find_or_make(const node_instance& who);
  // The one that was found last; null: none, or it is gone.
  [[nodiscard]] peer* last_found() const noexcept { return last_found_; }
  void erase(peer& of);

  // For that peer, now and whenever it comes, in place of what the options say.
  void set_policy(bus_id id, const peer_policy& policy);

  using peer_map = std::unordered_map<std::uint64_t, std::unique_ptr<peer>>;
  [[nodiscard]] const peer_map& all() const noexcept { return peers_; }
  [[nodiscard]] const std::vector<std::unique_ptr<peer>>& clients() const noexcept {
    return clients_;
  }

 private:
  [[nodiscard]] peer* look_up(bus_id id) noexcept;
  [[nodiscard]] std::unique_ptr<peer> make(bus_id id);
  void remember_reported(peer& of) noexcept;
  [[nodiscard]] reported_numbers take_reported(bus_id id) noexcept;

  node_context& node_;
  hooks hooks_;
  peer_map peers_;
  std::vector<std::unique_ptr<peer>> clients_;
  peer* last_found_ = nullptr;
  std::unordered_map<std::uint64_t, peer_policy> policies_;  // where they are not the options'
  // Of peers that were erased, which may refuse yet what was sent to them; the one that was erased first is in front.
  std::list<std::pair<bus_id, reported_numbers>> reported_;
  std::size_t reported_stretches_ = 0;
  std::uint64_t numbers_used_ = 0;  // the highest in a flow to a peer that was erased
};

}  // namespace atbus::detail
