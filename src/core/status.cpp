#include "atbus/status.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>

namespace atbus {
namespace {

// One row for each errc, in its order. The explanation's first sentence says what happened (text()
// puts the facts at its end), the rest what to do next. An empty fact label means that the code
// does not use that fact.
struct entry {
  errc code;
  std::string_view name;
  std::string_view explanation;
  std::array<std::string_view, 2> facts{};
};

constexpr std::array<entry, errc_count> entries{{
    {errc::ok, "ok", "The operation succeeded. There is nothing to do.", {}},
    {errc::would_block,
     "would_block",
     "The lane or queue to that peer is full, and nothing of the message was taken. Wait "
     "(wait_writable, on_writable) and send it again, read faster on the other side, or make it "
     "larger (lane_size for shm and mem, send_buffer_size of a node).",
     {"wanted bytes", "free bytes"}},
    {errc::message_too_large,
     "message_too_large",
     "The message is longer than the limit of this channel. Split it, or raise message_limit "
     "where the channel is opened (at the receiver for shm and mem).",
     {"message bytes", "limit"}},
    {errc::closed,
     "closed",
     "This end has been closed or destroyed, by this program. Open it again before using it; if "
     "that was not intended, look for the close() that came first.",
     {}},
    {errc::used_after_fork,
     "used_after_fork",
     "The object was opened before a fork and is used in the child. Only the parent may go on "
     "using it; open a new one in the child, or fork before opening.",
     {"opened by pid", "used by pid"}},
    {errc::timed_out,
     "timed_out",
     "The time allowed passed before the operation finished. Check that the other side is running "
     "and not overloaded, then try again or allow more time.",
     {"waited ms", "limit ms"}},
    {errc::invalid_argument,
     "invalid_argument",
     "An argument is outside what the call allows. The call's comment in its header gives the "
     "range; correct the argument.",
     {"given", "limit"}},
    {errc::invalid_address,
     "invalid_address",
     "The address can't be understood. Write it as mem://name, "
     "shm://name[?lanes=64&lane_size=1M], unix:///path, unix://@abstract, ipv4://127.0.0.1:16389, "
     "ipv6://[::1]:16389 or dns://host:port.",
     {}},
    {errc::invalid_name,
     "invalid_name",
     "The name holds a character that is not allowed there, or is empty or too long. mem and shm "
     "names are 1 to 64 characters of A-Z a-z 0-9 _ . - and start with neither '.' nor '-'; unix "
     "socket paths are absolute and at most 107 bytes.",
     {"position", "character"}},
    {errc::not_supported,
     "not_supported",
     "This machine, kernel or build, or this kind of channel or node, does not offer what was "
     "asked for. Use another option or kind of address, or a build that has it.",
     {}},
    {errc::not_found,
     "not_found",
     "Nothing exists under that name. Check the spelling and the directory, and start the "
     "receiver first: it creates the segment or socket (`atbus shm ls` lists the segments of this "
     "host).",
     {}},
    {errc::receiver_exists,
     "receiver_exists",
     "A living receiver already owns that name, and only one may. Stop that one, or choose "
     "another name (`atbus shm show NAME` tells who it is).",
     {"its pid"}},
    {errc::no_free_lane,
     "no_free_lane",
     "Every lane of the segment belongs to a living sender. Close senders that are not needed, or "
     "have the receiver remove the segment and create it anew with more lanes (?lanes=N).",
     {"lanes", "taken"}},
    {errc::no_space,
     "no_space",
     "There is not enough room in shared memory (or on the file system) to reserve what was asked "
     "for, and nothing was left half made. Free some with `atbus shm clean`, make /dev/shm "
     "larger, or ask for a smaller lane_size.",
     {"wanted bytes", "free bytes"}},
    {errc::not_a_segment,
     "not_a_segment",
     "The file under that name was not made by atbus, or is damaged. Choose another name, or find "
     "out what the file is and remove it (`atbus shm clean --force NAME`, or by hand).",
     {"found magic", "expected magic"}},
    {errc::version_mismatch,
     "version_mismatch",
     "The other side uses a layout or protocol version that this build can't work with. Bring "
     "both sides to the same version; an old segment without users goes away with `atbus shm "
     "clean --force NAME`.",
     {"found", "expected"}},
    {errc::geometry_mismatch,
     "geometry_mismatch",
     "The segment's sizes differ from what was asked for, or contradict each other. Open it with "
     "the sizes it has (or with none given), or remove it and create it anew.",
     {"found", "expected"}},
    {errc::wrong_owner,
     "wrong_owner",
     "The segment or socket belongs to another user, so it is not trusted. Run both sides as the "
     "same user, or choose another name.",
     {"owner uid", "own uid"}},
    {errc::wrong_mode,
     "wrong_mode",
     "The file's permissions let others in, or keep its owner out, so it is not trusted. Find out "
     "who changed them and set them back (0600), or remove the file and create the segment anew.",
     {"found mode", "expected mode"}},
    {errc::retired,
     "retired",
     "The segment was removed under its users and carries no more messages. Open the name again: "
     "that finds or creates its successor.",
     {}},
    {errc::quarantined,
     "quarantined",
     "A lane holds values that no correct sender writes, so its receiver stopped reading it; the "
     "other lanes go on. Close that sender and open it anew (it then takes a fresh lane), and "
     "look for a program that writes into the segment.",
     {"lane", "bad value"}},
    {errc::receiver_alive,
     "receiver_alive",
     "The receiver still lives and may yet handle these messages, so they can't be taken back. "
     "Wait for its answer or its end.",
     {"its pid"}},
    {errc::peer_closed,
     "peer_closed",
     "The other side closed the connection or died. What it had not acknowledged is reported as "
     "not delivered or of unknown outcome; connect again, or wait for it to come back.",
     {"peer"}},
    {errc::outcome_unknown,
     "outcome_unknown",
     "The message was handed over, but whether it was handled can't be found out: the peer died, "
     "lost its session or did not answer in time. Ask the peer, or send again only what may "
     "safely be handled twice.",
     {"destination", "number"}},
    {errc::not_delivered,
     "not_delivered",
     "The message provably never reached a handler. It is safe to send it again, once the reason "
     "that is given with it is gone.",
     {"destination", "number"}},
    {errc::no_route,
     "no_route",
     "No path leads to that bus id: it is no peer, in no child's range, and there is no parent to "
     "ask. Connect to it, or check the id and the ranges of the nodes on the way.",
     {"destination"}},
    {errc::not_connected,
     "not_connected",
     "The route to that bus id is known, but its link is down at the moment. Send again when the "
     "endpoint is reported to be up.",
     {"destination"}},
    {errc::hop_limit,
     "hop_limit",
     "The message passed through as many nodes as it may and was given up. Look for a loop in the "
     "parents and ranges of the nodes, or make the tree less deep than 16 nodes.",
     {"destination", "hops"}},
    {errc::denied,
     "denied",
     "It is not allowed: the other side refused (token, user, bus id or range), access rules "
     "refuse "
     "it, TCP was to be used without a token, or the system refused the path or port. The text "
     "beside it or the other "
     "side's log says which; check the tokens of both sides, and the rights of this user.",
     {"bus id"}},
    {errc::superseded,
     "superseded",
     "A newer node with the same bus id has taken this one's place. Only one may hold an id: stop "
     "one of the two, or give it an id of its own.",
     {"bus id"}},
    {errc::out_of_memory,
     "out_of_memory",
     "The system, or a limit set for this process or queue, gave no more memory. Lower the queue "
     "and lane sizes, or raise the limit.",
     {"wanted bytes", "limit"}},
    {errc::system_error,
     "system_error",
     "A call to the operating system failed. The errno beside it says why; the cause is usually a "
     "limit, a permission or a missing file outside this program.",
     {"errno"}},
    {errc::protocol_error,
     "protocol_error",
     "The other side sent bytes that no correct peer sends, so the connection was closed. Check "
     "that the address is that of an atbus peer, that nothing between the two changes bytes, and "
     "that both are of releases that fit each other; the log has what was found.",
     {"found", "expected"}},
    {errc::unknown_command,
     "unknown_command",
     "The node that was asked has no command of that name, and nothing was done. Check the name, "
     "and that the node is of a release that has it.",
     {"node"}},
    {errc::command_failed,
     "command_failed",
     "The node that was asked could not do it, or gave the command up without an answer. The reply "
     "has its own words for why.",
     {"node"}},
    {errc::unknown_request,
     "unknown_request",
     "The node that was asked has no handler for requests of that type. Check the number, and set "
     "one there with on_request.",
     {"node"}},
    {errc::request_failed,
     "request_failed",
     "The handler of the request failed it, threw, or dropped it without a response. The response "
     "has its own words for why.",
     {"node"}},
    {errc::cancelled,
     "cancelled",
     "The request was cancelled by the node that made it. There is nothing to do.",
     {}},
    {errc::malformed,
     "malformed",
     "The bytes are no value of the type that was expected. Check that both ends use the same "
     "number for the type, and the same declaration of it.",
     {"type"}},
}};

consteval bool rows_match_their_codes() {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (static_cast<std::size_t>(entries[i].code) != i || entries[i].name.empty())
      return false;
  }
  return true;
}
static_assert(rows_match_their_codes());

constexpr entry unknown{
    errc::ok,
    "unknown",
    "The value is no code of this version of atbus. It comes from a newer version, "
    "or from memory that was overwritten.",
    {}};

const entry& find(errc code) noexcept {
  const auto index = static_cast<std::size_t>(code);
  return index < entries.size() ? entries[index] : unknown;
}

std::string describe_facts(const status& of) {
  const entry& row = find(of.code());
  std::string text;
  for (std::size_t i = 0; i < of.fact_count(); ++i) {
    if (row.facts[i].empty())
      continue;
    text += text.empty() ? " (" : ", ";
    text.append(row.facts[i]).append(1, ' ').append(std::to_string(of.fact(i)));
    if (of.code() == errc::system_error) {
      text.append(": ").append(std::generic_category().message(static_cast<int>(of.fact(i))));
    }
  }
  if (!text.empty())
    text += ')';
  return text;
}

const std::string no_text;
const std::string lost_text{"there was no memory for the text"};

void print_line(errc code, const std::string& text) {
  const std::string line = "atbus: " + std::string{name(code)} + ": " + text + '\n';
  std::fputs(line.c_str(), stderr);  // one call, so that lines of several threads do not mix
}

class atbus_category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "atbus"; }

  std::string message(int value) const override { return std::string{explain(to_errc(value))}; }

  std::error_condition default_error_condition(int value) const noexcept override {
    switch (to_errc(value)) {
      case errc::would_block:
        return std::errc::operation_would_block;
      case errc::message_too_large:
        return std::errc::message_size;
      case errc::timed_out:
        return std::errc::timed_out;
      case errc::invalid_argument:
      case errc::invalid_address:
      case errc::invalid_name:
        return std::errc::invalid_argument;
      case errc::not_supported:
        return std::errc::not_supported;
      case errc::not_found:
        return std::errc::no_such_file_or_directory;
      case errc::receiver_exists:
        return std::errc::address_in_use;
      case errc::no_space:
        return std::errc::no_space_on_device;
      case errc::peer_closed:
        return std::errc::connection_reset;
      case errc::protocol_error:
        return std::errc::protocol_error;
      case errc::no_route:
        return std::errc::host_unreachable;
      case errc::not_connected:
        return std::errc::not_connected;
      case errc::denied:
      case errc::wrong_owner:
      case errc::wrong_mode:
        return std::errc::permission_denied;
      case errc::out_of_memory:
        return std::errc::not_enough_memory;
      default:
        return {value, *this};
    }
  }

 private:
  static errc to_errc(int value) noexcept {
    const auto index = static_cast<std::size_t>(value);  // a negative value becomes a huge one
    return static_cast<errc>(std::min(index, errc_count));
  }
};

}  // namespace

