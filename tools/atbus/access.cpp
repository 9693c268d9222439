#include "atbus/access.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atbus/subcommands.h"
#include "node/access/access_file.h"
#include "node/files/watched_file.h"

namespace atbus::tool {
namespace {

using detail::access_line;
using detail::access_rules;
using detail::message_class;

struct question {
  std::string file;
  std::string from;
  std::string to;
  std::string at;
  std::string children;
  std::vector<std::string> names;
  std::optional<std::uint32_t> message;
  std::optional<std::uint32_t> request;
  std::string command;
  std::optional<std::uint32_t> broadcast;
};

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "error: {}\n", why);
  throw CLI::RuntimeError{1};
}

template <class Value>
Value or_fail(result<Value> read) {
  if (!read)
    fail(read.error().text());
  return *std::move(read);
}

// A client has no id.
bus_id id_of(const std::string& text) {
  return text == "client" ? bus_id{} : or_fail(bus_id::parse(text));
}

id_range range_of(const std::string& text) {
  return text.find('/') != std::string::npos ? or_fail(id_range::parse(text))
                                             : id_range::single(or_fail(bus_id::parse(text)));
}

class checker {
 public:
  explicit checker(const question& asked)
      : asked_(asked),
        rules_(or_fail(
            detail::read_access_file(or_fail(detail::read_config_file(asked.file)), asked.file))) {}

  void run();

 private:
  void say(const std::string& what, access_line allowed_by);
  [[nodiscard]] bool asks_for_more_of_a_registration() const {
    return !asked_.children.empty() || !asked_.names.empty();
  }
  void check_registration(bus_id from);
  void check_sending(bus_id from);
  void list_sending(bus_id from, bus_id to) const;

  const question& asked_;
  access_rules rules_;
  bool refused_ = false;
};

void checker::say(const std::string& what, access_line allowed_by) {
  if (allowed_by)
    fmt::print("{}: allowed by {}:{}\n", what, asked_.file, *allowed_by);
  else
    fmt::print("{}: refused, no entry allows it\n", what);
  refused_ = refused_ || !allowed_by;
}

void checker::run() {
  if (asked_.from.empty()) {
    if (!asked_.to.empty() || !asked_.at.empty() || asks_for_more_of_a_registration())
      fail("--from says which node it is about");
    fmt::print("{}: {} entries for who may register, {} for who may send; no error\n", asked_.file,
               rules_.registrations.size(), rules_.sends.size());
    return;
  }
  const bus_id from = id_of(asked_.from);
  if (!asked_.at.empty())
    check_registration(from);
  else if (asks_for_more_of_a_registration())
    fail("--at says from where the node registers");
  if (!asked_.to.empty())
    check_sending(from);
  else if (asked_.at.empty())
    fail("--at says from where the node registers, --to to which node it sends");
  if (refused_)
    throw CLI::RuntimeError{1};
}

void checker::check_registration(bus_id from) {
  detail::link_origin origin = or_fail(detail::read_origin(asked_.at));
  origin.names = asked_.names;
  std::optional<id_range> below;
  std::string what = fmt::format("{} registers from {}", asked_.from, asked_.at);
  if (!asked_.children.empty()) {
    below = range_of(asked_.children);
    what += " with the ids " + asked_.children;
  }
  say(what, rules_.may_register(from, below, origin));
}

void checker::check_sending(bus_id from) {
  const std::string pair = asked_.from + " to " + asked_.to;
  if (asked_.broadcast) {
    return say(fmt::format("broadcast of type {} from {}", *asked_.broadcast, pair),
               rules_.may_broadcast(from, range_of(asked_.to), *asked_.broadcast));
  }
  const bus_id to = or_fail(bus_id::parse(asked_.to));
  if (asked_.message) {
    say(fmt::format("message of type {} from {}", *asked_.message, pair),
        rules_.may_send(from, to, message_class::message, *asked_.message));
  } else if (asked_.request) {
    say(fmt::format("request of type {} from {}", *asked_.request, pair),
        rules_.may_send(from, to, message_class::request, *asked_.request));
  } else if (!asked_.command.empty()) {
    say(fmt::format("command {} from {}", asked_.command, pair),
        rules_.may_command(from, to, asked_.command));
  } else {
    list_sending(from, to);
  }
}

template <class Value>
std::string list_of(const detail::value_set<Value>& values) {
  return values.any ? "any" : fmt::format("{}", fmt::join(values.values, ", "));
}

void checker::list_sending(bus_id from, bus_id to) const {
  if (rules_.send_any) {
    fmt::print("{} may send {} anything: {}:{}\n", asked_.from, asked_.to, asked_.file,
               *rules_.send_any);
    return;
  }
  bool is_any = false;
  for (const detail::send_entry& one : rules_.sends) {
    if (!one.from.contains(from) || !one.to.contains(to))
      continue;
    is_any = true;
    fmt::print("{}:{} allows from {} to {}\n", asked_.file, one.line, asked_.from, asked_.to);
    const auto print = [](const char* what, const auto& values) {
      if (values.any || !values.values.empty())
        fmt::print("  {} {}\n", what, list_of(values));
    };
    print("messages of type  ", one.messages);
    print("requests of type  ", one.requests);
    print("commands          ", one.commands);
    print("broadcasts of type", one.broadcasts);
  }
  if (!is_any)
    fmt::print("no entry allows anything from {} to {}\n", asked_.from, asked_.to);
}

}  // namespace

void add_access(CLI::App& app) {
  CLI::App* const group = app.add_subcommand("access", "Files of access rules");
  require_one_subcommand(*group);
  CLI::App* const command = group->add_subcommand(
      "check", "Checks a file, or says which entry allows something: exit code 1 if none does");
  const auto asked = std::make_shared<question>();
  command->add_option("FILE", asked->file, "the file of access rules")->required();
  command->add_option("--from", asked->from,
                      "the id of the node that registers or sends, or client");
  command->add_option("--to", asked->to, "the id of the node, or the range of a broadcast");
  command->add_option("--at", asked->at,
                      "where it registers from: 10.0.0.7, fd00::7, or user:1000 on this host");
  command->add_option("--children", asked->children, "the ids of its children: 0x12340000/48");
  command->add_option("--certificate", asked->names,
                      "a name in its certificate: DNS:zone-1.example; may be repeated");
  command->add_option("--message", asked->message, "may it send messages of this type?");
  command->add_option("--request", asked->request, "may it send requests of this type?");
  command->add_option("--command", asked->command, "may it send the command of this name?");
  command->add_option("--broadcast", asked->broadcast, "may it broadcast this type?");
  command->callback([asked] { checker{*asked}.run(); });
}

}  // namespace atbus::tool
