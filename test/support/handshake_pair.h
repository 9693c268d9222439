// Two nodes that shake hands in one test: 1 dials 2. What each says is kept, so that a test can
// change it on the way or say it again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/bytes.hpp"
#include "protocol/handshake.h"

namespace atbus::detail {

inline token make_token(std::string_view secret) {
  return token::make(as_bytes(secret)).value();
}

template <class... Secrets>
token_list make_tokens(Secrets... secrets) {
  token_list list;
  (list.push_back(make_token(secrets)), ...);
  return list;
}

inline handshake_nonce nonce_of(std::uint8_t first) {
  handshake_nonce nonce;
  for (std::size_t i = 0; i < nonce.size(); ++i)
    nonce[i] = static_cast<std::byte>(first + i);
  return nonce;
}

inline introduction introduction_of(bus_id id, std::uint8_t nonce) {
  return {.capabilities = 3,
          .id = id,
          .incarnation = 1000 + id.value(),
          .nonce = nonce_of(nonce),
          .addresses = {"shm://node", "ipv4://127.0.0.1:7000"},
          .host = {std::byte{9}},
          .message_limit = 65536};
}

inline byte_buffer copy_of(bytes_view bytes) {
  return {bytes.begin(), bytes.end()};
}

// One end's settings; what it admits, and whom it was asked about.
struct handshake_end {
  introduction self;
  token_list tokens;
  resume_point knows;
  error unwanted = {};
  std::vector<peer_identity> asked = {};
  byte_buffer binding = {};  // of an encrypted link

  [[nodiscard]] admission admit() {
    return [this](const peer_identity& peer) -> result<resume_point> {
      asked.push_back(peer);
      if (!unwanted)
        return unwanted;
      return knows;
    };
  }
};

struct handshake_pair {
  handshake_pair() = default;
  handshake_pair(const handshake_pair&) = delete;
  handshake_pair& operator=(const handshake_pair&) = delete;

  handshake_end dialling{.self = introduction_of(1, 0x10),
                         .tokens = make_tokens("0123456789abcdef"),
                         .knows = {.session = 3, .last = 20}};
  handshake_end accepting{.self = introduction_of(2, 0x80),
                          .tokens = make_tokens("0123456789abcdef"),
                          .knows = {.session = 5, .last = 10}};
  bus_id expected;
  // Made by begin(), from the settings.
  std::optional<handshake_initiator> first;
  std::optional<handshake_acceptor> second;
  byte_buffer hello, welcome, proof, accept;

  handshake_step begin() {
    first.emplace(dialling.self, expected, dialling.tokens, dialling.admit(), dialling.binding);
    second.emplace(accepting.self, accepting.tokens, accepting.admit(), accepting.binding);
    return first->start();
  }

  [[nodiscard]] handshake& reader_of(std::size_t message) {
    return message % 2 == 0 ? static_cast<handshake&>(*second) : *first;
  }

  // Lets so many of the four messages arrive, fewer if an end fails. A refusal is kept as what it
  // took the place of.
  void run(std::size_t messages = 4) {
    hello = copy_of(begin().send);
    byte_buffer last_word;
    byte_buffer* const said[] = {&hello, &welcome, &proof, &accept, &last_word};
    for (std::size_t i = 0; i < messages; ++i) {
      const handshake_step step = reader_of(i).receive(*said[i]);
      *said[i + 1] = copy_of(step.send);
      if (step.state == handshake_state::failed)
        return;
    }
  }

  [[nodiscard]] bool is_done() const {
    return first->state() == handshake_state::done && second->state() == handshake_state::done;
  }
};

}  // namespace atbus::detail
