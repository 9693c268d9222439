#include "atbus/id_range.hpp"

#include "core/text.h"

namespace atbus {
namespace {

constexpr unsigned length_max = 64;

error at_fault(std::string_view text, const std::string& problem) {
  return {errc::invalid_argument, "id range " + detail::in_quotes(text) + ": " + problem};
}

}  // namespace

result<id_range> id_range::make(bus_id prefix, unsigned length) {
  if (length > length_max) {
    return error{errc::invalid_argument,
                 "id range: its length " + std::to_string(length) + " is larger than 64"};
  }
  const bus_id canonical = prefix.value() & ~host_bits(length);
  if (prefix != canonical) {
    return error{errc::invalid_argument, "id range " + id_range{prefix, length}.to_string() +
                                             ": bits below the first " + std::to_string(length) +
                                             " are set; did you mean " +
                                             id_range{canonical, length}.to_string() + "?"};
  }
  return id_range{prefix, length};
}

result<id_range> id_range::parse(std::string_view text, const bus_id_layout& layout) {
  const auto slash = text.find('/');
  if (slash == text.npos) {
    return at_fault(text, "no '/length' at the end, as in 0x12340000/48");
  }
  const auto prefix = bus_id::parse(text.substr(0, slash), layout);
  if (!prefix)
    return at_fault(text, "prefix: " + prefix.error().text());
  const auto length = detail::parse_number(text.substr(slash + 1), length_max);
  if (!length)
    return at_fault(text, "length: " + length.error().text());
  return make(*prefix, static_cast<unsigned>(*length));
}

std::string id_range::to_string() const {
  return prefix_.to_hex() + '/' + std::to_string(length_);
}

}  // namespace atbus
