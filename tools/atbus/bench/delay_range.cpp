#include "atbus/bench/delay_range.h"

#include <charconv>

namespace atbus::bench {
namespace {

struct quantity {
  std::int64_t count = 0;
  std::string_view unit;
};

std::optional<quantity> parse_quantity(std::string_view text) noexcept {
  quantity found;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, found.count);
  if (code != std::errc{} || found.count < 0) {
    return std::nullopt;
  }
  found.unit = text.substr(static_cast<std::size_t>(stop - text.data()));
  return found;
}

std::optional<std::int64_t> to_ns(std::int64_t count, std::string_view unit) noexcept {
  const std::int64_t factor = unit == "us"   ? 1'000
                              : unit == "ms" ? 1'000'000
                              : unit == "s"  ? 1'000'000'000
                                             : 0;
  if (factor == 0 || count > longest_delay_ns / factor) {
    return std::nullopt;
  }
  return count * factor;
}

}  // namespace

std::optional<delay_range> parse_delay_range(std::string_view text) noexcept {
  const std::size_t dots = text.find("..");
  const bool is_range = dots != std::string_view::npos;
  const auto last = parse_quantity(is_range ? text.substr(dots + 2) : text);
  const auto first = is_range ? parse_quantity(text.substr(0, dots)) : last;
  if (!first || !last) {
    return std::nullopt;
  }
  const auto min_ns = to_ns(first->count, first->unit.empty() ? last->unit : first->unit);
  const auto max_ns = to_ns(last->count, last->unit);
  if (!min_ns || !max_ns || *min_ns > *max_ns) {
    return std::nullopt;
  }
  return delay_range{*min_ns, *max_ns};
}

}  // namespace atbus::bench
