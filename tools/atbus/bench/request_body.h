// The JSON body of a request with a fan-out. A service decodes and encodes it; the keys are in the
// order in which they are encoded, so the reply has the same characters.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace atbus::bench {

class request_body {
 public:
  static constexpr std::size_t shortest = 64;
  static constexpr std::size_t number_at = 7;  // behind {"id":"
  static constexpr std::size_t number_digits = 16;

  // Of exactly so many bytes.
  explicit request_body(std::size_t bytes) : text_{R"({"id":"0000000000000000","items":[)"} {
    constexpr std::string_view middle = R"(],"text":")";
    constexpr std::string_view end = "\"}";
    // Half of it numbers, the rest characters.
    const std::size_t items_end = text_.size() + (bytes - shortest) / 2;
    text_ += '1';
    for (unsigned item = 0; text_.size() + 6 < items_end; ++item) {
      text_ += ',' + std::to_string(1000 + item % 9000);
    }
    text_ += middle;
    text_.append(bytes - end.size() - text_.size(), 'x');
    text_ += end;
  }

  // The body of the request with that number. Valid until the next one.
  std::string_view of(std::uint64_t number) noexcept {
    char digits[number_digits];
    const char* const end = std::to_chars(digits, digits + sizeof digits, number, 16).ptr;
    const auto count = static_cast<std::size_t>(end - digits);
    std::memset(text_.data() + number_at, '0', sizeof digits);
    std::memcpy(text_.data() + number_at + sizeof digits - count, digits, count);
    return text_;
  }

 private:
  std::string text_;
};

}  // namespace atbus::bench
