// Reads a TOML text from outside, for readers that know what has to be in it. Errors name the file, the line
// and the column.
//
// A text beyond the limits, by mistake or on purpose, is refused as a whole.
#pragma once

// The assertions of toml++ 3.3 end the process, or mislead the optimizer, for some files that are only
// wrong, such as "[[[[". What they assert is checked again behind them.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) static_assert(true)
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <string_view>

#include "atbus/status.hpp"

namespace atbus::detail {

class toml_reader {
 protected:
  // `name` is that of the file, for errors.
  explicit toml_reader(std::string_view name) noexcept : name_(name) {}

  // Errors: invalid_argument.
  [[nodiscard]] result<toml::table> parse(std::string_view text) const;
  [[nodiscard]] error at(const toml::source_position& where, std::string_view what) const;
  [[nodiscard]] error at(const toml::node& where, std::string_view what) const {
    return at(where.source().begin, what);
  }

 private:
  [[nodiscard]] error check_lines(std::string_view text) const;

  std::string_view name_;
};

}  // namespace atbus::detail
