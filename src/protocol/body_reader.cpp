// msgpack-c includes headers of Boost without it.
#define MSGPACK_NO_BOOST
#include "protocol/body_reader.h"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <limits>
#include <msgpack/null_visitor.hpp>
#include <msgpack/parse.hpp>
#include <msgpack/unpack.hpp>
#include <type_traits>
#include <utility>

#include "protocol/control.h"

namespace atbus::detail {
namespace {

// The largest number of a target that can't take all; 0: of what is no number.
template <class Target>
constexpr std::uint64_t number_max = 0;
template <>
constexpr std::uint64_t number_max<std::uint8_t> = std::numeric_limits<std::uint8_t>::max();
template <>
constexpr std::uint64_t number_max<std::uint16_t> = std::numeric_limits<std::uint16_t>::max();
template <>
constexpr std::uint64_t number_max<errc> = number_max<std::uint16_t>;
template <>
constexpr std::uint64_t number_max<relation> = relation_max;

// msgpack-c calls it for one value after the other; it ends the reading by returning false.
class body_visitor : public msgpack::null_visitor {
 public:
  explicit body_visitor(std::span<body_field> fields) noexcept : fields_{fields} {}

  [[nodiscard]] error take_problem() noexcept { return std::move(problem_); }

  bool visit_nil() { return refuse_unless_passed_over(); }
  bool visit_boolean(bool value) {
    return begin_value() && (passed_over() || store<bool*>([&](bool* to) {
                               *to = value;
                               return true;
                             }));
  }
  bool visit_positive_integer(std::uint64_t value) {
    if (at_key())
      return begin_field(value);
    return begin_value() && (passed_over() || store_number(value));
  }
  bool visit_negative_integer(std::int64_t value) {
    // Also called for what is positive and was written with a sign.
    if (value >= 0)
      return visit_positive_integer(static_cast<std::uint64_t>(value));
    return begin_value() && (passed_over() || fail("is negative"));
  }
  bool visit_float32(float) { return refuse_unless_passed_over(); }
  bool visit_float64(double) { return refuse_unless_passed_over(); }
  bool visit_ext(const char*, std::uint32_t) { return refuse_unless_passed_over(); }
  bool visit_str(const char* text, std::uint32_t size) {
    return begin_value() && (passed_over() || store_text({text, size}));
  }
  bool visit_bin(const char* bytes, std::uint32_t size) {
    return begin_value() && (passed_over() || store<mutable_bytes>([&](mutable_bytes to) {
                               if (size != to.size())
                                 return fail("has the wrong number of bytes");
                               std::memcpy(to.data(), bytes, size);
                               return true;
                             }));
  }

  bool start_array(std::uint32_t size) {
    if (!begin_value() || !enter(size))
      return false;
    if (passed_over())
      return true;
    if (!is_list() || depth_ > list_depth)
      return wrong_type();
    return size <= addresses_max || fail("has too many elements");
  }
  bool start_map(std::uint32_t size) {
    if (depth_ == 0)
      return enter(2 * std::uint64_t{size});
    return begin_value() && enter(2 * std::uint64_t{size}) && (passed_over() || wrong_type());
  }
  bool end_array() { return leave(); }
  bool end_map() { return leave(); }
  bool start_map_key() {
    in_key_ = true;
    return true;
  }
  bool end_map_key() {
    in_key_ = false;
    return true;
  }

  void parse_error(std::size_t, std::size_t) { fail_body("is not msgpack"); }
  void insufficient_bytes(std::size_t, std::size_t) { fail_body("ends too early"); }

 private:
  // How many containers are open around a field, and around an element of a list.
  static constexpr std::size_t body_depth = 1;
  static constexpr std::size_t list_depth = 2;

  [[nodiscard]] bool at_key() const noexcept { return in_key_ && depth_ == body_depth; }
  [[nodiscard]] bool passed_over() const noexcept { return field_ == nullptr; }
  [[nodiscard]] bool is_list() const noexcept {
    return std::holds_alternative<std::vector<std::string>*>(field_->target);
  }

  bool fail_body(std::string_view what) {
    if (problem_)
      problem_ = error{errc::protocol_error, std::string{"the body "}.append(what)};
    return false;
  }
  bool fail(std::string_view what) {
    problem_ = error{errc::protocol_error, std::string{field_->name}.append(" ").append(what)};
    return false;
  }
  bool wrong_type() { return fail("is of the wrong type"); }

