// The output of msgpack-c.
#pragma once

#include <cstddef>

#include "atbus/bytes.hpp"

namespace atbus::detail {

struct byte_writer {
  byte_buffer& to;
  void write(const char* data, std::size_t size) {
    const bytes_view bytes = as_bytes({data, size});
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
};

}  // namespace atbus::detail
