#include "atbus/node_client.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "atbus/clock.hpp"
#include "atbus/format.h"

namespace atbus::tool {
namespace {

// A node that is just starting anew has this long to listen.
constexpr std::chrono::milliseconds patience{700};
constexpr std::chrono::milliseconds look_interval{50};

// Of an error, and of a status.
std::string sentence(errc code, const std::string& text) {
  return std::string{name(code)} + ": " + text;
}

std::string failure_text(const status& how, const command_reply& reply, const std::string& last) {
  if (!reply.values().empty())
    return sentence(how.code(), printable(fmt::format("{}", fmt::join(reply.values(), " "))));
  return sentence(how.code(), how.text()) + (last.empty() ? "" : "\nbefore that: " + last);
}

}  // namespace

std::string read_token(const std::string& path) {
  const auto fail = [&](const std::string& why) -> std::runtime_error {
    return std::runtime_error("--token-file " + path + ": " + why);
  };
  if (std::error_code none; std::filesystem::is_directory(path, none))
    throw fail("it is a directory");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw fail("can't read it: " + std::generic_category().message(errno));
  std::string token{std::istreambuf_iterator<char>(file), {}};
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r'))
    token.pop_back();
  return token;
}

node_options to_node_options(const client_options& from) {
  node_options options;
  options.drain(std::chrono::seconds{0});  // who was refused waits for nothing
  if (!from.token_file.empty())
    options.token(read_token(from.token_file));
  return options;
}

void client_options::add_to(CLI::App& command) {
  command.add_option("--token-file", token_file, "what nodes there prove to each other");
  command
      .add_option("--timeout", timeout,
                  fmt::format("seconds to wait for the answer; {} if left out", timeout))
      ->check(CLI::Range(0.001, 1e6));
}

node_client::node_client(const client_options& options)
    : options_(options), client_(0, to_node_options(options)) {
  if (const error bad = client_.fault(); !bad)  // nothing else can be wrong with it
    throw std::runtime_error("--token-file " + options_.token_file + ": " + bad.text());
  client_.on_log([this](std::string_view line) {
    last_line_ = line;
    if (line.starts_with("no connection to") && no_way_since_ == std::chrono::nanoseconds{0})
      no_way_since_ = now();
  });
  client_.on_endpoint([this](const endpoint&, endpoint_event event) {
    is_linked_ = is_linked_ || event == endpoint_event::connected;
    if (event != endpoint_event::refused)
      return;
    const bool for_want_of_a_token =
        options_.token_file.empty() && last_line_.find("token") != std::string::npos;
    failed_ = last_line_ + (for_want_of_a_token ? "\nIs a --token-file needed?" : "");
    is_over_ = true;
  });
  if (const error bad = client_.connect(0, options_.address); !bad)
    throw std::runtime_error(sentence(bad.code(), bad.text()));
}

std::vector<std::string> node_client::ask(const std::vector<std::string>& words) {
  failed_ = "the node ended";
  const auto timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>{options_.timeout});
  const status asked =
      client_.command(0, words, timeout, [this](status how, const command_reply& reply) {
        answer_ = reply.values();
        failed_ = how ? "" : failure_text(how, reply, last_line_);
        is_over_ = true;
      });
  if (!asked)
    throw std::runtime_error(sentence(asked.code(), asked.text()));
  wait_for_the_end();
  if (!failed_.empty())
    throw std::runtime_error(failed_);
  return std::move(answer_);
}

std::string node_client::request(std::uint32_t type, const std::string& text,
                                 std::chrono::nanoseconds timeout,
                                 const std::optional<trace_context>& trace) {
  failed_ = "the node ended";
  const auto take = [this](const response& one) {
    answer_ = {std::string{one.text()}};
    failed_ = one ? "" : sentence(one.how().code(), one.how().text());
    if (!one && !one.bytes().empty())
      failed_ += ": " + printable(answer_.front());
    is_over_ = true;
  };
  const request_handle sent = trace
                                  ? client_.request(0, type, as_bytes(text), timeout, *trace, take)
                                  : client_.request(0, type, text, timeout, take);
  if (!sent)
    throw std::runtime_error(sentence(sent.why().code(), sent.why().text()));
  wait_for_the_end();
  if (!failed_.empty())
    throw std::runtime_error(failed_);
  return std::move(answer_.front());
}

void node_client::wait_for_the_end() {
  is_over_ = false;
  while (!is_over_ && client_.is_open()) {
    client_.poll();
    const bool may_be_nobody = !is_linked_ && no_way_since_ != std::chrono::nanoseconds{0};
    if (!is_over_ && may_be_nobody && now() - no_way_since_ >= patience) {
      failed_ = sentence(errc::not_connected, last_line_);
      return;
    }
    if (!is_over_)
      (void)client_.wait(look_interval);
  }
}

void node_client::rest(std::chrono::nanoseconds time) {
  const std::chrono::nanoseconds end = now() + time;
  for (auto left = time; left > std::chrono::nanoseconds{0}; left = end - now()) {
    client_.poll();
    (void)client_.wait(left);
  }
}

}  // namespace atbus::tool
