#include "node/files/toml_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/text.h"
#include "node/files/watched_file.h"

namespace atbus::detail {
namespace {

// Where a line has a letter beyond ASCII, or a text over several lines, outside of texts and comments:
// toml++ 3.3 looks such a letter up in a table that it may leave at the end. npos: nowhere.
std::size_t find_stray(std::string_view line) noexcept {
  char quote = 0;
  for (std::size_t i = 0; i != line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote)
        quote = 0;
      else if (c == '\\' && quote == '"' && i + 1 != line.size())
        ++i;
    } else if (c == '#') {
      break;
    } else if (static_cast<unsigned char>(c) >= 0x80 ||
               ((c == '"' || c == '\'') && line.substr(i, 3) == std::string(3, c))) {
      return i;
    } else if (c == '"' || c == '\'') {
      quote = c;
    }
  }
  return std::string_view::npos;
}

}  // namespace

error toml_reader::at(const toml::source_position& where, std::string_view what) const {
  return {errc::invalid_argument, std::string{name_} + ":" + std::to_string(where.line) + ":" +
                                      std::to_string(where.column) + ": " + std::string{what}};
}

error toml_reader::check_lines(std::string_view text) const {
  toml::source_index line = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin > watched_file_line_max) {
      return at({line, 1}, "the line is longer than " + std::to_string(watched_file_line_max) +
                               " bytes; a list may go over several lines");
    }
    if (const std::size_t stray = find_stray(text.substr(begin, end - begin));
        stray != std::string_view::npos) {
      return at({line, static_cast<toml::source_index>(stray + 1)},
                "outside of texts and comments there is ASCII only, and a text ends in its line");
    }
    begin = end + 1;
  }
  return {};
}

result<toml::table> toml_reader::parse(std::string_view text) const {
  if (error bad = check_lines(text); !bad)
    return bad;
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    std::string what{parsed.error().description()};
    std::replace_if(
        what.begin(), what.end(), [](char c) { return !is_printable(c); }, '?');
    return at(parsed.error().source().begin, what);
  }
  return std::move(parsed).table();
}

}  // namespace atbus::detail
