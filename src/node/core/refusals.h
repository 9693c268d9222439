// Messages that the access rules refuse where they arrive, and the word about each to its sender.
//
// The word says which message it is, and acknowledges it: an earlier acknowledgement would settle the message
// before its sender knows why. A word is in the queue of one link, or belongs to the flow (incoming_flow::words): there
// it waits for room, or for the next link if that one ends, also while the sender is away. Nothing tells when there is
// memory again: without memory for the word the link ends. So many words may wait for one peer; with one more
// the link ends, once what it has in its queue has left. A message whose word ends the link was not taken: its sender
// sends it again over the next link. The link is not paused: the other end's acknowledgements, which make
// room, come through it, and two nodes that refuse each other's messages would wait for each other for ever.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "node/core/access_control.h"
#include "node/core/acknowledgements.h"
#include "node/core/event_queue.h"
#include "node/core/link_output.h"
#include "node/core/session_set.h"

namespace atbus::detail {

class refusals {
 public:
  // Words that wait for one peer: more than what a sender puts into a link of the usual size before it reads.
  static constexpr std::size_t words_max = std::size_t{64} * 1024;

  refusals(event_queue& events, access_control& access, link_output& output, session_set& sessions,
           acknowledgements& acks) noexcept
      : events_(events),
        access_(access),
        output_(output),
        sessions_(sessions),
        acknowledgements_(acks) {}

  // The next message of that link, whose number is new, and which access_control does not admit. False: it is not
  // taken.
  bool turn_away(session& by, std::uint32_t type, bool redelivered);
  // There may be room on that link, or it is the one now that the peer's messages come by.
  void tell(session& by);
  // The link has ended. Words that it leaves, which the other end may not have heard.
  static void keep(peer& of, const std::vector<refused_word>& left) noexcept;

 private:
  // would_block: writable() tells when there is room. With anything else the link has to end.
  status say(session& to, const refused_word& word);

  event_queue& events_;
  access_control& access_;
  link_output& output_;
  session_set& sessions_;
  acknowledgements& acknowledgements_;
};

}  // namespace atbus::detail
