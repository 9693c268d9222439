// What the kernel's sockets allow on this machine, measured by code that shares nothing with the
// channels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/bench/limit.h"
#include "atbus/bench/workload.h"

namespace atbus::bench {

enum class socket_kind : std::uint8_t { ipv6, ipv4, local };

inline constexpr std::array all_socket_kinds{socket_kind::ipv6, socket_kind::ipv4,
                                             socket_kind::local};

// As --address has it: "ipv6://::1", "ipv4://127.0.0.1", "unix".
const char* address_of(socket_kind kind) noexcept;
// The kind that a channel's address is of, if it is of one.
std::optional<socket_kind> kind_of(std::string_view address) noexcept;
// Whether the two ends of such a channel agree on lanes of shared memory, if they can.
bool moves_to_lanes(std::string_view address);

// What the two sides do besides reading and writing.
struct socket_shape {
  std::uint64_t buffer_bytes = std::uint64_t{4} << 20;  // asked of the kernel; 0: its own choice
  std::uint32_t write_bytes = 256 << 10;
  std::uint32_t read_bytes = 512 << 10;
  std::int64_t spin_ns = 50'000;  // how long the reader looks again before it sleeps
};

// As the kernel says: for Linux twice what was asked, because it counts its own use too.
struct socket_buffers {
  std::uint64_t send_bytes = 0;
  std::uint64_t receive_bytes = 0;
};

nlohmann::json json_of(const socket_buffers& buffers);
nlohmann::json json_of(socket_kind kind, const socket_shape& shape, const socket_buffers& buffers);

// The two ends of a connection within this process. Workers inherit them.
class connected_pair {
 public:
  // Throws std::runtime_error that names the address and what the system said.
  connected_pair(socket_kind kind, std::uint64_t buffer_bytes);
  ~connected_pair();
  connected_pair(const connected_pair&) = delete;
  connected_pair& operator=(const connected_pair&) = delete;

  std::array<int, 2> descriptors() const noexcept { return ends_; }
  // The one that sends is the second.
  socket_buffers buffers() const noexcept;

 private:
  std::array<int, 2> ends_{-1, -1};
};

// A sentence if this machine has no such sockets; empty if it has.
std::string unavailable(socket_kind kind);

// Bytes without meaning, in writes of the shape's size. `granted` becomes the kernel's buffers.
run_outcome run_socket(const workload& work, socket_kind kind, const socket_shape& shape,
                       const std::vector<int>& cpus, socket_buffers& granted);

// One message of the work's (longest) length there and back; with work.sleep each side sleeps until
// it comes, else it looks again and again.
run_outcome run_socket_round_trip(const workload& work, socket_kind kind,
                                  const std::vector<int>& cpus);

// Framed messages of the work's lengths, check, api and checksum over one connection: the yardstick
// of the stream channels.
class socket_limit final : public yardstick {
 public:
  socket_limit(socket_kind kind, const socket_shape& shape) noexcept : kind_{kind}, shape_{shape} {}

  void measure(const workload& work, const std::vector<int>& cpus) override;
  std::unique_ptr<yardstick> of_rounds(const std::vector<std::size_t>& rounds) const override;
  const run_series& best() const override { return series_; }
  std::string name() const override;

  socket_kind kind() const noexcept { return kind_; }
  const socket_shape& shape() const noexcept { return shape_; }
  // Meaningful after the first measure().
  const socket_buffers& buffers() const noexcept { return buffers_; }

 private:
  socket_kind kind_;
  socket_shape shape_;
  run_series series_;
  socket_buffers buffers_;
};

}  // namespace atbus::bench
