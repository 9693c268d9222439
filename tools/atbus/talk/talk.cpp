#include "atbus/talk/talk.h"

#include <fmt/format.h>

#include <chrono>
#include <random>
#include <stdexcept>

#include "atbus/nodes/nodes.h"

namespace atbus::tool {

void own_node_options::add_to(CLI::App& command) {
  client_options::add_to(command);
  command.add_option("--id", id, "this command's bus id; default: a random one");
}

bus_id own_node_options::own_id() const {
  if (!id.empty())
    return bus_id_of(id);
  std::random_device random;
  constexpr std::uint64_t top = 0xffff'0000'0000'0000;
  return bus_id{top | (std::uint64_t{random()} << 16) | (random() & 0xffff)};
}

node_options to_node_options(const own_node_options& from) {
  node_options options = to_node_options(static_cast<const client_options&>(from));
  if (from.id.empty())
    options.report_directory("");
  return options;
}

void trace_option::add_to(CLI::App& command) {
  command.add_option_function<std::string>(
      "--traceparent",
      [this](const std::string& text) {
        const auto read = trace_context::parse(text);
        if (!read)
          throw CLI::ValidationError("--traceparent", read.error().text());
        context_ = *read;
      },
      "the trace that it belongs to, as W3C's header of that name has it; relays log it");
}

std::string words_for_trace(const std::optional<trace_context>& trace) {
  return trace ? " (trace " + trace->to_string() + ")" : std::string{};
}

std::string listen_at(node& own, const std::string& address) {
  if (const error bad = own.fault(); !bad)
    throw std::runtime_error(std::string{name(bad.code())} + ": " + bad.text());
  if (const error bad = own.listen(address); !bad)
    throw std::runtime_error(std::string{name(bad.code())} + ": " + bad.text());
  return own.addresses().front();
}

std::string shown(bytes_view bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    const auto c = static_cast<char>(byte);
    if (c == '\\')
      text += "\\\\";
    else if (c >= ' ' && c <= '~')
      text += c;
    else
      text += fmt::format("\\x{:02x}", std::to_integer<unsigned>(byte));
  }
  return text;
}

void until_signalled::run() {
  // A signal ends a wait; one that comes just before it is seen after it.
  while (!signal_.seen() && !stopped_) {
    node_.poll();
    if (!signal_.seen() && !stopped_)
      (void)node_.wait(std::chrono::milliseconds{100});
  }
}

void add_talk(CLI::App& app) {
  add_request(app);
  add_reply(app);
  add_send(app);
  add_listen(app);
}

}  // namespace atbus::tool
