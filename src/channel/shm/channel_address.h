// Translates the text of an address into the name of a segment and the geometry it asks for.
#pragma once

#include <string>
#include <string_view>

#include "atbus/address.hpp"
#include "atbus/channel_options.hpp"
#include "channel/shm/segment.h"

namespace atbus::detail {

// Added to an error when the kernel refuses a lock.
inline constexpr const char* lock_hint =
    "; its file system must have open-file-description locks, as a tmpfs has since Linux 3.15";

struct segment_address {
  segment_name name;
  // 0: neither the address nor the options set it.
  std::uint64_t lanes = 0;
  std::uint64_t lane_size = 0;
  std::uint64_t message_limit = 0;
  bool prefault = false;
};

// Accepts mem and shm addresses.
[[nodiscard]] result<segment_address> to_segment_address(const address& where,
                                                         const std::string& directory);
// As above, from text; not_supported for other kinds.
[[nodiscard]] result<segment_address> parse_segment_address(std::string_view text,
                                                            const std::string& directory);

// The geometry for a new segment; errors name the number at fault.
[[nodiscard]] result<segment_geometry> choose_geometry(const segment_address& wanted);
// Compares an existing segment with the numbers that were asked for. A number that is 0 matches any.
[[nodiscard]] error compare_geometry(const segment& existing, const segment_address& wanted);

}  // namespace atbus::detail
