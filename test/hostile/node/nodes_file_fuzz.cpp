// Whatever is in it: a nodes file is read without a crash, within its limits, and a refusal says in
// printable words in which line.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "atbus/core/address.hpp"
#include "core/text.h"
#include "node/nodes_file.h"

namespace {

void require(bool held) {
  if (!held)
    std::abort();  // how libFuzzer learns of a broken promise
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace atbus::detail;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto read = read_nodes_file(text, "f");
  if (!read) {
    const std::string& why = read.error().text();
    require(read.error() == atbus::errc::invalid_argument);
    require(why.starts_with("f:") && std::ranges::all_of(why, is_printable));
    return 0;
  }
  for (const auto& [id, addresses] : *read) {
    require(id != 0 && !addresses.empty() && addresses.size() <= nodes_file_addresses_max);
    for (const std::string& one : addresses)
      require(static_cast<bool>(atbus::address::parse(one)));
  }
  return 0;
}
