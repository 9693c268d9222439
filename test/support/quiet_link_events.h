// For a party that a test plays by hand: what it does not look at does nothing, and what it says is one call.
#pragma once

#include <algorithm>

#include "atbus/bytes.hpp"
#include "node/link/link.h"
#include "protocol/control.h"

namespace atbus::detail {

class quiet_link_events : public link_events {
 protected:
  void opened(link&, bool) override {}
  void closed(link&, const error&) override {}
  void writable(link&) override {}
  void left(link&) override {}
  void recalling(link&) override {}
  void returned(link&) override {}
  bool inherited(const node_instance&, bytes_view, bool, bool) override { return true; }
  void problem(const error&) override {}
};

// Sends one message. False: the link has no room for it.
inline bool say_bytes_to(link& to, bytes_view bytes) {
  status why;
  std::byte* const room = to.claim(bytes.size(), message_purpose::control, why);
  if (room == nullptr)
    return false;
  std::ranges::copy(bytes, room);
  to.commit(bytes.size());
  to.flush();
  return true;
}
template <class Body>
bool say_to(link& to, const Body& body) {
  byte_buffer bytes;
  encode(body, bytes);
  return say_bytes_to(to, bytes);
}

}  // namespace atbus::detail
