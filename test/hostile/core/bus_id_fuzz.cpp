// Whatever text it is: bus ids, layouts and ranges are parsed without a crash; what is accepted is
// read back equal from each form it can be written in, and a refusal has a printable reason.
//
// Input: a layout and the text to read as an id and as a range, separated by a line feed; without
// one, all is text and the layout is the default.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "atbus/bus_id.hpp"
#include "atbus/id_range.hpp"
#include "core/text.h"

namespace {

using atbus::bus_id;
using atbus::bus_id_layout;
using atbus::id_range;

void require(bool held) {
  if (!held)
    std::abort();  // how libFuzzer learns of a broken promise
}

template <class T>
bool accepted(const atbus::result<T>& parsed) {
  if (parsed)
    return true;
  require(parsed.error() == atbus::errc::invalid_argument);
  require(std::ranges::all_of(parsed.error().text(), atbus::detail::is_printable));
  return false;
}

bus_id_layout check_layout(std::string_view text) {
  const auto layout = bus_id_layout::parse(text);
  if (!accepted(layout))
    return {};
  require(*bus_id_layout::parse(layout->to_string()) == *layout);
  return *layout;
}

void check_id(std::string_view text, const bus_id_layout& layout) {
  const auto id = bus_id::parse(text, layout);
  if (!accepted(id))
    return;
  require(*bus_id::parse(id->to_string(), layout) == *id);
  require(*bus_id::parse(id->to_hex(), layout) == *id);
  require(*bus_id::parse(id->to_dotted(layout), layout) == *id);
}

void check_range(std::string_view text, const bus_id_layout& layout) {
  const auto range = id_range::parse(text, layout);
  if (!accepted(range))
    return;
  require(*id_range::parse(range->to_string(), layout) == *range);
  require(range->contains(range->first()) && range->contains(range->last()));
  require(range->first() == 0 || !range->contains(range->first().value() - 1));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text{reinterpret_cast<const char*>(data), size};
  bus_id_layout layout;
  if (text.find('\n') != text.npos)
    layout = check_layout(atbus::detail::take_part(text, '\n'));
  check_id(text, layout);
  check_range(text, layout);
  return 0;
}
