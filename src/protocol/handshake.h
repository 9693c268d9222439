// The handshake with which two nodes authenticate each other after a link has opened: a state machine for
// each role. The initiator is the node that dialled.
//
//   initiator                acceptor
//        hello     ------>
//                  <------   welcome
//        proof     ------>                 here the acceptor decides whether it admits the peer
//                  <------   accept
//
// Guarantees, where this node has tokens:
// - `done` means that the other end has one of the tokens, and has proven it over the whole handshake,
//   including a fresh nonce of this end. So ids, incarnations, versions, capabilities, addresses and resume
//   points of both ends are authentic.
// - On an encrypted link the proofs cover its keys: someone in the middle of two encrypted links can't pass
//   them on.
// - Recorded messages are useless in another handshake, in the other role, or if reflected.
// - A peer without a token learns from the refusal only that it was refused.
// If neither side has tokens, nothing is proven, and the admission callback is told so. If only one side has
// tokens, the handshake fails.
//
// Pure: no clock, no random numbers of its own. In the state `failed`, the node sends the last message and
// closes the link. It also ends handshakes that take too long. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/id_range.hpp"
#include "atbus/status.hpp"
#include "protocol/control.h"
#include "protocol/token.h"

namespace atbus::detail {

// The identity of the other end.
struct peer_identity {
  bus_id id;
  std::uint64_t incarnation = 0;
  std::uint16_t version = 0;       // the common version
  std::uint64_t capabilities = 0;  // those that both have
  std::vector<std::string> addresses;
  host_identity host{};
  std::uint64_t message_limit = 0;
  std::optional<id_range> range;  // of the ids of its children, if it may have any
  relation as = relation::peer;   // what it is to this node
  bool by_token =
      false;  // whether tokens are used: proven to the acceptor when it is asked, to the
              // initiator only when all is done
};

// Called once, before the proof or the accept is sent. Returns this node's position in the peer's flow, or an
// error that refuses the peer; its code and text are sent to the peer.
using admission = std::function<result<resume_point>(const peer_identity&)>;

enum class handshake_state : std::uint8_t { going_on, done, failed };

struct handshake_step {
  handshake_state state = handshake_state::going_on;
  bytes_view send;  // one message for the peer, if not empty; valid until the next call
};

// The common base of both roles.
class handshake {
 public:
  handshake(const handshake&) = delete;
  handshake& operator=(const handshake&) = delete;
  virtual ~handshake() = default;

  // Handles a whole message of the peer, of any kind. A refusal is sent once, and nothing after it.
  [[nodiscard]] handshake_step receive(bytes_view message);

  [[nodiscard]] handshake_state state() const noexcept { return state_; }
  // Once done.
  [[nodiscard]] const peer_identity& peer() const noexcept { return peer_; }
  // Once done: the peer's position in this node's flow.
  [[nodiscard]] const resume_point& resume() const noexcept { return resume_; }
  // Once failed. Has more detail than the refusal sent to the peer.
  [[nodiscard]] const error& problem() const noexcept { return problem_; }
  // Failed, because the other end did not prove that it has a token that counts here.
  [[nodiscard]] bool lacks_proof() const noexcept { return lacks_proof_; }
  // Once done: the name of the token that the other end has proven; zeroes without tokens.
  [[nodiscard]] const message_mac& proven_by() const noexcept { return proven_by_; }
  // Whether the other end has proven that it has a token that counts here, where there is one.
  [[nodiscard]] bool has_proof() const noexcept { return resume_.session != 0; }

 protected:
  // `tokens` outlive the handshake; none: no tokens are used. `binding`: what only the two ends of an
  // encrypted link know; empty if it is not encrypted.
  handshake(introduction self, const token_list& tokens, admission admit, byte_buffer binding,
            std::optional<message_kind> awaited);

  // `message` is of the kind that was awaited. All that begins with "say" or ends the handshake
  // returns the step that advance() returns.
  virtual handshake_step advance(message_kind kind, bytes_view message) = 0;

  template <class Body>
  handshake_step say(const Body& body, message_kind then_await);
  // Calls the admission callback, and answers with the resume point and a MAC made with `with`, or refuses.
  // Without `then_await` the handshake is done.
  template <class Body>
  handshake_step say_proven(std::string_view label, const token* with,
                            std::optional<message_kind> then_await);
  handshake_step finish();
  handshake_step refuse(error why);
  // Tells the peer nothing but `denied`.
  handshake_step deny(std::string_view why);

  // Takes the peer's position in this node's flow; an error if it is impossible.
  [[nodiscard]] error take_resume(const resume_point& theirs);
  // Puts a whole message into the transcript.
  void record(bytes_view message);
  // Takes the peer's introduction, or returns what is wrong with it.
  [[nodiscard]] error meet(introduction theirs);
  // Whether the MAC at the end of `message`, which is not recorded yet, was made with one of
  // `candidates`, which is stored in `with`. Without candidates, uses the key of a node without a token.
  [[nodiscard]] bool is_proven(bytes_view message, std::string_view label,
                               std::span<const token> candidates, const token*& with);

  [[nodiscard]] const introduction& self() const noexcept { return self_; }
  [[nodiscard]] std::span<const token> tokens() const noexcept { return tokens_; }
  // The token that this end uses for its proof, if there is one.
  [[nodiscard]] std::span<const token> first_token() const noexcept;

 private:
  // Null: this end has no token. Throws std::bad_alloc where HMAC finds no memory.
  [[nodiscard]] message_mac mac_of(bytes_view message, std::string_view label,
                                   const token* with) const;
  handshake_step fail(error why);
  handshake_step refused(bytes_view message);

  introduction self_;
  const token_list& tokens_;
  admission admit_;
  peer_identity peer_;
  resume_point resume_;
  std::optional<message_kind> awaited_;
  handshake_state state_ = handshake_state::going_on;
  bool lacks_proof_ = false;
  message_mac proven_by_{};
  byte_buffer binding_;
  byte_buffer transcript_;
  byte_buffer sent_;
  error problem_;
};

class handshake_initiator final : public handshake {
 public:
  // `expected` is the id that has to answer; 0: any. Its relation has to be the opposite of the one in
  // `self`. The nonce in `self` is random and was never used before.
  handshake_initiator(introduction self, bus_id expected, const token_list& tokens, admission admit,
                      byte_buffer binding = {});

  // Once, first.
  [[nodiscard]] handshake_step start();

 private:
  handshake_step advance(message_kind kind, bytes_view message) override;
  handshake_step on_welcome(bytes_view message);
  handshake_step on_accept(bytes_view message);

  bus_id expected_;
};

class handshake_acceptor final : public handshake {
 public:
  // For `self` see the initiator. The answer has this node's relation to the dialling one.
  handshake_acceptor(introduction self, const token_list& tokens, admission admit,
                     byte_buffer binding = {});

 private:
  handshake_step advance(message_kind kind, bytes_view message) override;
  handshake_step on_hello(bytes_view message);
  handshake_step on_proof(bytes_view message);
};

}  // namespace atbus::detail
