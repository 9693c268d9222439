#include "node/core/built_in_commands.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "atbus/trace_context.hpp"
#include "node/report/report_format.h"

namespace atbus::detail {
namespace {

// The number in the first argument; 0 without one. False: it is none.
bool read_number(const command& asked, std::size_t& number) {
  number = 0;
  if (asked.arguments().empty())
    return true;
  const std::string& text = asked.arguments().front();
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  return wrong == std::errc{} && end == text.data() + text.size();
}

// That there is no room for the answer needs no answer: whoever asks waits until its time is over.
void fail(command& asked, const std::string& why) {
  (void)asked.fail(why);
}

// A reply that is too long for one of the two nodes is tried with fewer peers.
void reply_with(command& asked, node_report& all) {
  std::size_t most = std::min(all.peers.size(), report_peers_max);
  std::vector<std::byte> bytes;
  while (true) {
    all.peers.resize(most);
    encode(all, 1, bytes);
    const status sent =
        asked.reply(std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (sent != errc::message_too_large)
      return;
    if (most == 0)
      return fail(asked, "the message limit is too low for a report");
    most /= 2;
  }
}

// The answer of another node. Whoever asks may take less than this node does.
void pass_on(command& asked, const command_reply& answer) {
  const std::vector<std::string>& values = answer.values();
  if (asked.reply(values) != errc::message_too_large)
    return;
  // What the other node says may be no report, and nothing at all.
  auto report = values.empty() ? result<node_report>{errc::protocol_error}
                               : decode_report(as_bytes(values.front()));
  if (report)
    reply_with(asked, *report);
  else
    fail(asked, "the answer is longer than a message to whoever asks");
}

}  // namespace

bool built_in_commands::answer(command& asked) {
  if (!node_.options.built_in_commands() || !asked.name().starts_with("atbus."))
    return false;
  if (asked.name() == "atbus.ping")
    (void)asked.reply({node_.self.id.to_string(), std::to_string(node_.self.incarnation)});
  else if (asked.name() == "atbus.report")
    answer_report(asked);
  else if (asked.name() == "atbus.route")
    answer_route(asked);
  else if (asked.name() == "atbus.ask")
    ask_another(asked);
  else if (asked.name() == "atbus.tap")
    begin_tap(asked);
  else if (asked.name() == "atbus.untap")
    end_tap(asked);
  else
    return false;
  return true;
}

void built_in_commands::answer_report(command& asked) {
  std::size_t first = 0;
  if (!read_number(asked, first))
    return fail(asked, "atbus.report takes the number of the first peer, from 0");
  node_report all;
  report_(all);
  first = std::min(first, all.peers.size());
  all.peers.erase(all.peers.begin(), all.peers.begin() + static_cast<std::ptrdiff_t>(first));
  reply_with(asked, all);
}

void built_in_commands::answer_route(command& asked) {
  const auto wanted = asked.arguments().empty() ? result<bus_id>{errc::invalid_argument}
                                                : bus_id::parse(asked.arguments().front());
  if (!wanted)
    return fail(asked, "atbus.route takes a bus id");
  if (asked.arguments().size() > 1) {
    const auto trace = trace_context::parse(asked.arguments()[1]);
    if (!trace)
      return fail(asked, trace.error().text());
    log_(asked.source(), "trace " + trace->to_string() + ": " + asked.source().to_string() +
                             " asks for the way to " + wanted->to_string());
  }
  if (*wanted == node_.self.id) {
    (void)asked.reply("here");
    return;
  }
  const peer* const known = peers_.find(*wanted);
  const session* const path = known != nullptr ? known->current : nullptr;
  if (path != nullptr && path->is_direct)
    return describe(asked, path->stage == session_stage::away ? "away" : "link", *wanted);
  const peer* const next = routes_.next(*wanted, nullptr);
  if (next == nullptr || next->current == nullptr)
    return fail(asked,
                "node " + node_.self.id.to_string() + " knows no way to " + wanted->to_string());
  describe(asked, "relay", next->id);
}

void built_in_commands::ask_another(command& asked) {
  constexpr std::chrono::nanoseconds timeout = std::chrono::seconds{5};
  const std::span<const std::string> words = asked.arguments();
  const auto whom =
      words.empty() ? result<bus_id>{errc::invalid_argument} : bus_id::parse(words.front());
  const auto is_simple = [](const std::string& name) {
    return name == "atbus.ping" || name == "atbus.report" || name == "atbus.route";
  };
  // Nothing but these: whoever asks would do it in this node's name.
  if (!whom || words.size() < 2 || !is_simple(words[1]))
    return fail(asked, "atbus.ask takes a bus id, and atbus.ping, atbus.report or atbus.route");
  // It is asked for those directly: rules that allow no more than atbus.ask do not allow these here.
  if (*whom == node_.self.id)
    return fail(asked, "atbus.ask asks another node than " + whom->to_string());
  const std::vector<std::string> question{words.begin() + 1, words.end()};
  auto waiting = std::make_shared<command>(asked.detach());
  const status sent =
      ask_(*whom, question, timeout, [waiting](status how, const command_reply& reply) {
        if (how)
          pass_on(*waiting, reply);
        else
          fail(*waiting, reply.values().empty() ? how.text() : std::string{reply.text()});
      });
  if (!sent)
    fail(*waiting, sent.text());
}

void built_in_commands::begin_tap(command& asked) {
  if (!node_.options.allow_tap())
    return fail(asked, "node " + node_.self.id.to_string() +
                           " allows no taps: its program has to say so (node_options::allow_tap)");
  if (asked.arguments().empty()) {
    (void)asked.reply(std::to_string(taps_.longest()));
    return;
  }
  if (const error bad = taps_.begin(asked.arguments().front(), asked.source()); !bad)
    return fail(asked, bad.text());
  if (const status sent = asked.reply(node_.self.id.to_string()); !sent)
    (void)taps_.end(asked.arguments().front());  // whoever asked would not know of it
}

void built_in_commands::end_tap(command& asked) {
  const auto ended = asked.arguments().empty() ? result<message_taps::counts>{errc::not_found}
                                               : taps_.end(asked.arguments().front());
  if (!ended)
    return fail(asked, ended.error().text());
  (void)asked.reply({std::to_string(ended->messages), std::to_string(ended->lost)});
}

void built_in_commands::describe(command& asked, const char* how, bus_id next) {
  node_report all;
  report_(all);
  const auto found = std::ranges::find(all.peers, next, &peer_report::id);
  if (found == all.peers.end())
    return fail(asked, "the link to " + next.to_string() + " has just gone");
  (void)asked.reply({how, next.to_string(), std::string{name(found->channel)}, found->address});
}

}  // namespace atbus::detail
