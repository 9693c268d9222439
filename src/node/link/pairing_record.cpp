#include "node/link/pairing_record.h"

#include <cstring>

#include "atbus/address.hpp"
#include "atbus/detail/frame.hpp"

namespace atbus::detail {
namespace {

constexpr std::size_t pairing_head_size = 24;
constexpr std::uint8_t version = 1;
constexpr std::uint8_t durable_flag = 1;
constexpr char magic[8] = {'a', 't', 'b', 'u', 's', 'P', 'R', '1'};

}  // namespace

std::vector<std::byte> to_bytes(const pairing_record& record) {
  std::vector<std::byte> bytes(pairing_head_size + record.address.size());
  bytes[0] = std::byte{0xff};
  bytes[1] = static_cast<std::byte>(record.kind);
  bytes[2] = std::byte{version};
  bytes[3] = std::byte{record.durable ? durable_flag : std::uint8_t{0}};
  store_little_endian(&bytes[4], static_cast<std::uint32_t>(record.address.size()));
  std::memcpy(&bytes[8], magic, sizeof magic);
  store_little_endian(&bytes[16], record.token);
  std::memcpy(bytes.data() + pairing_head_size, record.address.data(), record.address.size());
  return bytes;
}

std::optional<pairing_record> read_pairing_record(bytes_view message) {
  if (message.size() < pairing_head_size || !is_transports_own(message) ||
      message[2] != std::byte{version} || std::memcmp(&message[8], magic, sizeof magic) != 0)
    return std::nullopt;
  pairing_record record;
  record.kind = static_cast<pairing_kind>(message[1]);
  record.durable = message[3] == std::byte{durable_flag};
  record.token = load_little_endian<std::uint64_t>(&message[16]);
  record.address = as_text(message.subspan(pairing_head_size));
  const bool is_call = record.kind == pairing_kind::call;
  if ((!is_call && record.kind != pairing_kind::answer) ||
      (!record.durable && message[3] != std::byte{0}) || record.token == 0 ||
      record.address.size() != load_little_endian<std::uint32_t>(&message[4]) ||
      record.address.empty() == is_call || record.address.size() > address_length_max)
    return std::nullopt;
  return record;
}

}  // namespace atbus::detail
