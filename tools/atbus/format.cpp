#include "atbus/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "core/text.h"

namespace atbus::tool {

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3)
    text.insert(at - 3, " ");
  return text;
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (part == 0 || whole == 0)
    return "0 %";
  if (part >= whole)
    return "100 %";
  const double exact = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  return fmt::format("{} %", std::clamp(static_cast<int>(exact + 0.5), 1, 99));
}

std::string scaled(double amount) {
  constexpr std::array<const char*, 5> units = {"", " k", " M", " G", " T"};
  std::size_t unit = 0;
  while (amount >= 999.5 && unit + 1 != units.size()) {
    amount /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || amount >= 99.95 ? 0 : amount >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", amount, digits, units[unit]);
}

std::string duration(std::chrono::nanoseconds time) {
  struct unit {
    const char* name;
    double ns;
  };
  constexpr std::array<unit, 7> units = {{{"d", 86400e9},
                                          {"h", 3600e9},
                                          {"min", 60e9},
                                          {"s", 1e9},
                                          {"ms", 1e6},
                                          {"us", 1e3},
                                          {"ns", 1}}};
  const auto ns = static_cast<double>(time.count());
  for (const unit& one : units) {
    if (ns < one.ns)
      continue;
    const double amount = ns / one.ns;
    const bool is_whole = amount >= 99.95 || one.ns >= 60e9 || one.ns == 1;
    return fmt::format("{:.{}f} {}", amount, is_whole ? 0 : amount >= 9.995 ? 1 : 2, one.name);
  }
  return "-";
}

std::string date(std::uint64_t ns_since_1970) {
  const auto seconds = static_cast<std::time_t>(ns_since_1970 / 1'000'000'000);
  std::tm parts{};
  char text[32];
  // Whatever a segment says fits in a time_t; years beyond four digits are no dates of ours.
  if (ns_since_1970 == 0 || localtime_r(&seconds, &parts) == nullptr ||
      std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts) == 0) {
    return "-";
  }
  return text;
}

std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return !detail::is_printable(c); }, '?');
  return text;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes)
    text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

std::string hex_dump(std::span<const std::byte> bytes) {
  std::string text;
  std::string shown;
  for (const std::byte byte : bytes) {
    const auto value = std::to_integer<unsigned char>(byte);
    text += fmt::format("{:02x} ", static_cast<unsigned>(value));
    shown += value >= 0x20 && value < 0x7f ? static_cast<char>(value) : '.';
  }
  return bytes.empty() ? std::string{} : text + " |" + shown + "|";
}

void table::print(std::string_view indent) const {
  std::vector<std::size_t> widths;
  for (const column& c : columns_)
    widths.push_back(c.title.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < widths.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  const auto print_row = [&](auto cell) {
    std::string line{indent};
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      line += columns_[i].side == align::left ? fmt::format("{:<{}}  ", cell(i), widths[i])
                                              : fmt::format("{:>{}}  ", cell(i), widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  };
  print_row([&](std::size_t i) { return columns_[i].title; });
  for (const auto& row : rows_)
    print_row([&](std::size_t i) { return row[i]; });
}

}  // namespace atbus::tool
