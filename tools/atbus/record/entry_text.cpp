#include "atbus/record/entry_text.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "atbus/format.h"
#include "atbus/nodes/nodes.h"
#include "atbus/talk/talk.h"
#include "protocol/command_body.h"
#include "protocol/request_body.h"

namespace atbus::tool {

using detail::entry_kind;
using detail::recording_end;
using detail::recording_entry;

namespace {

bool is_command(const recording_entry& message) noexcept {
  return (message.flags & detail::exchange_flags) == detail::flag_command ||
         (message.flags & detail::exchange_flags) == detail::flag_reply;
}

// Without what the protocol has in front of it.
bytes_view users_bytes(const recording_entry& message, bytes_view payload) noexcept {
  if ((message.flags & detail::flag_request) == 0)
    return payload;
  const std::size_t head = (message.flags & detail::flag_reply) != 0 ? detail::response_head_size
                                                                     : detail::request_head_size;
  return payload.subspan(std::min(head, payload.size()));
}

std::string shown_payload(const recording_entry& message, bytes_view payload) {
  detail::command_body body;
  if (!is_command(message) || !detail::decode(payload, body))
    return shown(users_bytes(message, payload));
  std::string words;
  for (const std::string& word : body.words)
    words += (words.empty() ? "" : " ") + shown(as_bytes(word));
  return words;
}

}  // namespace

std::string_view kind_of(const recording_entry& message) noexcept {
  const bool is_answer = (message.flags & detail::flag_reply) != 0;
  if ((message.flags & detail::flag_request) != 0)
    return is_answer ? "response" : "request";
  if ((message.flags & detail::command_flags) != 0)
    return is_answer ? "answer" : "command";
  return "message";
}

std::string text_of(const recording_entry& message, bytes_view payload) {
  const std::string_view kind = kind_of(message);
  return fmt::format("{} {} {}{}{}", message.from.to_string(), message.type,
                     shown_payload(message, payload),
                     kind == "message" ? std::string{} : fmt::format(" ({})", kind),
                     (message.flags & detail::flag_redelivered) != 0 ? " (redelivered)" : "");
}

std::string json_of(std::chrono::nanoseconds at, const recording_entry& entry, bytes_view payload) {
  nlohmann::ordered_json line;
  line["time"] = at.count();
  switch (entry.kind) {
    case entry_kind::begin:
      line["kind"] = "begin";
      line["node"] = entry.to.to_string();
      line["incarnation"] = entry.number;
      break;
    case entry_kind::lost:
      line["kind"] = "lost";
      line["count"] = entry.count;
      break;
    case entry_kind::end:
      line["kind"] = "end";
      line["messages"] = entry.number;
      line["why"] = words_for_end(entry);
      break;
    case entry_kind::message:
      line["kind"] = kind_of(entry);
      line["number"] = entry.number;
      line["from"] = entry.from.to_string();
      line["to"] = entry.to.to_string();
      line["type"] = entry.type;
      line["redelivered"] = (entry.flags & detail::flag_redelivered) != 0;
      line["bytes"] = hex(users_bytes(entry, payload));
      break;
  }
  return line.dump();
}

std::string words_for_end(const recording_entry& end) {
  switch (static_cast<recording_end>(end.type)) {
    case recording_end::asked:
      return "it was ended";
    case recording_end::node_closed:
      return "the node was closed";
    case recording_end::node_gone:
      return "the node is gone or did not answer: what it handled last may be missing";
    case recording_end::not_written:
      return "the file could not be written any more";
  }
  return fmt::format("for a reason that this version does not know: {}", end.type);
}

message_choice::message_choice(const message_filter& filter) {
  if (!filter.from.empty())
    from_ = bus_id_of(filter.from);
  if (filter.type.empty())
    return;
  std::uint32_t number = 0;
  const char* const last = filter.type.data() + filter.type.size();
  const auto [end, wrong] = std::from_chars(filter.type.data(), last, number);
  if (wrong != std::errc{} || end != last)
    throw CLI::ValidationError("--type", filter.type + " is no number of a type");
  type_ = number;
}

bool message_choice::takes(const recording_entry& message) const noexcept {
  return message.kind == entry_kind::message && (!type_ || message.type == *type_) &&
         (!from_ || message.from == *from_);
}

}  // namespace atbus::tool
