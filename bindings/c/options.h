// The options of C as those of C++.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "atbus/atbus.h"
#include "atbus/channel_options.hpp"
#include "atbus/node_options.hpp"
#include "atbus/status.hpp"

namespace atbus::c_api {

// Programs of an older library have fewer members, those of a later one more: what this library does
// not know has to be 0.
template <class Options>
error copy_known(const Options* from, std::size_t smallest, Options& to) {
  if (from == nullptr)
    return {};
  const std::size_t size = from->size;
  if (size < smallest || size > 16 * sizeof(Options)) {
    return error{errc::invalid_argument,
                 "the size of the options is " + std::to_string(size) +
                     ": begin with the function whose name ends with options_init"};
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t at = sizeof(Options); at < size; ++at) {
    if (bytes[at] != 0)
      return error{errc::not_supported,
                   "the options have a value that this version of the library does not know"};
  }
  std::memcpy(&to, from, std::min(size, sizeof(Options)));
  return {};
}

// `from` may be null. Errors: invalid_argument (its size is none that any version has had).
result<node_options> to_node_options(const atbus_node_options* from);
result<receiver_options> to_receiver_options(const atbus_channel_options* from);
result<sender_options> to_sender_options(const atbus_channel_options* from);

}  // namespace atbus::c_api
