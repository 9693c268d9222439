// Settings of long tests.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace atbus::test {

// A number, also with 0x in front of it.
inline std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

}  // namespace atbus::test
