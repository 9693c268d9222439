// Checks the header of a segment's file before anything else of the file is used.
#pragma once

#include <cstdint>

#include "atbus/status.hpp"
#include "channel/shm/segment.h"
#include "channel/shm/segment_layout.h"

namespace atbus::detail {

// The geometry of a file of this size with this header. Errors: not_a_segment, version_mismatch,
// geometry_mismatch; their texts tell what was found, what was expected, and what to do.
[[nodiscard]] result<segment_geometry> check_geometry(const segment_name& name,
                                                      const segment_identity& id,
                                                      std::uint64_t file_size);

}  // namespace atbus::detail