  // Before every value but the keys of fields.
  bool begin_value() {
    if (depth_ == 0)
      return fail_body("is not a map");
    return !at_key() || fail_body("has a key that is not a whole number");
  }
  bool refuse_unless_passed_over() { return begin_value() && (passed_over() || wrong_type()); }

  bool begin_field(std::uint64_t key) {
    const auto found = std::ranges::find(fields_, key, &body_field::key);
    field_ = found == fields_.end() ? nullptr : &*found;
    return passed_over() || !std::exchange(field_->found, true) || fail("is there twice");
  }

  // Each value but the outermost is announced by the container it is in.
  bool enter(std::uint64_t elements) {
    if (++depth_ > control_depth_max)
      return fail_body("is nested too deep");
    elements_ += elements;
    return elements_ <= control_elements_max || fail_body("has too many elements");
  }
  bool leave() noexcept {
    --depth_;
    return true;
  }

  template <class Target, class Write>
  bool store(Write write) {
    Target* const to = std::get_if<Target>(&field_->target);
    // Inside a list there are only strings.
    return to != nullptr && depth_ == body_depth ? write(*to) : wrong_type();
  }

  bool store_number(std::uint64_t value) {
    return std::visit(
        [&](auto to) {
          using target = std::remove_pointer_t<decltype(to)>;
          if constexpr (std::same_as<target, std::uint64_t> || std::same_as<target, bus_id>) {
            *to = value;
          } else if constexpr (number_max<target> != 0) {
            if (value > number_max<target>)
              return fail("is too large");
            *to = static_cast<target>(value);
          } else {
            return wrong_type();
          }
          return true;
        },
        field_->target);
  }

  bool store_text(std::string_view text) {
    if (is_list() && depth_ == list_depth) {
      if (text.size() > address_size_max)
        return fail("has an element that is too long");
      std::get<std::vector<std::string>*>(field_->target)->emplace_back(text);
      return true;
    }
    return store<std::string*>([&](std::string* to) {
      if (text.size() > text_size_max)
        return fail("is too long");
      to->assign(text);
      return true;
    });
  }

  std::span<body_field> fields_;
  body_field* field_ = nullptr;  // whose value is read; null if it is passed over
  std::size_t depth_ = 0;
  std::uint64_t elements_ = 0;
  bool in_key_ = false;
  error problem_;
};

}  // namespace

error read_body(bytes_view body, std::span<body_field> fields) {
  body_visitor client{fields};
  const std::string_view text = as_text(body);
  std::size_t read = 0;
  if (!msgpack::parse(text.data(), text.size(), read, client))
    return client.take_problem();
  if (read != body.size())
    return {errc::protocol_error, "there are bytes behind the body"};
  const auto missing = std::ranges::find(fields, false, &body_field::found);
  if (missing != fields.end())
    return {errc::protocol_error, std::string{missing->name}.append(" is missing")};
  return {};
}

bool read_numbers(bytes_view body, std::span<std::uint64_t> numbers) noexcept {
  constexpr std::uint8_t map_of_none = 0x80;
  constexpr std::uint8_t small_number_max = 0x7f;
  constexpr std::uint8_t one_byte_number = 0xcc;  // then those of 2, 4 and 8 bytes
  const auto next = [&body] {
    const auto byte = std::to_integer<std::uint8_t>(body.front());
    body = body.subspan(1);
    return byte;
  };
  if (body.empty() || next() != map_of_none + numbers.size())
    return false;
  std::uint8_t key = 0;
  for (std::uint64_t& number : numbers) {
    if (body.size() < 2 || next() != ++key)
      return false;
    const std::uint8_t form = next();
    if (form <= small_number_max) {
      number = form;
      continue;
    }
    if (form < one_byte_number || form > one_byte_number + 3)
      return false;
    const std::size_t digits = std::size_t{1} << (form - one_byte_number);
    if (body.size() < digits)
      return false;
    number = 0;
    for (std::size_t i = 0; i != digits; ++i)
      number = number << 8U | next();
  }
  return body.empty();
}

}  // namespace atbus::detail
