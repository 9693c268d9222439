#include "channel/shm/channel_address.h"

#include <algorithm>
#include <bit>

#include "atbus/build_settings.hpp"
#include "core/address_kinds.h"

namespace atbus::detail {
namespace {

constexpr std::uint64_t default_lanes = 64;
// A little less than most L2 caches and more than enough for bursts: the fastest size on the measured
// machines.
constexpr std::uint64_t default_lane_size = std::uint64_t{1} << 20;

error bad_number(const segment_name& name, const char* what, std::uint64_t value,
                 std::uint64_t least, std::uint64_t most) {
  return {errc::invalid_argument, name.text() + ": " + what + " is " + std::to_string(value) +
                                      "; " + std::to_string(least) + " to " + std::to_string(most) +
                                      " is possible"};
}

}  // namespace

result<segment_address> to_segment_address(const address& where, const std::string& directory) {
  if (where.name().empty()) {
    return error{errc::invalid_name,
                 where.to_string() + ": the name is missing, as in shm://zone-1"};
  }
  if (where.flag(address_option::durable).value_or(false)) {
    return error{errc::not_supported,
                 where.to_string() + ": durable channels are not in this version; leave it out"};
  }
  segment_address wanted;
  wanted.name.in_process = where.kind() == address_kind::mem;
  wanted.name.name = where.name();
  wanted.name.directory = directory;
  wanted.lanes = where.option(address_option::lanes).value_or(0);
  wanted.lane_size = where.option(address_option::lane_size).value_or(0);
  wanted.message_limit = where.option(address_option::message_limit).value_or(0);
  wanted.prefault = where.flag(address_option::prefault).value_or(false);
  return wanted;
}

result<segment_address> parse_segment_address(std::string_view text, const std::string& directory) {
  const auto where = address::parse(text);
  if (!where)
    return where.error();
  if (is_stream(where->kind())) {
    return error{errc::not_supported, std::string{text} + ": channels of kind " +
                                          std::string{name(where->kind())} +
                                          ":// have no segment; only shm:// and mem:// do"};
  }
  return to_segment_address(*where, directory);
}

result<segment_geometry> choose_geometry(const segment_address& wanted) {
  segment_geometry g;
  const std::uint64_t lanes = wanted.lanes != 0 ? wanted.lanes : default_lanes;
  if (lanes > max_lanes)
    return bad_number(wanted.name, "the number of lanes", lanes, 1, max_lanes);
  g.lane_count = static_cast<std::uint32_t>(lanes);
  g.message_limit =
      wanted.message_limit != 0 ? wanted.message_limit : build_settings::message_limit;
  if (g.message_limit > max_message_limit) {
    return bad_number(wanted.name, "message_limit", g.message_limit, 1, max_message_limit);
  }
  const std::uint64_t least = std::bit_ceil(2 * (g.message_limit + record_header_size));
  const std::uint64_t size =
      wanted.lane_size != 0 ? wanted.lane_size : std::max(default_lane_size, least);
  if (size > max_lane_size || size < min_lane_size) {
    return bad_number(wanted.name, "lane_size", size, min_lane_size, max_lane_size);
  }
  g.lane_size = std::bit_ceil(size);
  if (g.lane_size < least) {
    return error{errc::invalid_argument,
                 wanted.name.text() + ": lanes of " + std::to_string(g.lane_size) +
                     " bytes are too small for messages of up to " +
                     std::to_string(g.message_limit) + " bytes; lane_size must be at least " +
                     std::to_string(least)};
  }
  return g;
}

error compare_geometry(const segment& existing, const segment_address& wanted) {
  const auto differs = [&](const char* what, std::uint64_t has, std::uint64_t asked) {
    return error{errc::geometry_mismatch, existing.name.text() + ": the existing segment has " +
                                              what + " " + std::to_string(has) +
                                              ", asked for was " + std::to_string(asked) +
                                              "; remove it first (receiver::remove, `atbus shm "
                                              "clean`), or ask for what it has"};
  };
  const segment_geometry& g = existing.geometry;
  if (wanted.lanes != 0 && wanted.lanes != g.lane_count)
    return differs("lanes =", g.lane_count, wanted.lanes);
  if (wanted.message_limit != 0 && wanted.message_limit != g.message_limit) {
    return differs("message_limit =", g.message_limit, wanted.message_limit);
  }
  if (wanted.lane_size > max_lane_size)
    return differs("lane_size =", g.lane_size, wanted.lane_size);
  if (wanted.lane_size != 0 && std::bit_ceil(wanted.lane_size) != g.lane_size) {
    return differs("lane_size =", g.lane_size, wanted.lane_size);
  }
  return {};
}

}  // namespace atbus::detail
