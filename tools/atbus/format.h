// Figures and tables as operators see them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace atbus::tool {

// 1203442 as "1 203 442".
std::string grouped(std::uint64_t number);
// "1 message", "1 203 messages"
std::string counted(std::uint64_t number, std::string_view noun);
// Whole percents, 0 only for nothing and 100 only for everything.
std::string percent(std::uint64_t part, std::uint64_t whole);
// A rate or an amount in three digits: "0", "12.3 k", "5.25 M".
std::string scaled(double amount);
// "350 ns", "12.3 us", "4.56 ms", "78 s", "12 min", "5 h", "3 d"; "-" for 0.
std::string duration(std::chrono::nanoseconds time);
// Nanoseconds since 1970 as "2026-03-01 12:00:00", local time; "-" for 0.
std::string date(std::uint64_t ns_since_1970);
// For a terminal: ? in the place of all that is not printable ASCII.
std::string printable(std::string text);
// "48 65 6c 6c 6f  |Hello|"
std::string hex_dump(std::span<const std::byte> bytes);
std::string hex(std::span<const std::byte> bytes);

// Columns as wide as their widest cell. Prints to standard output.
class table {
 public:
  enum class align : std::uint8_t { left, right };
  struct column {
    std::string title;
    align side = align::left;
  };

  explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
  void print(std::string_view indent = " ") const;

 private:
  std::vector<column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace atbus::tool
