// Copies of what was published to a topic, on their way into the links to neighbours.
//
// A copy is a message of the flow to the neighbour, so what becomes of it is what becomes of any message. Copies
// for which a link has no room wait here. doc/design/topics.md.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "node/core/access_control.h"
#include "node/core/interests.h"
#include "node/core/link_output.h"

namespace atbus::detail {

// What is to go to several neighbours: its bytes are copied once, if they have to wait.
struct outgoing_copy {
  const topic_head& head;
  std::uint32_t type = 0;
  bytes_view bytes{};  // the user's
  bool redelivered = false;
  std::shared_ptr<const byte_buffer> kept = nullptr;

  [[nodiscard]] std::size_t size() const noexcept {
    return topic_head_size(head.name) +
           (head.what == topic_part::mark ? topic_mark_size : bytes.size());
  }
  void write(std::byte* to) const noexcept;
  [[nodiscard]] const std::shared_ptr<const byte_buffer>& keep();
};

class topic_copies {
 public:
  topic_copies(node_context& node, event_queue& events, access_control& access, link_output& output,
               interests& wishes, const topic_table& table)
      : node_(node),
        events_(events),
        access_(access),
        output_(output),
        interests_(wishes),
        table_(table) {
    output_.on_room_for_copies([this](peer& of) { drain(of); });
  }

  // To all that want it, of what has come from there, or is this node's own if it is null. Returns to how many.
  std::size_t spread(topic_entry& of, outgoing_copy& what, const peer* from);
  // Without memory it throws std::bad_alloc, and what it was to copy is lost.
  void copy_to(topic_wish& to, outgoing_copy& what);
  // Calls `each` with each stream of which something may have gone there, and its last number.
  template <class Each>
  void for_each_stream(const topic_wish& to, const Each& each) const {
    const topic_entry& topic = to.of;
    if (topic.number != 0)
      each(node_.self.id, topic.stream, topic.number);
    const peer& whom = to.by.of;
    topic.passed.for_each(
        [&](bus_id publisher, std::uint64_t stream, std::uint64_t number, relation via) {
          const bool is_there =
              publisher == whom.id || publisher == node_.self.id ||
              (whom.range && whom.as == relation::child && whom.range->contains(publisher));
          const bool goes_there =
              (whom.as == relation::child && (via == relation::child || via == relation::parent)) ||
              (whom.as == relation::parent && via == relation::child);
          if (number != 0 && goes_there && !is_there)
            each(publisher, stream, number);
        });
  }
  // Whether the access rules let what was sent before go there still.
  [[nodiscard]] bool may_go(bus_id to, const held_message& what) noexcept;
  // If it has room at this moment.
  void try_to_put(peer& to, const topic_head& head);
  // Null, or a subscriber for whom a publisher has to wait that is willing to.
  [[nodiscard]] static topic_wish* find_full(const topic_entry& of, std::size_t size) noexcept;
  // What had room, but let a message of the user's go first.
  void go_on();
  // publish() has refused a message of that size for it.
  static void block(topic_wish& of, std::size_t size) noexcept;
  // Publishers that wait for the neighbour are to try again: those for whose topics there is room, or all.
  void tell_blocked(topic_neighbour& of);
  void tell_all_blocked(topic_neighbour& of);
  // A copy to that neighbour will not be delivered, or may not be.
  void undelivered(bus_id whom, peer* to, const held_message& what);
  // Whether nothing waits that could leave.
  [[nodiscard]] bool settled() const noexcept;

 private:
  [[nodiscard]] bool has_open_link(const peer& of) const noexcept;
  // Into the link, which is open. Not ok, but would_block: it never fits.
  template <class Write>
  status put(peer& to, std::uint32_t type, std::size_t size, bool redelivered, const Write& write);
  void wait_for(topic_wish& to, outgoing_copy& what);
  // A message, or a mark, does not go there.
  void lose(topic_wish& of, const topic_head& head) noexcept;
  static void list(topic_wish& of) noexcept;
  void drain(peer& of);
  // False: there is no room for it, or for what is first of what waits.
  bool put_word(const topic_wish& of, topic_part what, const copy_queue::mark& said);
  bool put_copy(topic_wish& of, const copy_queue::copy& what);
  bool put_first(topic_wish& of);
  // Marks all streams as far as there is room, for marks for which there was none.
  void lose_all(topic_wish& of) noexcept;

  node_context& node_;
  event_queue& events_;
  access_control& access_;
  link_output& output_;
  interests& interests_;
  const topic_table& table_;
};

}  // namespace atbus::detail
