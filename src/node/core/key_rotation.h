// Tokens and certificates that are replaced while the node runs. Links whose other end has proven itself with what
// is gone end, and have to register anew.
//
// One thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "node/core/event_queue.h"
#include "node/core/node_context.h"
#include "node/core/session_set.h"
#include "node/files/watched_file.h"

namespace atbus::detail {

class key_rotation {
 public:
  key_rotation(node_context& node, event_queue& events, session_set& sessions)
      : node_(node), events_(events), sessions_(sessions) {}

  // Begins to watch the files of the certificates, if there are any.
  void open();
  // See node::set_tokens.
  error set_tokens(const std::vector<std::string>& secrets);
  // See node::certificate_expires.
  [[nodiscard]] std::optional<std::chrono::system_clock::time_point> expires() const noexcept {
    return node_.on.keys != nullptr ? node_.on.keys->expires() : std::nullopt;
  }

 private:
  // A link that has proven none of the tokens.
  void end_without_token(session& one);
  void look();
  void look_at_files();
  void renew();
  void warn_of_expiry();

  node_context& node_;
  event_queue& events_;
  session_set& sessions_;
  std::vector<watched_file> files_;
  bool have_changed_ = false;  // and have not been used yet
  timer clock_{node_.timers, nullptr};
  std::string problem_;                             // that was logged last
  std::optional<std::chrono::nanoseconds> warned_;  // of the expiry, last
};

}  // namespace atbus::detail
