// Peers that stand in the directory: dialled as if connect() named them, for as long as they do.
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

namespace atbus::detail {

class directory_watch {
 public:
  directory_watch(node_context& node, event_queue& events, peer_table& peers, dialing& dials,
                  peer_retention& retention)
      : node_(node), events_(events), peers_(peers), dialing_(dials), retention_(retention) {}
  directory_watch(const directory_watch&) = delete;
  directory_watch& operator=(const directory_watch&) = delete;
  ~directory_watch();

  // The directory of the options, if they name one.
  void open();
  // Tells the directory where this node listens.
  void announce(const std::vector<std::string>& addresses);
  // As peer_table::find(); a peer that there is no way to is made, or dialled, if it stands in the directory.
  [[nodiscard]] peer* find_or_look_up(bus_id id);
  // Its last link is lost: dials it where the directory says now.
  void lost(peer& of);

 private:
  void look();
  // Dials it where the directory says, and nowhere else unless connect() named that.
  void follow(peer& of);

  node_context& node_;
  event_queue& events_;
  peer_table& peers_;
  dialing& dialing_;
  peer_retention& retention_;
  std::shared_ptr<directory> directory_;  // null: none
  directory::watch_id watch_ = 0;
  timer clock_{node_.timers, nullptr};
  std::deque<bus_id> changes_;  // each leaves when it is followed
  std::string problem_;         // that was logged last
};

}  // namespace atbus::detail
