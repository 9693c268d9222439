/// @class atbus::topic
/// Publishes to all nodes that have subscribed to a name. doc/fleet.md, "Topics".
///
/// ```cpp
/// node.subscribe("prices", [](const atbus::topic_message& m) { ... });  // in each subscriber
///
/// atbus::topic prices{node, "prices"};                                   // in a publisher
/// prices.publish(kPrice, bytes);
/// ```
///
/// No registry is needed. Subscriptions travel along the links of connected nodes and of trees
/// (node_options::parent); one copy of a message goes over each link that leads to a subscriber.
/// Without one, publish costs next to nothing.
///
/// Guarantee: each subscriber that this node knows of gets each message once and in the order of its
/// publisher, or is told that it has missed it (subscription_options::on_missed). Who subscribes
/// later gets what is published later. doc/design/topics.md, "Known gaps", has the exceptions.
///
/// Ownership: a topic refers to its node and may outlive it; then publish returns closed. Threads:
/// the node's. Errors: the constructor may throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "atbus/bytes.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

class node;

/// How a node publishes to a topic.
struct topic_options {
  /// Whether publish refuses a message, with would_block, while a subscriber that asks for that has no
  /// room (subscription_options::slow). Off: no subscriber can stop a publisher.
  bool waits_for_slow = false;
};

/// What publish has done.
class publication {
 public:
  /// Made by topics.
  publication(status how, std::size_t links) noexcept : how_(how), links_(links) {}

  /// Whether the message was accepted, also if no node wants it.
  explicit operator bool() const noexcept { return static_cast<bool>(how_); }
  /// Why it was not.
  [[nodiscard]] status how() const noexcept { return how_; }
  /// How many links carry a copy, or have one waiting; this node's own subscription counts as one.
  [[nodiscard]] std::size_t links() const noexcept { return links_; }

 private:
  status how_;
  std::size_t links_;
};

class ATBUS_API topic {
 public:
  /// The most bytes of a name.
  static constexpr std::size_t name_size_max = 128;
  /// Bytes of node_options::message_limit that a payload has to leave: 32, and those of the name in
  /// steps of 8.
  [[nodiscard]] static constexpr std::size_t overhead(std::string_view name) noexcept {
    return 32 + (name.size() + 7) / 8 * 8;
  }

  /// The topic of that name, of 1 to 128 printable characters. Topics of one name on one node are one
  /// publisher, also one after the other; it may begin anew once none is left and no node wants it.
  topic(node& of, std::string_view name, const topic_options& options = {});
  /// Takes the topic over; `other` may then only be destroyed or assigned to.
  topic(topic&& other) noexcept;
  /// Takes the other one over in place of this one.
  topic& operator=(topic&& other) noexcept;
  ~topic();

  /// As it was given.
  [[nodiscard]] const std::string& name() const noexcept;

  /// Accepts a copy of the message for all who want the topic now. Errors: would_block
  /// (topic_options::waits_for_slow, or this node's own subscription has no room; no node gets the message, and
  /// on_writable is called when there is room), message_too_large, invalid_argument (the name can't
  /// be one, or the node has 16,384 topics already), not_supported (a client), closed, out_of_memory,
  /// used_after_fork.
  publication publish(std::uint32_t type, bytes_view bytes);
  /// Accepts a copy of the text.
  publication publish(std::uint32_t type, std::string_view text) {
    return publish(type, as_bytes(text));
  }
  /// How many links, this node's own subscription among them, lead to subscribers now.
  [[nodiscard]] std::size_t links() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace atbus
