// Peers that stand in the directory: dialled as if connect() named them, for as long as they do. The parent: while it is
// lost, its addresses there are dialled beside those of the options.
//
// The directory is looked at every 2 s. A directory with a descriptor ends sleeps of the node when it has work;
// polls glance at the descriptor, at most once in glance_interval, because that is a call of the kernel.
//
// One thread.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "atbus/directory.hpp"
#include "node/core/dialing.h"
#include "node/core/event_queue.h"
#include "node/core/peer_retention.h"
#include "node/core/peer_table.h"
#include "node/core/reachability.h"
#include "system/guarded_file.h"

namespace atbus::detail {

class directory_watch {
 public:
  directory_watch(node_context& node, event_queue& events, peer_table& peers, parent_search& parent,
                  dialing& dials, peer_retention& retention)
      : node_(node),
        events_(events),
        peers_(peers),
        parent_(parent),
        dialing_(dials),
        retention_(retention) {}
  directory_watch(const directory_watch&) = delete;
  directory_watch& operator=(const directory_watch&) = delete;
  ~directory_watch();

  // The directory of the options, if they name one.
  void open();
  // Tells the directory where this node listens. The list outlives this.
  void announce(const std::vector<std::string>& addresses);
  // Withdraws the record. Idempotent.
  void withdraw() noexcept;
  // Tells the directory of a service that this node offers, or offers no longer.
  error offer(std::string_view service);
  error withdraw(std::string_view service);
  // Null: none.
  [[nodiscard]] const std::shared_ptr<directory>& used() const noexcept { return directory_; }
  // The node ends.
  void close() noexcept;
  // Looks if the directory's descriptor is readable.
  void glance(std::chrono::nanoseconds now) {
    if (readable_ && now >= next_glance_)
      look_if_readable(now);
  }
  // As peer_table::find(); a peer that there is no way to is made, or dialled, if it stands in the directory.
  [[nodiscard]] peer* find_or_look_up(bus_id id);
  // Its last link is lost: dials it where the directory says now.
  void lost(peer& of);

 private:
  static constexpr std::chrono::nanoseconds glance_interval = std::chrono::microseconds{200};

  // All that this node says of itself.
  [[nodiscard]] error tell();
  void look();
  void look_if_readable(std::chrono::nanoseconds now);
  // Sleeps end when the directory has work. Without a descriptor the clock has to do.
  void watch_descriptor();
  // Another node of this thread has polled the directory: this one may be asleep.
  void note_change(bus_id id);
  [[nodiscard]] tree_place place() const;
  // Neighbours in the tree find this node, or it finds them, without a directory, unless it sends to them. As a peer
  // that it dials, a sibling would pass on nothing.
  [[nodiscard]] static bool is_mere_neighbour(const peer& of) noexcept {
    return of.as != relation::peer && !of.wanted;
  }
  // Dials it where the directory says, and nowhere else unless connect() or the options named that.
  void follow(peer& of);

  node_context& node_;
  event_queue& events_;
  peer_table& peers_;
  parent_search& parent_;
  dialing& dialing_;
  peer_retention& retention_;
  std::shared_ptr<directory> directory_;  // null: none
  directory::watch_id watch_ = 0;
  timer clock_{node_.timers, nullptr};
  std::deque<bus_id> changes_;  // each leaves when it is followed
  std::string problem_;         // that was logged last
  bool looking_ = false;
  bool announced_ = false;
  // It failed, or found no memory, and is repeated once the directory works.
  bool owes_announcement_ = false;
  const std::uint64_t forks_before_ = forks_so_far();
  // What was announced last.
  const std::vector<std::string>* addresses_ = nullptr;  // null: it listens nowhere
  std::vector<std::string> services_;
  guarded_file other_looked_;  // an eventfd: changes_ has what another node's look has brought
  guarded_file readable_;      // an epoll instance: both that and the directory's descriptor
  std::chrono::nanoseconds next_glance_{0};
};

}  // namespace atbus::detail
