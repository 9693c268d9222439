#include "atbus/detail/send_queue.hpp"

#include <algorithm>

namespace atbus {

void send_queue::mark_written(std::size_t bytes) noexcept {
  assert(bytes <= unwritten() && "more written than was committed");
  written_ += std::min(bytes, unwritten());
}

}  // namespace atbus
