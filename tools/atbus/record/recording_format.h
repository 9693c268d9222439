// What pcap says of a recording: doc/design/record.md.
#pragma once

#include <pcap/dlt.h>

#include <cstddef>

namespace atbus::tool {

inline constexpr int recording_link_type = DLT_USER0;
// Bytes. More makes no packet for libpcap.
inline constexpr std::size_t recording_packet_max = 262'144;
inline constexpr std::size_t recording_file_head_size = 24;
inline constexpr std::size_t recording_packet_head_size = 16;

}  // namespace atbus::tool
