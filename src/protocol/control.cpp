// msgpack-c includes headers of Boost without it.
#define MSGPACK_NO_BOOST
#include "protocol/control.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <msgpack/pack.hpp>
#include <string_view>
#include <type_traits>
#include <utility>

#include "protocol/body_reader.h"
#include "protocol/byte_writer.h"

namespace atbus::detail {
namespace {

constexpr std::size_t fields_max = 13;

// The largest of all is a welcome or hello with all addresses.
static_assert(addresses_max * (address_size_max + 2) + 256 <= control_size_max);

// What is in each body: calls `field` with the key, the name and the value of each.
template <class Body, class Field>
void for_each_field(Body& body, const Field& field) {
  using type = std::remove_const_t<Body>;
  if constexpr (requires { body.self; }) {
    field(1, "version_min", body.self.version_min);
    field(2, "version_max", body.self.version_max);
    field(3, "capabilities", body.self.capabilities);
    field(4, "id", body.self.id);
    field(5, "incarnation", body.self.incarnation);
    field(6, "nonce", body.self.nonce);
    field(7, "addresses", body.self.addresses);
    field(8, "host", body.self.host);
    field(9, "message_limit", body.self.message_limit);
  }
  if constexpr (std::same_as<type, hello_body>)
    field(10, "expected", body.expected);
  if constexpr (std::same_as<type, welcome_body>)
    field(11, "version", body.version);
  if constexpr (requires { body.self; }) {
    field(12, "range_first", body.self.range_first);
    field(13, "range_length", body.self.range_length);
    field(14, "relation", body.self.as);
  }
  if constexpr (requires { body.resume; }) {
    field(1, "session", body.resume.session);
    field(2, "last", body.resume.last);
    field(3, "sole", body.resume.sole);
    field(4, "superseded", body.resume.superseded);
  }
  if constexpr (requires { body.text; }) {
    field(1, "reason", body.reason);
    field(2, "text", body.text);
  }
  if constexpr (std::same_as<type, acknowledge_body>)
    field(1, "handled", body.handled);
  if constexpr (std::same_as<type, ping_body> || std::same_as<type, pong_body> ||
                std::same_as<type, cancel_body> || std::same_as<type, in_hand_body>)
    field(1, "number", body.number);
  if constexpr (std::same_as<type, flow_body>) {
    field(1, "next", body.next);
    field(2, "before", body.before);
    field(3, "turn", body.turn);
  }
  if constexpr (std::same_as<type, turned_away_body>) {
    field(1, "number", body.number);
    field(2, "type", body.type);
    field(3, "handled", body.handled);
    field(4, "redelivered", body.redelivered);
  }
  if constexpr (std::same_as<type, interest_body>) {
    field(1, "topic", body.topic);
    field(2, "wanted", body.wanted);
    field(3, "slow", body.slow);
    field(4, "waiting", body.waiting);
    field(5, "fresh", body.fresh);
    field(6, "whole", body.whole);
    field(7, "turn", body.turn);
  }
  if constexpr (std::same_as<type, addresses_body>)
    field(1, "addresses", body.addresses);
  if constexpr (std::same_as<type, where_body>)
    field(1, "id", body.id);
  if constexpr (std::same_as<type, found_body>) {
    field(1, "asked", body.asked);
    field(2, "id", body.id);
    field(3, "addresses", body.addresses);
    field(4, "host", body.host);
  }
}

template <class Body>
concept has_mac = requires(Body body) {
  body.mac;
};

// How many numbers are all that is in a body; 0: it holds other things.
template <class Body>
constexpr std::size_t numbers_in = 0;
template <>
constexpr std::size_t numbers_in<acknowledge_body> = 1;
template <>
constexpr std::size_t numbers_in<ping_body> = 1;
template <>
constexpr std::size_t numbers_in<pong_body> = 1;
template <>
constexpr std::size_t numbers_in<cancel_body> = 1;
template <>
constexpr std::size_t numbers_in<in_hand_body> = 1;
template <>
constexpr std::size_t numbers_in<flow_body> = 3;

using body_packer = msgpack::packer<byte_writer>;

template <std::unsigned_integral Number>
void write(body_packer& packer, Number value) {
  packer.pack_uint64(value);
}
void write(body_packer& packer, bool value) {
  value ? packer.pack_true() : packer.pack_false();
}
void write(body_packer& packer, bus_id value) {
  packer.pack_uint64(value.value());
}
void write(body_packer& packer, relation value) {
  packer.pack_uint8(static_cast<std::uint8_t>(value));
}
void write(body_packer& packer, errc value) {
  packer.pack_uint64(static_cast<std::uint64_t>(value));
}
void write(body_packer& packer, bytes_view value) {
  const std::string_view text = as_text(value);
  packer.pack_bin(static_cast<std::uint32_t>(text.size()));
  packer.pack_bin_body(text.data(), static_cast<std::uint32_t>(text.size()));
}
void write(body_packer& packer, std::string_view value) {
  const auto size = static_cast<std::uint32_t>(std::min(value.size(), text_size_max));
  packer.pack_str(size);
  packer.pack_str_body(value.data(), size);
}
void write(body_packer& packer, const std::vector<std::string>& value) {
  const auto fits = [](const std::string& address) { return address.size() <= address_size_max; };
  std::size_t left = std::min<std::size_t>(
      static_cast<std::size_t>(std::ranges::count_if(value, fits)), addresses_max);
  packer.pack_array(static_cast<std::uint32_t>(left));
  for (auto at = value.begin(); left > 0; ++at) {
    if (!fits(*at))
      continue;
    write(packer, std::string_view{*at});
    --left;
  }
}

template <class Body>
error read_fields(bytes_view bytes, Body& body) {
  std::array<body_field, fields_max> fields;
  std::size_t count = 0;
  for_each_field(body, [&](std::uint64_t key, std::string_view field_name, auto& value) {
    if constexpr (std::constructible_from<mutable_bytes, decltype(value)>) {
      fields[count++] = {key, field_name, mutable_bytes{value}};
    } else {
      fields[count++] = {key, field_name, &value};
    }
  });
  return read_body(bytes, std::span{fields}.first(count));
}

template <class Body>
error read(bytes_view message, Body& body) {
  message_head head;
  if (const head_fault fault = decode(message, head); fault != head_fault::none)
    return {errc::protocol_error, std::string{explain(fault)}};
  if (head.kind != Body::kind)
    return {errc::protocol_error, "the message is of another kind"};
  if (message.size() > control_size_max)
    return {errc::protocol_error, "the message is too long"};
  body = Body{};
  bytes_view rest = payload_of(message);
  if constexpr (numbers_in<Body> != 0) {
    std::array<std::uint64_t, numbers_in<Body>> numbers;
    if (read_numbers(rest, numbers)) {
      auto next = numbers.begin();
      for_each_field(body, [&next](auto, auto, std::uint64_t& value) { value = *next++; });
      return {};
    }
  }
  if constexpr (has_mac<Body>) {
    if (rest.size() < body.mac.size())
      return {errc::protocol_error, "there is no MAC"};
    const bytes_view mac = rest.last(body.mac.size());
    std::copy(mac.begin(), mac.end(), body.mac.begin());
    rest = rest.first(rest.size() - mac.size());
  }
  return read_fields(rest, body);
}

}  // namespace

template <class Body>
void encode(const Body& body, byte_buffer& message) {
  message.resize(message_head_size);
  encode(message_head{.kind = Body::kind}, message.data());
  byte_writer writer{message};
  body_packer packer{writer};
  std::uint32_t fields = 0;
  for_each_field(body, [&fields](std::uint64_t, std::string_view, const auto&) { ++fields; });
  packer.pack_map(fields);
  for_each_field(body, [&packer](std::uint64_t key, std::string_view, const auto& value) {
    write(packer, key);
    write(packer, value);
  });
  if constexpr (has_mac<Body>)
    message.insert(message.end(), body.mac.begin(), body.mac.end());
}

template <class Body>
error decode(bytes_view message, Body& body) {
  error problem = read(message, body);
  return problem ? error{}
                 : problem.with_text("in " + std::string{name(Body::kind)} + ": " + problem.text());
}

template void encode(const hello_body&, byte_buffer&);
template void encode(const welcome_body&, byte_buffer&);
template void encode(const proof_body&, byte_buffer&);
template void encode(const accept_body&, byte_buffer&);
template void encode(const refuse_body&, byte_buffer&);
template void encode(const acknowledge_body&, byte_buffer&);
template void encode(const ping_body&, byte_buffer&);
template void encode(const pong_body&, byte_buffer&);
template void encode(const flow_body&, byte_buffer&);
template void encode(const bye_body&, byte_buffer&);
template void encode(const addresses_body&, byte_buffer&);
template void encode(const where_body&, byte_buffer&);
template void encode(const found_body&, byte_buffer&);
template void encode(const cancel_body&, byte_buffer&);
template void encode(const in_hand_body&, byte_buffer&);
template void encode(const turned_away_body&, byte_buffer&);
template void encode(const interest_body&, byte_buffer&);

template error decode(bytes_view, hello_body&);
template error decode(bytes_view, welcome_body&);
template error decode(bytes_view, proof_body&);
template error decode(bytes_view, accept_body&);
template error decode(bytes_view, refuse_body&);
template error decode(bytes_view, acknowledge_body&);
template error decode(bytes_view, ping_body&);
template error decode(bytes_view, pong_body&);
template error decode(bytes_view, flow_body&);
template error decode(bytes_view, bye_body&);
template error decode(bytes_view, addresses_body&);
template error decode(bytes_view, where_body&);
template error decode(bytes_view, found_body&);
template error decode(bytes_view, cancel_body&);
template error decode(bytes_view, in_hand_body&);
template error decode(bytes_view, turned_away_body&);
template error decode(bytes_view, interest_body&);

}  // namespace atbus::detail
