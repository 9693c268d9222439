#include "nats/carrier_frame.h"

#include <algorithm>
#include <array>

#include "atbus/detail/little_endian.hpp"

namespace atbus::detail {
namespace {

constexpr std::array<std::byte, 4> mark{std::byte{'A'}, std::byte{'T'}, std::byte{'B'},
                                        std::byte{1}};
constexpr std::string_view middle = ".atbus.";
constexpr std::size_t line_digits = 32;
constexpr std::size_t link_digits = 16;

bool is_hexadecimal(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}
bool is_subject_character(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '-' || c == '.';
}

std::size_t smallest(carrier_kind kind) noexcept {
  return carrier_head_size + (kind == carrier_kind::open ? 0 : carrier_tag_size);
}

}  // namespace

std::optional<carrier_frame> read_frame(bytes_view message) noexcept {
  if (message.size() < carrier_head_size || !std::ranges::equal(message.first(mark.size()), mark))
    return std::nullopt;
  const auto kind = static_cast<carrier_kind>(message[4]);
  const bool has_zeros =
      std::ranges::all_of(message.subspan(5, 3), [](std::byte b) { return b == std::byte{0}; });
  if (kind < carrier_kind::open || kind > carrier_kind::close || !has_zeros ||
      message.size() < smallest(kind))
    return std::nullopt;
  return carrier_frame{.kind = kind,
                       .number = load_little_endian<std::uint64_t>(message.data() + 8),
                       .body = message.subspan(carrier_head_size, message.size() - smallest(kind))};
}

void append_number(std::uint64_t number, byte_buffer& to) {
  to.resize(to.size() + sizeof number);
  store_little_endian(to.data() + to.size() - sizeof number, number);
}

void write_head(carrier_kind kind, std::uint64_t number, byte_buffer& to) {
  to.assign(mark.begin(), mark.end());
  to.push_back(static_cast<std::byte>(kind));
  to.insert(to.end(), 3, std::byte{0});
  append_number(number, to);
}

bool is_subject(std::string_view text) noexcept {
  return !text.empty() && text.front() != '.' && text.back() != '.' &&
         text.find("..") == text.npos && std::ranges::all_of(text, is_subject_character);
}

bool is_inbox(std::string_view subject) noexcept {
  constexpr std::size_t digits = line_digits + 1 + link_digits;
  if (subject.size() > carrier_inbox_max || subject.size() <= middle.size() + digits)
    return false;
  const std::string_view line = subject.substr(subject.size() - digits, line_digits);
  const std::string_view link = subject.substr(subject.size() - link_digits);
  const std::string_view before = subject.substr(0, subject.size() - digits);
  if (!before.ends_with(middle) || subject[subject.size() - link_digits - 1] != '.')
    return false;
  const std::string_view prefix = before.substr(0, before.size() - middle.size());
  return is_subject(prefix) && std::ranges::all_of(line, is_hexadecimal) &&
         std::ranges::all_of(link, is_hexadecimal);
}

std::optional<carrier_opening> read_opening(bytes_view body) noexcept {
  if (body.size() <= carrier_key_size)
    return std::nullopt;
  const bytes_view inbox = body.subspan(carrier_key_size);
  const carrier_opening said{.key = body.first(carrier_key_size),
                             .inbox = {reinterpret_cast<const char*>(inbox.data()), inbox.size()}};
  return is_inbox(said.inbox) ? std::optional{said} : std::nullopt;
}

std::optional<std::uint64_t> read_credit(bytes_view body) noexcept {
  if (body.size() != sizeof(std::uint64_t))
    return std::nullopt;
  return load_little_endian<std::uint64_t>(body.data());
}

}  // namespace atbus::detail
