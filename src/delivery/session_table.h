// The positions of flows whose sender is away, and the words that are owed to it. Both are bounded: the sender that
// left first is forgotten first. A sender whose flow was forgotten gets a new session when it comes back; the session's
// number tells it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "core/node_instance.h"
#include "delivery/incoming_flow.h"

namespace atbus::detail {

class session_table {
 public:
  // Words of refused messages, of all flows.
  static constexpr std::size_t words_max = std::size_t{256} * 1024;

  explicit session_table(std::size_t most) noexcept : most_(most) {}

  // The sender of this flow is away. A flow without a message takes no place, because a new flow is equal: so
  // failed handshakes push no other flow out. `silent`: the sender was declared dead only because it did not
  // answer.
  void remember(const node_instance& sender, const incoming_flow& flow,
                bool silent = false) noexcept;
  // Ends a flow that is not remembered, such as that of a client.
  void lose(const incoming_flow& flow) noexcept { lost_ += flow.has_begun() ? 1 : 0; }
  // The sender is back: returns its flow as remembered, or a new one. A new session is higher than all that
  // were forgotten or lost.
  [[nodiscard]] incoming_flow take(const node_instance& sender);
  // The remembered flow; null if there is none.
  [[nodiscard]] const incoming_flow* find(const node_instance& sender) const;
  // Another incarnation of that id has registered: earlier ones that were silent must not come back.
  void supersede(const node_instance& by) noexcept;
  // The flow of an incarnation that must not come back; null if it may, as far as is remembered.
  [[nodiscard]] const incoming_flow* superseded(const node_instance& sender) const;
  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  [[nodiscard]] std::uint64_t forgotten() const noexcept { return forgotten_; }

 private:
  struct session {
    node_instance sender;
    incoming_flow flow;
    bool silent;
    bool superseded = false;
  };
  struct instance_hash {
    std::size_t operator()(const node_instance& instance) const noexcept {
      return static_cast<std::size_t>(instance.incarnation ^
                                      (instance.id.value() * 0x9e3779b97f4a7c15U));
    }
  };
  using session_list = std::list<session>;

  void forget(session_list::iterator at);
  // Forgets flows until there is room for so many words; false: there is not.
  bool make_room_for_words(std::size_t words);

  std::size_t most_;
  std::uint64_t forgotten_ = 0;
  std::uint64_t lost_ = 0;
  std::size_t words_ = 0;  // owed to all of these senders
  session_list sessions_;  // the one that left first is in front
  std::unordered_map<node_instance, session_list::iterator, instance_hash> places_;
};

}  // namespace atbus::detail
