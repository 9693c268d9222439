#include "atbus/record/replay_pace.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace atbus::tool {
namespace {

constexpr double longest_ns = 9e18;  // what a time can hold

std::optional<double> number_of(const std::string& text) {
  const bool is_plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || c == '.';
  });
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (!is_plain || end != text.data() + text.size() || !std::isfinite(number))
    return std::nullopt;
  return number;
}

std::chrono::nanoseconds time_of(double ns) noexcept {
  return std::chrono::nanoseconds{static_cast<std::int64_t>(std::min(ns, longest_ns))};
}

}  // namespace

std::optional<replay_pace> replay_pace::parse(const std::string& text) {
  if (text == "original")
    return replay_pace{rate_kind::recorded, 1};
  if (text.starts_with("x")) {
    const auto times = number_of(text.substr(1));
    return times && *times > 0 ? std::optional{replay_pace{rate_kind::recorded, *times}}
                               : std::nullopt;
  }
  const auto rate = number_of(text.ends_with("/s") ? text.substr(0, text.size() - 2) : text);
  if (!rate)
    return std::nullopt;
  return replay_pace{*rate == 0 ? rate_kind::none : rate_kind::fixed, *rate};
}

std::chrono::nanoseconds replay_pace::due(std::uint64_t number,
                                          std::chrono::nanoseconds recorded) noexcept {
  first_ = first_.value_or(recorded);
  if (kind_ == rate_kind::fixed)
    last_ = time_of(static_cast<double>(number) * 1e9 / rate_);
  else if (kind_ == rate_kind::recorded && rate_ == 1)
    last_ = std::max(last_, recorded - *first_);
  else if (kind_ == rate_kind::recorded)
    last_ = std::max(last_, time_of(static_cast<double>((recorded - *first_).count()) / rate_));
  return last_;
}

}  // namespace atbus::tool
