// What the functions of a node share: whether it can be used, and values of C++ as values of C.
#pragma once

#include "handles.h"

namespace atbus::c_api {

inline atbus_message to_c(const message& from) noexcept {
  return {.source = from.source().value(),
          .destination = from.destination().value(),
          .type = from.type(),
          .redelivered = from.redelivered() ? 1 : 0,
          .bytes = from.bytes().data(),
          .size = from.bytes().size()};
}

inline atbus_undelivered to_c(const undelivered& from) noexcept {
  return {.destination = from.destination().value(),
          .number = from.number(),
          .count = from.count(),
          .type = from.type(),
          .outcome = static_cast<atbus_code>(from.outcome()),
          .reason = static_cast<atbus_code>(from.reason()),
          .bytes = from.bytes().data(),
          .size = from.bytes().size()};
}

inline atbus_endpoint to_c(const endpoint& from) noexcept {
  return {.id = from.id().value(),
          .incarnation = from.incarnation(),
          .address = from.address().c_str(),
          .round_trip_ns = from.round_trip().count(),
          .connected = from.connected() ? 1 : 0};
}

template <class Response>
atbus_response to_c(const Response& from) noexcept {
  return {.code = static_cast<atbus_code>(from.how().code()),
          .source = from.source().value(),
          .bytes = from.bytes().data(),
          .size = from.bytes().size()};
}

// Calls `use` with the node, if it can be used here; that returns an atbus_code.
template <class Node, class Use>
atbus_code with(Node* node, Use&& use) noexcept {
  if (!is_usable(node)) [[unlikely]]
    return ATBUS_INVALID_ARGUMENT;
  return guard([&] { return use(*node); });
}

// The same for what sets a callback: `set` gets the node.
template <class Set>
atbus_code with_open(atbus_node* node, Set&& set) noexcept {
  return with(node, [&](atbus_node& of) {
    if (!of.self.is_open())
      return code_of(status{errc::closed});
    set(of.self);
    return ATBUS_OK;
  });
}

}  // namespace atbus::c_api
