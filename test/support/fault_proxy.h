// A network that misbehaves on demand: a proxy between a client and a server that run on this host.
//
//   fault_proxy proxy{inbox.address()};          // "ipv4://127.0.0.1:40123"
//   auto out = sender::open(proxy.address());
//   proxy.set(direction::to_server, {.piece = 3});
//   proxy.set(direction::to_server, {.stall_at = 1000});
//   ASSERT_TRUE(proxy.wait([](const proxy_counts& c) { return c.to_server.passed == 1000; }));
//   proxy.set(direction::to_server, {});          // lets go
//
// It has a thread of its own and uses nothing of the library. All functions are for the thread that
// made it; it may be destroyed at any moment and then closes everything. Each connection holds at
// most 256 KiB per direction: a proxy that holds back stops reading, as a network does.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "shared_memory.h"

namespace atbus::test {

enum class direction { to_server, to_client };

// What happens to the bytes of one direction. Everything set applies together; nothing set passes
// bytes as they come. Positions count the bytes of a connection in this direction from 0; one that
// is already behind is acted on at once (except corrupt_at, which then does nothing).
struct fault_plan {
  std::chrono::nanoseconds delay{0};          // between arriving here and leaving
  std::size_t piece = 0;                      // most bytes of one send; 0: all there are
  std::chrono::nanoseconds pause{0};          // between two sends
  std::optional<std::uint64_t> stall_at{};    // holds this byte and all behind it
  std::optional<std::uint64_t> corrupt_at{};  // flips bit `corrupt_bit` of this byte
  unsigned corrupt_bit = 0;
  // Ends the connection in front of this byte, both ways: with end-of-file, or with a reset
  // (of a Unix socket, which knows none, a close). What the other direction holds is dropped.
  std::optional<std::uint64_t> cut_at{};
  std::optional<std::uint64_t> reset_at{};
  bool discard = false;  // reads and drops everything; does not end the connection
};

struct proxy_counts {
  struct one_way {
    std::uint64_t arrived = 0;  // bytes read here
    std::uint64_t passed = 0;   // bytes handed on
    std::uint64_t dropped = 0;  // bytes that will never be handed on
    std::uint64_t sends = 0;    // system calls that handed some on
    bool operator==(const one_way&) const = default;
  };
  one_way to_server;
  one_way to_client;
  std::uint64_t accepted = 0;     // connections of clients so far
  std::uint64_t unreachable = 0;  // of these, the server refused
  std::uint64_t open = 0;         // right now
  bool operator==(const proxy_counts&) const = default;
};

class fault_proxy {
 public:
  // Leads to `target` from `listen_at`: "ipv4://a.b.c.d:port", "ipv6://::1:port" (port 0: a free
  // one), "unix:///path" or "unix://@name". Without `listen_at`, a free port of the target's
  // loopback address, or for a Unix socket an abstract name. Throws std::system_error or
  // std::invalid_argument. The server need not be there yet.
  explicit fault_proxy(std::string_view target, std::string_view listen_at = {});
  fault_proxy(const fault_proxy&) = delete;
  fault_proxy& operator=(const fault_proxy&) = delete;
  ~fault_proxy();

  // Where clients connect.
  [[nodiscard]] const std::string& address() const noexcept;

  // From now on, for connections of now and of later.
  void set(direction way, const fault_plan& plan);
  void set(const fault_plan& plan);  // both ways

  // At once, for the connections of now.
  void cut();
  void reset();

  // Connecting is answered as if nobody listened, until `accept`. Connections of now stay.
  void refuse();
  void accept();

  // Of all connections so far.
  [[nodiscard]] proxy_counts counts() const;
  // True once `done` holds of the counts; false when the time is up.
  [[nodiscard]] bool wait(const std::function<bool(const proxy_counts&)>& done,
                          std::chrono::nanoseconds longest = patience) const;

 private:
  class engine;
  std::unique_ptr<engine> engine_;
};

}  // namespace atbus::test
