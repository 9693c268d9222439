// That the access rules refuse a message of a flow: what is said of it to its sender.
#pragma once

#include <cstdint>

namespace atbus::detail {

struct refused_word {
  std::uint64_t number = 0;
  std::uint64_t handled = 0;       // session::handled, with it,
  std::uint64_t registration = 0;  // of the session that has brought it
  std::uint32_t type = 0;
  bool redelivered = false;
};

}  // namespace atbus::detail
