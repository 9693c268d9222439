// Whatever a peer without the secret sends to a fresh server or client: no session is ever made of it, no
// plaintext is read, what waits to be sent stays bounded, and a failure says why in printable text.
//
// Input: a byte of choice, then what the peer sends.
//   bit 0: to a client, not to a server
//   bit 1: to a client that verifies certificates, if bit 0 is set
//   bits 2-7: most bytes of one read of the socket; 0: no limit
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "atbus/bytes.hpp"
#include "core/text.h"
#include "system/kernel.h"
#include "tls/tls_socket.h"

namespace {

using namespace atbus::detail;
using atbus::bytes_view;

void require(bool held) {
  if (!held)
    std::abort();  // how libFuzzer learns of a broken promise
}

// What the socket still has, and the most of one read.
bytes_view unread;
std::size_t read_max = 0;

ssize_t fuzzed_recv(int /*fd*/, void* data, std::size_t size, int /*flags*/) {
  const std::size_t n = std::min({size, unread.size(), read_max});
  std::memcpy(data, unread.data(), n);
  unread = unread.subspan(n);
  return static_cast<ssize_t>(n);
}
ssize_t fuzzed_send(int /*fd*/, const void* /*data*/, std::size_t size, int /*flags*/) {
  return static_cast<ssize_t>(size);
}

std::shared_ptr<const tls_context> with_secret() {
  const bytes_view secret = atbus::as_bytes("a secret that the fuzzer lacks");
  return tls_context::from_secrets({&secret, 1}).value();
}

// Trusts no CA: an unverified client would make a session with anybody.
std::shared_ptr<const tls_context> with_nothing() {
  tls_certificate_files none;
  none.verify_peer = false;
  none.require_peer_certificate = false;
  return tls_context::from_files(none).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto secret = with_secret();
  static const auto nothing = with_nothing();
  const bytes_view input{reinterpret_cast<const std::byte*>(data), size};
  const unsigned choice = size == 0 ? 0 : data[0];
  unread = input.subspan(size == 0 ? 0 : 1);
  read_max = choice >> 2U == 0 ? static_cast<std::size_t>(-1) : choice >> 2U;
  kernel().recv = fuzzed_recv;
  kernel().send = fuzzed_send;
  const bool is_client = (choice & 1U) != 0;
  static tls_buffers buffers;
  const auto end = tls_socket::make(is_client && (choice & 2U) != 0 ? nothing : secret, buffers,
                                    is_client ? tls_role::client : tls_role::server)
                       .value();
  (void)end->flush(0);
  std::array<std::byte, 256> place{};
  ssize_t n = -1;
  const std::size_t most = size / (choice >> 2U == 0 ? 1 : choice >> 2U) + 8;
  for (std::size_t i = 0; i != most; ++i) {
    n = end->read(0, place);
    require(n <= 0);
    require(!end->established());
    require(end->pending() <= tls_output_size);
    if (n == 0 || errno != EAGAIN)
      break;
  }
  if (n == 0) {
    require(end->truncated());
  } else {
    require(errno == EPROTO);
    require(!end->why());
    require(std::ranges::all_of(end->why().text(), is_printable));
  }
  return 0;
}
