// Opens and closes the direct receive path, and adds what came over it to the counts.
//
// The path is closed before anything that may change what it stands on, and before an event is queued,
// because the event comes before the next message. One thread.
#pragma once

#include "node/core/node_context.h"
#include "node/link/direct_receive_path.h"
#include "node/peer/session.h"

namespace atbus::detail {

class receive_path {
 public:
  receive_path(node_context& node, direct_receive_path& path) noexcept : node_(node), path_(path) {}

  using message_handler = std::function<void(const message&)>;
  // The next messages of `by` go to `handler` without the core. `by` has a registered peer.
  void open(session& by, const message_handler& handler) noexcept;
  void close() noexcept {
    if (path_.from != nullptr)
      end();
  }
  // Messages and bytes that came since it was opened, and are not in the counts yet.
  [[nodiscard]] std::uint64_t messages() const noexcept { return path_.messages(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return path_.bytes; }
  // Whose messages these are; null while it is closed.
  [[nodiscard]] const peer* source() const noexcept {
    return path_.from != nullptr ? session_of(*path_.from)->of : nullptr;
  }

 private:
  void end() noexcept;

  node_context& node_;
  direct_receive_path& path_;
};

}  // namespace atbus::detail
