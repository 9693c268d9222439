/// @file
/// What a node that subscribes to a topic says and gets; see topic.hpp and node::subscribe.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/policies.hpp"

namespace atbus {

/// A message of a topic, in place. The object and its bytes are valid until the handler returns; copy
/// the bytes to keep them.
class topic_message {
 public:
  /// Made by nodes. A program makes one to test its own handlers. Nothing is copied.
  topic_message(std::string_view topic, bus_id publisher, std::uint64_t number, std::uint32_t type,
                bytes_view bytes, bool redelivered) noexcept
      : topic_(topic),
        publisher_(publisher),
        number_(number),
        bytes_(bytes),
        type_(type),
        redelivered_(redelivered) {}

  /// The name of the topic.
  [[nodiscard]] std::string_view topic() const noexcept { return topic_; }
  /// The node that has published it.
  [[nodiscard]] bus_id publisher() const noexcept { return publisher_; }
  /// Its number among all that this publisher has published there, from 1. It counts anew when the
  /// publisher starts again, or has had no object of the topic while no node wanted it.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// The number that was passed to publish.
  [[nodiscard]] std::uint32_t type() const noexcept { return type_; }
  /// The payload, in place.
  [[nodiscard]] bytes_view bytes() const noexcept { return bytes_; }
  /// The payload as characters.
  [[nodiscard]] std::string_view text() const noexcept { return as_text(bytes_); }
  /// True if an earlier incarnation of this node may have handled it.
  [[nodiscard]] bool redelivered() const noexcept { return redelivered_; }

 private:
  std::string_view topic_;
  bus_id publisher_;
  std::uint64_t number_;
  bytes_view bytes_;
  std::uint32_t type_;
  bool redelivered_;
};

/// What becomes of messages that come faster than a subscriber takes them.
struct subscription_options {
  /// The most messages that may wait for one subscriber.
  static constexpr std::uint32_t waiting_max = 65536;

  /// When so many wait: drop_oldest, drop_newest, or would_block (only for publishers that agree to
  /// it: topic_options::waits_for_slow; for others as drop_newest). `disconnect` is refused. Nodes that
  /// pass messages on to this one keep `waiting` of them, too, but make no publisher wait.
  overflow_policy slow = overflow_policy::drop_oldest;
  /// How many may wait at the node before this one, besides what its link has taken. 1 with drop_oldest:
  /// only the latest. 1 to waiting_max.
  std::uint32_t waiting = 1024;
  /// Called before the next message, or as soon as it is known, with a publisher and how many of its messages
  /// this node has missed there since the last one: each was dropped because this node or a link was
  /// slow, or lost with a node on the way. May be empty: node_stats::topic_missed counts them.
  std::function<void(bus_id, std::uint64_t)> on_missed{};
};

}  // namespace atbus
