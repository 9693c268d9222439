// Where a node puts copies of what it receives: a lane in a segment of the process that has asked for them.
//
// That process has made the segment, as the same user on the same host. One thread.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string_view>

#include "atbus/bytes.hpp"
#include "atbus/status.hpp"

namespace atbus::detail {

class tap_lane {
 public:
  tap_lane(const tap_lane&) = delete;
  tap_lane& operator=(const tap_lane&) = delete;
  virtual ~tap_lane() = default;

  // As sender::send. Never waits.
  virtual status send(std::initializer_list<bytes_view> pieces) noexcept = 0;
  // Whether the process that reads is alive. Asks the kernel.
  [[nodiscard]] virtual bool has_reader() const noexcept = 0;

 protected:
  tap_lane() = default;
};

// Opens one for copies of up to `longest` bytes. Only names that begin with tap_prefix: no command makes a
// node touch the inbox of another one. Errors: those of sender::open; invalid_argument (another name; a lane
// that is too large; copies that are too long for it).
using tap_opener = result<std::unique_ptr<tap_lane>> (*)(std::string_view address,
                                                         std::size_t longest);

inline constexpr std::string_view tap_prefix = "shm://atbus-tap-";
// Bytes of its lane at most: the node reserves them at once, and goes on with its work after that.
inline constexpr std::size_t tap_lane_size_max = std::size_t{128} << 20;

// On this machine.
[[nodiscard]] result<std::unique_ptr<tap_lane>> open_tap_lane(std::string_view address,
                                                              std::size_t longest);

}  // namespace atbus::detail
