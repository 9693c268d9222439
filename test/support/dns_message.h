// DNS messages, byte by byte, for tests of what reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "atbus/bytes.hpp"

namespace atbus::test {

class dns_message {
 public:
  // A reply with the question that it answers.
  dns_message(std::string_view name, std::uint16_t type) {
    bytes_ = std::string{"\0\7\x84\0\0\1\0\0\0\0\0\0", 12};
    put_name(name);
    put(type);
    put(std::uint16_t{1});
  }

  // The first byte of their counts in the header.
  enum section : std::size_t { answer = 6, authority = 8, additional = 10 };

  dns_message& add(section into, std::string_view name, std::uint16_t type, std::uint32_t life,
                   std::string_view data) {
    ++bytes_[into + 1];
    put_name(name);
    put(type);
    put(std::uint16_t{1});
    put(static_cast<std::uint16_t>(life >> 16));
    put(static_cast<std::uint16_t>(life));
    put(static_cast<std::uint16_t>(data.size()));
    bytes_ += data;
    return *this;
  }

  [[nodiscard]] static std::string number(std::uint16_t value) {
    return {static_cast<char>(value >> 8), static_cast<char>(value)};
  }
  [[nodiscard]] static std::string name(std::string_view text) {
    std::string made;
    while (!text.empty()) {
      const std::string_view label = text.substr(0, text.find('.'));
      made += static_cast<char>(label.size());
      made += label;
      text.remove_prefix(label.size() == text.size() ? label.size() : label.size() + 1);
    }
    return made + '\0';
  }
  [[nodiscard]] static std::string target(std::string_view host, std::uint16_t port) {
    return number(0) + number(0) + number(port) + name(host);
  }
  [[nodiscard]] static std::string text(std::string_view one) {
    return static_cast<char>(one.size()) + std::string{one};
  }

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  void put(std::uint16_t value) { bytes_ += number(value); }
  void put_name(std::string_view text) { bytes_ += name(text); }

  std::string bytes_;
};

}  // namespace atbus::test
