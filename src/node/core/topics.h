// Topics: what this node publishes, what it has subscribed to, and what comes from neighbours and goes on to others.
// doc/design/topics.md.
//
// One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "atbus/subscription.hpp"
#include "node/core/access_control.h"
#include "node/core/inbox.h"
#include "node/core/interests.h"
#include "node/core/loopback.h"
#include "node/core/outbox.h"
#include "node/core/peer_table.h"
#include "node/core/topic_copies.h"
#include "node/route/route_table.h"

namespace atbus::detail {

class topics {
 public:
  topics(node_context& node, event_queue& events, access_control& access, const route_table& routes,
         const reachability& reach, outbox& user, link_output& output, session_set& sessions,
         peer_table& peers, loopback& own, inbox& delivery)
      : node_(node),
        events_(events),
        access_(access),
        routes_(routes),
        reach_(reach),
        peers_(peers),
        outbox_(user),
        loopback_(own),
        inbox_(delivery),
        began_at_(node.now()),
        interests_(node, events, reach, output, sessions, peers, table_),
        copies_(node, events, access, output, interests_, table_) {}

  error subscribe(std::string_view name, std::function<void(const topic_message&)> handler,
                  const subscription_options& options);
  error unsubscribe(std::string_view name);
  // For a publisher, until release(). Null: that can't be a name, or there are too many.
  topic_entry* hold(std::string_view name);
  void release(topic_entry& of) noexcept;
  // `links`: where copies go.
  status publish(topic_entry& to, bool waits, std::uint32_t type, bytes_view bytes,
                 std::size_t& links);
  [[nodiscard]] std::size_t links(const topic_entry& of) const noexcept;

  // A message with flag_topic. False: it makes no sense.
  bool take(session& from, const message_head& head, bytes_view payload, bool redelivered);
  // The same for one that waited for an earlier incarnation of this node: `from` may be not known.
  bool take_inherited(const node_instance& source, const peer* from, const message_head& head,
                      bytes_view payload, bool redelivered);
  // The node's own, out of the loopback.
  void take_own(std::uint32_t type, bytes_view payload);
  void take_interest(session& from, const interest_body& said);

  [[nodiscard]] interests& interest() noexcept { return interests_; }
  void link_ended(peer& of, const session& gone);
  void forget(peer& of) noexcept { interests_.forget(of); }
  [[nodiscard]] topic_copies& copies() noexcept { return copies_; }
  [[nodiscard]] const topic_copies& copies() const noexcept { return copies_; }
  [[nodiscard]] bool has_work() const noexcept { return interests_.has_news(); }

 private:
  void answer(topic_wish& to, std::uint64_t turn);
  void refuse(session& from, const interest_body& said);

  [[nodiscard]] bool may_publish(const topic_head& head, const peer& from) const noexcept;
  void take(topic_entry& of, const topic_head& head, const peer* from, bool begun,
            std::uint32_t type, bytes_view payload, bool redelivered);
  // Whether an earlier incarnation of this node may have had what comes from that publisher by another way than this.
  [[nodiscard]] bool has_other_way(const topic_entry& of, bus_id publisher, bool begun,
                                   relation via) noexcept;
  void end_here(const topic_entry& of, const topic_head& head, const peer& from) noexcept;
  void pass_on(topic_entry& of, topic_head head, std::uint64_t base, const peer& from,
               std::uint32_t type, bytes_view bytes, bool redelivered);
  void tell_own(const topic_entry& of, const topic_head& head, std::uint64_t missed,
                bool is_message, std::uint32_t type, bytes_view bytes, bool redelivered);

  node_context& node_;
  event_queue& events_;
  access_control& access_;
  const route_table& routes_;
  const reachability& reach_;
  peer_table& peers_;
  outbox& outbox_;
  loopback& loopback_;
  inbox& inbox_;
  const std::chrono::nanoseconds began_at_;
  topic_table table_;
  interests interests_;
  topic_copies copies_;
  std::size_t subscriptions_ = 0;
};

}  // namespace atbus::detail
