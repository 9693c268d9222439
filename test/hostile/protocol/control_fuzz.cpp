// Whatever the bytes of a control message or a command are: it is read as one of its kind or refused
// with a reason in print; what is read is within the limits, and written again it is read as the same.
// So for the heads of messages that pass through nodes.
//
// Input: a message.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "atbus/bytes.hpp"
#include "core/text.h"
#include "protocol/broadcast_head.h"
#include "protocol/command_body.h"
#include "protocol/control.h"
#include "protocol/request_body.h"
#include "protocol/routed_head.h"
#include "protocol/topic_head.h"

namespace {

using namespace atbus::detail;
using atbus::bytes_view;

void require(bool held) {
  if (!held)
    std::abort();  // how libFuzzer learns of a broken promise
}

void check_limits(const std::vector<std::string>& addresses) {
  require(addresses.size() <= addresses_max);
  for (const std::string& address : addresses)
    require(address.size() <= address_size_max);
}

template <class Body>
void check_body(bytes_view message) {
  Body body;
  const atbus::error problem = decode(message, body);
  if (!problem) {
    require(problem == atbus::errc::protocol_error);
    require(!problem.text().empty() && std::ranges::all_of(problem.text(), is_printable));
    return;
  }
  if constexpr (requires { body.self; })
    check_limits(body.self.addresses);
  if constexpr (requires { body.addresses; })
    check_limits(body.addresses);
  if constexpr (requires { body.text; })
    require(body.text.size() <= text_size_max);
  byte_buffer written;
  encode(body, written);
  require(written.size() <= control_size_max);
  Body again;
  require(static_cast<bool>(decode(written, again)));
  require(again == body);
}

// A head has one form only.
template <class Head, std::size_t Size>
void check_head(bytes_view message) {
  Head head;
  if (!decode(message, head))
    return;
  std::array<std::byte, Size> written{};
  encode(head, written.data());
  require(std::ranges::equal(written, message.first(Size)));
}

void check_command(bytes_view payload) {
  command_body body;
  if (!decode(payload, body))
    return;
  require(body.words.size() <= command_words_max);
  byte_buffer written;
  encode(body.number, body.words, written);
  require(written.size() <= payload.size());
  command_body again;
  require(decode(written, again) && again.number == body.number && again.words == body.words);
}

void check_request(bytes_view payload) {
  std::uint64_t number = 0;
  require(decode_response(payload, number) == (payload.size() >= response_head_size));
  request_head head;
  if (!decode_request(payload, head))
    return;
  require(head.number == number && head.deadline.count() >= 0);
  byte_buffer copy(payload.begin(), payload.end());
  renew_time_left(copy.data(),
                  head.deadline - std::min<std::chrono::nanoseconds>(head.deadline, head.left));
  request_head again;
  require(decode_request(copy, again) && again.left <= head.left && again.number == number);
}

// A copy has one form only, but for the user's bytes.
void check_copy(bytes_view payload) {
  topic_head head;
  if (!decode(payload, head))
    return;
  const std::size_t size =
      topic_head_size(head.name) + (head.what == topic_part::mark ? topic_mark_size : 0);
  require(payload.size() >= size && is_topic_name(head.name));
  byte_buffer written(size);
  encode(head, written.data());
  require(std::ranges::equal(written, payload.first(size)));
}

void check_message(bytes_view message) {
  message_head head;
  if (decode(message, head) != head_fault::none || is_ignorable(head.kind)) {
    ping_body body;
    require(!decode(message, body));
    return;
  }
  switch (head.kind) {
    case message_kind::data:
      check_command(payload_of(message));
      check_request(payload_of(message));
      check_copy(payload_of(message));
      return check_body<ping_body>(message);
    case message_kind::hello:
      return check_body<hello_body>(message);
    case message_kind::welcome:
      return check_body<welcome_body>(message);
    case message_kind::proof:
      return check_body<proof_body>(message);
    case message_kind::accept:
      return check_body<accept_body>(message);
    case message_kind::refuse:
      return check_body<refuse_body>(message);
    case message_kind::acknowledge:
      return check_body<acknowledge_body>(message);
    case message_kind::ping:
      return check_body<ping_body>(message);
    case message_kind::pong:
      return check_body<pong_body>(message);
    case message_kind::flow:
      return check_body<flow_body>(message);
    case message_kind::bye:
      return check_body<bye_body>(message);
    case message_kind::addresses:
      return check_body<addresses_body>(message);
    case message_kind::where:
      return check_body<where_body>(message);
    case message_kind::found:
      return check_body<found_body>(message);
    case message_kind::cancel:
      return check_body<cancel_body>(message);
    case message_kind::in_hand:
      return check_body<in_hand_body>(message);
    case message_kind::turned_away:
      return check_body<turned_away_body>(message);
    case message_kind::interest:
      return check_body<interest_body>(message);
    case message_kind::routed:
      return check_head<routed_head, routed_head_size>(message);
    case message_kind::broadcast:
      return check_head<broadcast_head, broadcast_head_size>(message);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // In memory of its very size, so that the sanitizer sees a byte too many being read.
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> exact(bytes, bytes + size);
  check_message(exact);
  return 0;
}
