// `atbus send ADDRESS TYPE [TEXT]`
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "atbus/nodes/remote.h"
#include "atbus/talk/talk.h"

namespace atbus::tool {
namespace {

struct send_options : own_node_options {
  std::uint32_t type = 0;
  std::string text;
  bool lines = false;
  trace_option trace;
};

// The lines of standard input. The node goes on while none is there.
class input_lines {
 public:
  explicit input_lines(node& own) : node_(own) {}

  // Without its line feed; nothing: the input has ended.
  std::optional<std::string> next();

 private:
  // False: there is no more.
  bool read_more();

  node& node_;
  std::string read_;
  std::size_t at_ = 0;  // what is before was given
};

std::optional<std::string> input_lines::next() {
  std::size_t end = read_.find('\n', at_);
  while (end == std::string::npos) {
    read_.erase(0, std::exchange(at_, 0));
    const std::size_t before = read_.size();
    if (!read_more())
      return before != 0 ? std::optional{std::exchange(read_, {})} : std::nullopt;
    end = read_.find('\n', before);
  }
  const std::size_t begin = std::exchange(at_, end + 1);
  return read_.substr(begin, end - begin);
}

bool input_lines::read_more() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (poll(&input, 1, 10) == 0)
    node_.poll();
  std::array<char, 64 * 1024> piece;
  const ssize_t got = read(STDIN_FILENO, piece.data(), piece.size());
  if (got < 0)
    throw std::runtime_error("can't read standard input: " +
                             std::generic_category().message(errno));
  read_.append(piece.data(), static_cast<std::size_t>(got));
  return got != 0;
}

// Waits for room; throws what is in the way.
void send_one(node& own, bus_id to, const send_options& options, const std::string& text) {
  while (true) {
    const auto& trace = options.trace.context();
    const status sent =
        trace ? own.send(to, options.type, text, *trace) : own.send(to, options.type, text);
    if (sent)
      return;
    if (sent != errc::would_block)
      throw std::runtime_error(std::string{name(sent.code())} + ": " + sent.text());
    (void)own.wait(std::chrono::milliseconds{100});
    own.poll();
  }
}

void send(const send_options& options) {
  const bus_id to = remote_nodes{options}.first();
  node own{options.own_id(), to_node_options(options)};
  std::uint64_t lost = 0;
  std::string why;
  own.on_undelivered([&](const undelivered& one) {
    lost += one.count();
    why = std::string{name(one.outcome())} + ": " + std::string{explain(one.reason())};
  });
  // What a node that is refused sends is given up in the end, for another reason.
  std::string last_line;
  std::string refused;
  own.on_log([&](std::string_view line) { last_line = line; });
  own.on_endpoint([&](const endpoint&, endpoint_event event) {
    if (event == endpoint_event::refused)
      refused = last_line;
  });
  if (const error bad = own.connect(to, options.address); !bad)
    throw std::runtime_error(std::string{name(bad.code())} + ": " + bad.text());
  std::uint64_t sent = 0;
  if (!options.lines) {
    send_one(own, to, options, options.text);
    ++sent;
  }
  input_lines lines{own};
  for (std::optional<std::string> line; options.lines && (line = lines.next()); ++sent)
    send_one(own, to, options, *line);
  const status ended = own.shutdown(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>{options.timeout}));
  if (!ended || lost != 0)
    throw std::runtime_error(fmt::format("{} of {} messages to node {} did not arrive: {}", lost,
                                         sent, to.to_string(), refused.empty() ? why : refused));
}

}  // namespace

void add_send(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("send", "Sends a message to a node and waits until it is handled");
  const auto options = std::make_shared<send_options>();
  command->add_option("ADDRESS", options->address, "where the node listens")->required();
  command->add_option("TYPE", options->type, "number of the message's type")->required();
  auto* const text = command->add_option("TEXT", options->text, "its bytes; none if left out");
  command->add_flag("--lines", options->lines, "each line of standard input is a message")
      ->excludes(text);
  options->trace.add_to(*command);
  options->add_to(*command);
  command->footer(
      "The node there has to let this command register: with its token, if it has one, and under "
      "an id that its access rules admit.\n"
      "Examples: `atbus send unix:///run/game/match 7 hello`; `atbus send ipv6://[::1]:5000 7 "
      "--lines --token-file token < messages`\n"
      "Exit code: 0 all were handled; 1 some were not (why is on standard error).");
  command->callback([options] { send(*options); });
}

}  // namespace atbus::tool
