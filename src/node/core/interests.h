// Who wants which topics: what neighbours want from this node, and what this node tells them that it wants.
//
// A neighbour is the node at the other end of a direct link. What it wants is kept while it has no link, for
// first_idle_timeout. doc/design/topics.md.
//
// One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "node/core/event_queue.h"
#include "node/core/link_output.h"
#include "node/core/node_context.h"
#include "node/core/peer_table.h"
#include "node/core/reachability.h"
#include "node/core/session_set.h"
#include "node/topic/topic_table.h"

namespace atbus::detail {

class interests {
 public:
  // Topics that one link may want, and all of them together.
  static constexpr std::size_t of_link_max = 4096;
  static constexpr std::size_t wishes_max = 65536;

  interests(node_context& node, event_queue& events, const reachability& reach, link_output& output,
            session_set& sessions, peer_table& peers, topic_table& table)
      : node_(node),
        events_(events),
        reach_(reach),
        output_(output),
        sessions_(sessions),
        peers_(peers),
        table_(table) {
    output_.on_room_for_interest([this](peer& of) { return use_room(of); });
  }

  // Whether it was said before the neighbour began to tell all on another link, and comes later: one link may be slower
  // than another one.
  [[nodiscard]] bool is_late(const session& from, const interest_body& said) noexcept;
  // The neighbour wants that topic. Null: it was refused, or wants one no more.
  topic_wish* take(session& from, const interest_body& said);
  // A link to that peer has registered, or one has ended and the place of the peer is what it is without it. Erases
  // entries that are of no more use.
  void link_changed(peer& of);
  // A link has ended, or its process has. link_changed() follows.
  void link_ended(peer& of, const session& gone);
  // The node at the other end leaves, or does not want to be connected any more.
  void left(const session& from) noexcept;
  void forget(peer& of) noexcept;

  // This node wants that topic now, or does not any more, or in other words.
  void changed(topic_entry& of) noexcept;
  // It is about to be wanted by one more, maybe from neighbours from which nobody wanted it so far. What has come from
  // these before says nothing of what comes now.
  void begin(topic_entry& of) noexcept;
  // Neighbours that know that this node wants it for itself alone are told so again, and answer again.
  void tell_subscribed(topic_entry& of) noexcept;
  // Erases an entry that is of no more use.
  void erase_if_unused(topic_entry& of) noexcept;
  // Calls on_writable if that is owed to publishers that were refused for the neighbour.
  void tell_room(topic_neighbour& of);
  // Tells the neighbours what has changed.
  [[nodiscard]] bool has_news() const noexcept { return !listed_.empty(); }
  void tell();

  [[nodiscard]] topic_neighbour* find(const peer& of) noexcept;
  // Whether the neighbour has answered what it was told of that topic.
  [[nodiscard]] bool has_begun(const peer& of, const topic_entry& topic) noexcept;
  void set_begun(const peer& of, const topic_entry& topic, std::uint64_t turn) noexcept;
  // Whether what comes from there, or from this node if it is null, goes to that neighbour.
  [[nodiscard]] static bool goes_on(const peer* from, const peer& to) noexcept;
  [[nodiscard]] const auto& neighbours() const noexcept { return neighbours_; }

 private:
  topic_neighbour& find_or_make(peer& of);
  topic_neighbour& make_for(peer& of, session& link);
  topic_wish* find_or_make_wish(session& from, topic_neighbour& by, const interest_body& said);
  [[nodiscard]] static topic_wish* find_wish(const topic_entry& of,
                                             const topic_neighbour& by) noexcept;
  void end_wish(topic_entry& of, topic_neighbour& by) noexcept;
  void end_wishes(topic_neighbour& by) noexcept;
  template <class Which>
  void end_wishes_if(topic_neighbour& by, const Which& ends) noexcept;
  void count_as(topic_neighbour& by, relation now) noexcept;
  static std::size_t* count_of(topic_entry& of, relation as) noexcept;

  [[nodiscard]] told_as wanted_from(const topic_entry& of,
                                    const topic_neighbour& from) const noexcept;
  [[nodiscard]] bool is_wanted_from(const topic_entry& of, bus_id neighbour) noexcept;
  void tell_again(topic_neighbour& whom, topic_entry& of) noexcept;
  void list(topic_neighbour& of) noexcept;
  void list_topic(topic_neighbour& of, const topic_entry& topic) noexcept;
  void begin_to_tell(topic_neighbour& of, const session& on);
  // Tells what waits at once: until the poll ends, the program may have filled the link again. False: the link to the
  // peer has too little room.
  bool use_room(peer& of);
  // False: there is no room.
  bool tell(topic_neighbour& of);
  bool tell(topic_neighbour& of, session& on);
  bool tell_topic(topic_neighbour& of, session& on, std::size_t place);
  bool say(topic_neighbour& of, session& on, interest_body what);
  void set_told(topic_neighbour& of, topic_entry& topic, told_as now) noexcept;

  node_context& node_;
  event_queue& events_;
  const reachability& reach_;
  link_output& output_;
  session_set& sessions_;
  peer_table& peers_;
  topic_table& table_;
  std::unordered_map<const peer*, std::unique_ptr<topic_neighbour>> neighbours_;
  std::vector<topic_neighbour*> listed_;
  std::size_t wishes_ = 0;
  // interest_body::turn: counts what this incarnation has told, to whomever, so that a neighbour that was forgotten
  // meanwhile is not told lower ones.
  std::uint64_t turns_ = 0;
};

}  // namespace atbus::detail
