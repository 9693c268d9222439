// msgpack-c includes headers of Boost without it.
#define MSGPACK_NO_BOOST
#include "protocol/command_body.h"

#include <msgpack/null_visitor.hpp>
#include <msgpack/pack.hpp>
#include <msgpack/parse.hpp>
#include <msgpack/unpack.hpp>
#include <string_view>
#include <utility>

#include "atbus/detail/little_endian.hpp"
#include "protocol/byte_writer.h"

namespace atbus::detail {
namespace {

constexpr std::size_t number_size = sizeof(std::uint64_t);
constexpr std::size_t words_at = number_size + sizeof(std::int64_t);

// Ends the reading at the first value that is neither the one array nor a string in it.
class word_visitor : public msgpack::null_visitor {
 public:
  explicit word_visitor(std::vector<std::string>& words) noexcept : words_{words} {}

  bool visit_nil() { return false; }
  bool visit_boolean(bool) { return false; }
  bool visit_positive_integer(std::uint64_t) { return false; }
  bool visit_negative_integer(std::int64_t) { return false; }
  bool visit_float32(float) { return false; }
  bool visit_float64(double) { return false; }
  bool visit_bin(const char*, std::uint32_t) { return false; }
  bool visit_ext(const char*, std::uint32_t) { return false; }
  bool start_map(std::uint32_t) { return false; }
  bool start_array(std::uint32_t size) {
    return !std::exchange(in_array_, true) && size <= command_words_max;
  }
  bool visit_str(const char* text, std::uint32_t size) {
    if (in_array_)
      words_.emplace_back(text, size);
    return in_array_;
  }
  void parse_error(std::size_t, std::size_t) {}
  void insufficient_bytes(std::size_t, std::size_t) {}

 private:
  std::vector<std::string>& words_;
  bool in_array_ = false;
};

}  // namespace

void encode(std::uint64_t number, const std::vector<std::string>& words, byte_buffer& payload,
            std::chrono::nanoseconds deadline) {
  payload.resize(words_at);
  store_little_endian(payload.data(), number);
  store_little_endian(payload.data() + number_size, static_cast<std::uint64_t>(deadline.count()));
  byte_writer writer{payload};
  msgpack::packer<byte_writer> packer{writer};
  packer.pack_array(static_cast<std::uint32_t>(words.size()));
  for (const std::string& word : words) {
    packer.pack_str(static_cast<std::uint32_t>(word.size()));
    packer.pack_str_body(word.data(), static_cast<std::uint32_t>(word.size()));
  }
}

std::uint64_t command_number(bytes_view payload) noexcept {
  return payload.size() < words_at ? 0 : load_little_endian<std::uint64_t>(payload.data());
}

std::string_view command_name(bytes_view payload) noexcept {
  if (payload.size() < words_at)
    return {};
  std::string_view rest = as_text(payload.subspan(words_at));
  const auto take = [&rest](std::size_t bytes) {
    std::size_t number = 0;
    for (std::size_t i = 0; i != bytes && !rest.empty(); ++i, rest.remove_prefix(1))
      number = number << 8U | static_cast<unsigned char>(rest.front());
    return number;
  };
  // The formats of an array and of a string: https://github.com/msgpack/msgpack/blob/master/spec.md
  const std::size_t array = take(1);
  if (array == 0xdc || array == 0xdd)
    (void)take(array == 0xdc ? 2 : 4);
  else if ((array & 0xf0U) != 0x90)
    return {};
  const std::size_t text = take(1);
  std::size_t size = text & 0x1fU;
  if (text >= 0xd9 && text <= 0xdb)
    size = take(std::size_t{1} << (text - 0xd9));
  else if ((text & 0xe0U) != 0xa0)
    return {};
  return size <= rest.size() ? rest.substr(0, size) : std::string_view{};
}

bool decode(bytes_view payload, command_body& body) {
  body = {};
  if (payload.size() < words_at)
    return false;
  body.number = command_number(payload);
  body.deadline = std::chrono::nanoseconds{
      static_cast<std::int64_t>(load_little_endian<std::uint64_t>(payload.data() + number_size))};
  word_visitor client{body.words};
  const std::string_view text = as_text(payload.subspan(words_at));
  std::size_t read = 0;
  return msgpack::parse(text.data(), text.size(), read, client) && read == text.size();
}

}  // namespace atbus::detail
