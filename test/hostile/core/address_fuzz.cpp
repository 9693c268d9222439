// Whatever text it is: parse() does not crash, what it accepts is written back to text that reads
// as an equal address and is already canonical, and what it refuses is refused with one of two
// codes and a printable reason.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "atbus/address.hpp"
#include "core/text.h"

namespace {

void require(bool held) {
  if (!held)
    std::abort();  // how libFuzzer learns of a broken promise
}

void check_accepted(const atbus::address& first) {
  const std::string canonical = first.to_string();
  const auto second = atbus::address::parse(canonical);
  require(static_cast<bool>(second));
  require(*second == first);
  require(second->to_string() == canonical);
  require(canonical.size() <= atbus::address_length_max);
}

void check_refused(const atbus::error& problem) {
  require(problem == atbus::errc::invalid_address || problem == atbus::errc::invalid_name);
  require(!problem.text().empty());
  require(std::ranges::all_of(problem.text(), atbus::detail::is_printable));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto parsed = atbus::address::parse(text);
  if (parsed) {
    check_accepted(*parsed);
  } else {
    check_refused(parsed.error());
  }
  return 0;
}
