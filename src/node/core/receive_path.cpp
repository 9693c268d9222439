#include "node/core/receive_path.h"

#include <utility>

namespace atbus::detail {

void receive_path::open(session& by, const message_handler& handler) noexcept {
  // The first message and the last one that this poll may tell are the core's: that one ends the poll.
  // So is each message that is copied.
  if (!handler || node_.tapped || node_.progress.most < node_.progress.told + 3)
    return;
  path_.from = &by.at;
  path_.handler = &handler;
  path_.source = by.instance.id;
  path_.destination = node_.self.id;
  path_.longest = node_.options.message_limit();
  path_.left = path_.most = node_.progress.most - node_.progress.told - 2;
}

void receive_path::end() noexcept {
  session& by = *session_of(*std::exchange(path_.from, nullptr));
  const std::uint64_t messages = path_.messages();
  path_.most = path_.left;
  by.handled += messages;
  by.of->in.arrived_new(messages);
  by.of->counts.received += messages;
  by.of->counts.received_bytes += path_.bytes;
  node_.stats.delivered += messages;
  node_.stats.delivered_bytes += std::exchange(path_.bytes, 0);
  node_.progress.told += messages;
}

}  // namespace atbus::detail