const std::error_category& category() noexcept {
  static const atbus_category instance;
  return instance;
}

std::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), category()};
}

std::string_view name(errc code) noexcept {
  return find(code).name;
}

std::string_view explain(errc code) noexcept {
  return find(code).explanation;
}

std::optional<errc> find_errc(std::string_view wanted) noexcept {
  const auto row = std::ranges::find(entries, wanted, &entry::name);
  if (row == entries.end())
    return std::nullopt;
  return row->code;
}

std::string status::text() const {
  std::string text{explain(code_)};
  const auto end_of_first_sentence = text.find(". ");
  return text.insert(std::min(end_of_first_sentence, text.size()), describe_facts(*this));
}

void status::print() const {
  print_line(code_, text());
}

error::error(errc code, std::string text, int system_code) noexcept
    : code_{code}, system_code_{system_code} {
  try {
    if (text.empty())
      text = explain(code);
    if (system_code != 0) {
      text += " (errno " + std::to_string(system_code) + ": " +
              std::generic_category().message(system_code) + ')';
    }
  } catch (const std::bad_alloc&) {  // as much as there is memory for
  }
  set_text(std::move(text));
}

error::error(errc code, const char* text, int system_code) noexcept
    : code_{code}, system_code_{system_code} {
  try {
    *this = error{code, std::string{text != nullptr ? text : ""}, system_code};
  } catch (const std::bad_alloc&) {
  }
}

error::error(const status& cause) noexcept
    : code_{cause.code()},
      system_code_{cause == errc::system_error ? static_cast<int>(cause.fact(0)) : 0} {
  try {
    set_text(cause.text());
  } catch (const std::bad_alloc&) {
  }
}

error error::with_text(std::string text) const noexcept {
  error other{*this};
  other.set_text(std::move(text));
  return other;
}

const std::string& error::text() const noexcept {
  return text_ != nullptr ? *text_ : code_ == errc::ok ? no_text : lost_text;
}

void error::set_text(std::string text) noexcept {
  try {
    text_ = std::make_shared<const std::string>(std::move(text));
  } catch (const std::bad_alloc&) {
    text_ = nullptr;
  }
}

void error::print() const {
  print_line(code_, text());
}

}  // namespace atbus
