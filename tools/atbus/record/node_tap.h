// The end of a tap that watches: it asks a node of this host for copies, and reads them.
//
// Errors are exceptions: std::runtime_error with the reason, for people. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "atbus/receiver.hpp"
#include "atbus/record/local_node.h"
#include "protocol/recording_entry.h"

namespace atbus::tool {

// Bytes.
inline constexpr std::uint64_t tap_buffer_default = std::uint64_t{16} << 20;
inline constexpr std::uint64_t tap_buffer_max = std::uint64_t{128} << 20;

struct tap_options : local_node_options {
  std::uint64_t buffer = tap_buffer_default;

  // As those of a local node, and `--buffer`.
  void add_to(CLI::App& command);
};

class node_tap {
 public:
  using entry_handler = std::function<void(
      std::chrono::nanoseconds at, const detail::recording_entry& entry, bytes_view payload)>;

  // Begins it.
  explicit node_tap(const tap_options& options);
  // Ends it, if it still runs.
  ~node_tap();
  node_tap(const node_tap&) = delete;
  node_tap& operator=(const node_tap&) = delete;

  [[nodiscard]] bus_id id() const noexcept { return id_; }
  // Hands over what has come, and waits at most 100 ms if that is nothing.
  void poll(const entry_handler& each);
  // Whether the node has ended the tap, or is gone.
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }
  // Ends it, and hands over what is left: what was lost last, and the end. Then nothing more comes.
  void end(const entry_handler& each);

 private:
  void open_segment(std::uint64_t message_limit, std::uint64_t buffer);
  void begin(const tap_options& options);
  void take(bytes_view copy, const entry_handler& each);
  void hand_over_end(const entry_handler& each, detail::recording_end why, std::uint64_t messages,
                     std::uint64_t lost);

  client_options node_;
  bus_id id_;
  std::string name_;
  std::optional<receiver> in_;
  bool ended_ = false;
  bool has_end_ = false;  // that entry has come
  std::uint64_t messages_ = 0;
  std::chrono::nanoseconds last_{0};
};

}  // namespace atbus::tool
