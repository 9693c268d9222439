#include "protocol/handshake.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

#include "core/text.h"

namespace atbus::detail {
namespace {

constexpr std::string_view initiator_label{"atbus initiator v1\0", 19};
constexpr std::string_view acceptor_label{"atbus acceptor v1\0", 18};

std::array<std::byte, 4> length_bytes(std::size_t length) noexcept {
  return {static_cast<std::byte>(length), static_cast<std::byte>(length >> 8U),
          static_cast<std::byte>(length >> 16U), static_cast<std::byte>(length >> 24U)};
}

// The key of a node without a token. It only shows that both ends have the same messages. It is too short to
// be a token.
constexpr std::string_view no_token = "no token";
static_assert(no_token.size() < token_size_min);

bytes_view without_mac(bytes_view message) noexcept {
  return message.first(message.size() - sizeof(message_mac));
}

std::string range_text(const introduction& of) {
  return std::to_string(of.version_min) + " to " + std::to_string(of.version_max);
}

}  // namespace

handshake::handshake(introduction self, const token_list& tokens, admission admit,
                     byte_buffer binding, std::optional<message_kind> awaited)
    : self_{std::move(self)},
      tokens_{tokens},
      admit_{std::move(admit)},
      awaited_{awaited},
      binding_{std::move(binding)} {
  assert(self_.version_min > 0 && self_.version_min <= self_.version_max);
  assert(admit_ != nullptr);
}

handshake_step handshake::receive(bytes_view message) {
  if (state_ == handshake_state::failed)
    return {state_, {}};
  message_head head;
  if (const head_fault fault = decode(message, head); fault != head_fault::none)
    return refuse({errc::protocol_error, std::string{explain(fault)}});
  if (is_ignorable(head.kind))
    return {state_, {}};
  if (head.kind == message_kind::refuse)
    return refused(message);
  if (head.kind != awaited_) {
    const std::string wanted = awaited_ ? std::string{name(*awaited_)} : "nothing";
    return refuse({errc::protocol_error,
                   "the handshake awaits " + wanted + ", not " + std::string{name(head.kind)}});
  }
  return advance(head.kind, message);
}

template <class Body>
handshake_step handshake::say(const Body& body, message_kind then_await) {
  encode(body, sent_);
  record(sent_);
  awaited_ = then_await;
  return {state_, sent_};
}

template <class Body>
handshake_step handshake::say_proven(std::string_view label, const token* with,
                                     std::optional<message_kind> then_await) {
  const result<resume_point> admitted = admit_(peer_);
  if (!admitted)
    return refuse(admitted.error());
  encode(Body{.resume = *admitted}, sent_);
  const message_mac mac = mac_of(sent_, label, with);
  std::copy(mac.begin(), mac.end(), sent_.end() - sizeof(message_mac));
  record(sent_);
  awaited_ = then_await;
  if (!awaited_)
    state_ = handshake_state::done;
  return {state_, sent_};
}

handshake_step handshake::finish() {
  awaited_.reset();
  state_ = handshake_state::done;
  return {state_, {}};
}

handshake_step handshake::fail(error why) {
  awaited_.reset();
  state_ = handshake_state::failed;
  problem_ = std::move(why);
  return {state_, {}};
}

handshake_step handshake::refuse(error why) {
  encode(refuse_body{.reason = why.code(), .text = why.text()}, sent_);
  fail(std::move(why));
  return {state_, sent_};
}

handshake_step handshake::deny(std::string_view why) {
  lacks_proof_ = true;
  encode(refuse_body{.reason = errc::denied, .text = {}}, sent_);
  fail({errc::denied, std::string{why}});
  return {state_, sent_};
}

handshake_step handshake::refused(bytes_view message) {
  refuse_body theirs;
  if (error bad = decode(message, theirs); !bad)
    return fail(std::move(bad));
  const bool has_name =
      theirs.reason != errc::ok && static_cast<std::size_t>(theirs.reason) < errc_count;
  const errc reason = has_name ? theirs.reason : errc::protocol_error;
  std::string text = "the peer refused the handshake (" + std::string{atbus::name(reason)} + ")";
  if (!theirs.text.empty())
    text += ": " + in_quotes(theirs.text, text_size_max);
  else if (reason == errc::denied)
    text += ", most likely for another token";
  return fail({reason, std::move(text)});
}

void handshake::record(bytes_view message) {
  const auto length = length_bytes(message.size());
  transcript_.insert(transcript_.end(), length.begin(), length.end());
  transcript_.insert(transcript_.end(), message.begin(), message.end());
}

message_mac handshake::mac_of(bytes_view message, std::string_view label, const token* with) const {
  const bytes_view key = with != nullptr ? with->secret() : as_bytes(no_token);
  const std::optional<message_mac> mac = hmac_sha256(
      key,
      {as_bytes(label), transcript_, length_bytes(message.size()), without_mac(message), binding_});
  if (!mac)
    throw std::bad_alloc{};  // the node has seen that it works: no proof is wrong for that
  return *mac;
}

bool handshake::is_proven(bytes_view message, std::string_view label,
                          std::span<const token> candidates, const token*& with) {
  message_mac theirs{};
  std::memcpy(theirs.data(), message.last(sizeof theirs).data(), sizeof theirs);
  with = nullptr;
  if (candidates.empty())
    return equal_in_constant_time(theirs, mac_of(message, label, nullptr));
  // Try all of them, so that the time does not reveal which one matches.
  for (const token& candidate : candidates) {
    if (equal_in_constant_time(theirs, mac_of(message, label, &candidate)))
      with = &candidate;
  }
  proven_by_ = with != nullptr ? with->name() : message_mac{};
  return with != nullptr;
}

std::span<const token> handshake::first_token() const noexcept {
  return tokens().first(tokens_.empty() ? 0 : 1);
}

error handshake::meet(introduction theirs) {
  if (theirs.nonce == self_.nonce)
    return {errc::protocol_error, "our own nonce came back: these are our own words"};
  if (theirs.version_min == 0 || theirs.version_min > theirs.version_max)
    return {errc::protocol_error, "there are no versions from " + range_text(theirs)};
  const std::uint16_t lowest = std::max(theirs.version_min, self_.version_min);
  const std::uint16_t highest = std::min(theirs.version_max, self_.version_max);
  if (lowest > highest) {
    return {errc::version_mismatch, "node " + self_.id.to_string() + " speaks versions " +
                                        range_text(self_) + ", node " + theirs.id.to_string() +
                                        " " + range_text(theirs)};
  }
  if (theirs.incarnation == 0)
    return {errc::protocol_error, "there is no incarnation 0"};
  if (theirs.message_limit == 0)
    return {errc::protocol_error, "there is no message_limit of 0 bytes"};
  if (theirs.id == self_.id && theirs.id != bus_id{})
    return {errc::denied, "both nodes have the id " + self_.id.to_string()};
  peer_ = {.id = theirs.id,
           .incarnation = theirs.incarnation,
           .version = highest,
           .capabilities = theirs.capabilities & self_.capabilities,
           .addresses = std::move(theirs.addresses),
           .host = theirs.host,
           .message_limit = theirs.message_limit,
           .range = {},
           .as = theirs.as,
           .by_token = !tokens_.empty()};
  if (theirs.range_length == 0)
    return {};
  const result<id_range> range = id_range::make(theirs.range_first, theirs.range_length);
  if (!range)
    return {errc::protocol_error, "range: " + range.error().text()};
  if (range->length() > range_length_max)
    return {errc::protocol_error, "range_length is too large"};
  peer_.range = *range;
  return {};
}

error handshake::take_resume(const resume_point& theirs) {
  resume_ = theirs;
  return resume_.session != 0 ? error{} : error{errc::protocol_error, "there is no session 0"};
}

handshake_initiator::handshake_initiator(introduction self, bus_id expected,
                                         const token_list& tokens, admission admit,
                                         byte_buffer binding)
    : handshake{std::move(self), tokens, std::move(admit), std::move(binding), std::nullopt},
      expected_{expected} {}

handshake_step handshake_initiator::start() {
  return say(hello_body{.self = self(), .expected = expected_}, message_kind::welcome);
}

handshake_step handshake_initiator::advance(message_kind kind, bytes_view message) {
  return kind == message_kind::welcome ? on_welcome(message) : on_accept(message);
}

handshake_step handshake_initiator::on_welcome(bytes_view message) {
  welcome_body theirs;
  if (error bad = decode(message, theirs); !bad)
    return refuse(std::move(bad));
  if (error bad = meet(std::move(theirs.self)); !bad)
    return refuse(std::move(bad));
  if (theirs.version != peer().version) {
    return refuse({errc::protocol_error, "version " + std::to_string(theirs.version) +
                                             " was chosen, but both speak " +
                                             std::to_string(peer().version)});
  }
  if (expected_ != bus_id{} && expected_ != peer().id) {
    return refuse({errc::not_found, "node " + expected_.to_string() + " was dialled, but node " +
                                        peer().id.to_string() + " answered"});
  }
  if (peer().as != opposite(self().as)) {
    return refuse({errc::protocol_error, "it answered as a " + std::string{name(peer().as)} +
                                             " when it was dialled as a " +
                                             std::string{name(opposite(self().as))}});
  }
  record(message);
  const token* const with = tokens().empty() ? nullptr : tokens().data();
  return say_proven<proof_body>(initiator_label, with, message_kind::accept);
}

handshake_step handshake_initiator::on_accept(bytes_view message) {
  accept_body theirs;
  if (error bad = decode(message, theirs); !bad)
    return refuse(std::move(bad));
  const token* with = nullptr;
  if (!is_proven(message, acceptor_label, first_token(), with))
    return deny("the acceptor did not prove that it has the token it was shown");
  if (error bad = take_resume(theirs.resume); !bad)
    return refuse(std::move(bad));
  return finish();
}

handshake_acceptor::handshake_acceptor(introduction self, const token_list& tokens, admission admit,
                                       byte_buffer binding)
    : handshake{std::move(self), tokens, std::move(admit), std::move(binding),
                message_kind::hello} {}

handshake_step handshake_acceptor::advance(message_kind kind, bytes_view message) {
  return kind == message_kind::hello ? on_hello(message) : on_proof(message);
}

handshake_step handshake_acceptor::on_hello(bytes_view message) {
  hello_body theirs;
  if (error bad = decode(message, theirs); !bad)
    return refuse(std::move(bad));
  if (error bad = meet(std::move(theirs.self)); !bad)
    return refuse(std::move(bad));
  if (theirs.expected != bus_id{} && theirs.expected != self().id) {
    return refuse({errc::not_found, "node " + theirs.expected.to_string() +
                                        " was dialled, but this is node " + self().id.to_string()});
  }
  record(message);
  welcome_body answer{.self = self(), .version = peer().version};
  answer.self.as = opposite(peer().as);
  return say(answer, message_kind::proof);
}

handshake_step handshake_acceptor::on_proof(bytes_view message) {
  proof_body theirs;
  if (error bad = decode(message, theirs); !bad)
    return refuse(std::move(bad));
  const token* with = nullptr;
  if (!is_proven(message, initiator_label, tokens(), with))
    return deny("the initiator did not prove that it has one of the tokens");
  if (error bad = take_resume(theirs.resume); !bad)
    return refuse(std::move(bad));
  record(message);
  return say_proven<accept_body>(acceptor_label, with, std::nullopt);
}

}  // namespace atbus::detail
