#include "channel/shm/segment_check.h"

#include <cstring>
#include <string>

namespace atbus::detail {
namespace {

// What to do about a header that makes no sense.
error bad_geometry(const segment_name& name, const std::string& what) {
  return {errc::geometry_mismatch, name.text() + ": " + what +
                                       "; it was damaged or made by an incompatible build; "
                                       "`atbus shm clean --force " +
                                       name.name + "` removes it"};
}

error geometry_error(const segment_name& name, const char* field, std::uint64_t found,
                     std::uint64_t expected) {
  return bad_geometry(name, std::string{field} + " is " + std::to_string(found) + ", expected " +
                                std::to_string(expected));
}

// The first four fields decide whether the rest means anything.
error check_format(const segment_name& name, const segment_identity& id) {
  if (std::memcmp(id.magic, segment_magic, sizeof segment_magic) != 0) {
    return {errc::not_a_segment, name.text() + ": the file is no atbus segment: it begins with '" +
                                     printable(id.magic, sizeof id.magic) + "', not with '" +
                                     printable(segment_magic, sizeof segment_magic) + "'"};
  }
  if (id.version != layout_version) {
    return {errc::version_mismatch, name.text() + ": its layout has version " +
                                        std::to_string(id.version) + ", this program speaks " +
                                        std::to_string(layout_version) +
                                        "; run both sides with the same atbus, or remove what an "
                                        "old one left with `atbus shm clean --force " +
                                        name.name + "`"};
  }
  if (id.header_size != sizeof(segment_header)) {
    return geometry_error(name, "header size", id.header_size, sizeof(segment_header));
  }
  if (id.slot_size != sizeof(lane_slot)) {
    return geometry_error(name, "lane table entry size", id.slot_size, sizeof(lane_slot));
  }
  return {};
}

}  // namespace

result<segment_geometry> check_geometry(const segment_name& name, const segment_identity& id,
                                        std::uint64_t file_size) {
  if (auto e = check_format(name, id); !e)
    return e;
  const segment_geometry g{id.lane_count, id.lane_size, id.message_limit};
  if (g.lane_count == 0 || g.lane_count > max_lanes) {
    return bad_geometry(name, "it claims " + std::to_string(g.lane_count) + " lanes, where 1 to " +
                                  std::to_string(max_lanes) + " are possible");
  }
  if (g.lane_size < min_lane_size || g.lane_size > max_lane_size ||
      (g.lane_size & (g.lane_size - 1)) != 0) {
    return bad_geometry(name, "it claims lanes of " + std::to_string(g.lane_size) +
                                  " bytes, where a power of two from " +
                                  std::to_string(min_lane_size) + " to " +
                                  std::to_string(max_lane_size) + " is possible");
  }
  if (g.message_limit == 0 || g.message_limit > max_message_limit ||
      g.lane_size < 2 * (g.message_limit + record_header_size)) {
    return bad_geometry(name, "it claims messages of up to " + std::to_string(g.message_limit) +
                                  " bytes in lanes of " + std::to_string(g.lane_size) +
                                  " bytes, which do not fit twice");
  }
  if (id.table_offset != g.table_offset()) {
    return geometry_error(name, "lane table offset", id.table_offset, g.table_offset());
  }
  if (id.lanes_offset != g.lanes_offset()) {
    return geometry_error(name, "offset of the lanes", id.lanes_offset, g.lanes_offset());
  }
  if (id.file_size != g.file_size())
    return geometry_error(name, "file size in the header", id.file_size, g.file_size());
  if (file_size != g.file_size())
    return geometry_error(name, "size of the file", file_size, g.file_size());
  return g;
}

}  // namespace atbus::detail
