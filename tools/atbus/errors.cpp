#include "atbus/errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "atbus/status.hpp"

namespace atbus::tool {
namespace {

constexpr std::size_t name_width = 20;
constexpr std::size_t text_width = 76;

// The text in lines of at most text_width, all but the first indented behind the name.
std::string wrapped(std::string_view text) {
  std::string lines;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column != 0 && column + 1 + end > text_width) {
      lines += "\n" + std::string(name_width + 2, ' ');
      column = 0;
    }
    if (column != 0) {
      lines += ' ';
      ++column;
    }
    lines += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void print(errc code) {
  fmt::print(" {:<{}} {}\n", name(code), name_width, wrapped(explain(code)));
}

void run(const std::string& wanted) {
  if (wanted.empty()) {
    for (std::size_t code = 0; code != errc_count; ++code) {
      print(static_cast<errc>(code));
    }
    return;
  }
  const auto code = find_errc(wanted);
  if (!code) {
    throw CLI::ValidationError(
        "NAME", "\"" + wanted + "\" is no error code; `atbus errors` lists them all");
  }
  print(*code);
}

}  // namespace

void add_errors(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("errors", "What an error code means and what to do about it");
  const auto wanted = std::make_shared<std::string>();
  command->add_option("NAME", *wanted, "a code such as would_block; all of them if left out");
  command->callback([wanted] { run(*wanted); });
}

}  // namespace atbus::tool
