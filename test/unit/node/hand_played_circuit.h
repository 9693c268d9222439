// A circuit that is played by hand, over the link of a node that is.
#pragma once

#include "routed_message.h"
#include "unit/node/simulated_party.h"

namespace atbus::detail {

class hand_played_circuit {
 public:
  // From `source`, as which `over` is registered, to the node there. Calls it, and says that it is `self` and has
  // other links.
  hand_played_circuit(hand_played& over, bus_id source, bus_id to, const introduction& self,
                      std::uint64_t number = 0x1234)
      : over_(over),
        source_(source),
        to_(to),
        number_(number),
        looked_at_(over.got.size()),
        shake_(self, bus_id{}, none_, [](const peer_identity&) {
          return result<resume_point>{resume_point{1, 0, false}};
        }) {
    say_bytes(shake_.start().send);
  }

  void say_bytes(bytes_view message) {
    over_.say_bytes(routed_message({.step = circuit_step::carry,
                                    .destination = to_,
                                    .source = source_,
                                    .circuit = number_,
                                    .number = ++said_},
                                   {message}));
  }
  template <class Body>
  void say(const Body& body) {
    byte_buffer bytes;
    encode(body, bytes);
    say_bytes(bytes);
  }
  // Answers what has come. Whether the handshake is over.
  bool look() {
    while (shake_.state() == handshake_state::going_on && looked_at_ != over_.got.size()) {
      const byte_buffer& one = over_.got[looked_at_++];
      routed_head head;
      if (!decode(one, head) || head.circuit != number_ || head.step != circuit_step::carry)
        continue;
      const handshake_step step = shake_.receive(first_message_of(one));
      if (!step.send.empty())
        say_bytes(step.send);
    }
    return shake_.state() != handshake_state::going_on;
  }
  [[nodiscard]] bool is_registered() const { return shake_.state() == handshake_state::done; }
  [[nodiscard]] const error& problem() const { return shake_.problem(); }

 private:
  hand_played& over_;
  const bus_id source_;
  const bus_id to_;
  const std::uint64_t number_;
  std::uint64_t said_ = 0;
  std::size_t looked_at_;
  token_list none_;
  handshake_initiator shake_;
};

// How a node of that id introduces itself.
inline introduction introduction_of(std::uint64_t id, std::uint64_t incarnation) {
  introduction made;
  made.id = id;
  made.incarnation = incarnation;
  made.nonce[0] = std::byte{6};
  made.message_limit = 1024;
  return made;
}

}  // namespace atbus::detail
