// What a receiver makes of what arrives: checks each byte, counts losses, and keeps how much came in
// each tenth of a second and how late.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "atbus/bench/clock.h"
#include "atbus/bench/histogram.h"
#include "atbus/bench/ledger.h"
#include "atbus/bench/message.h"
#include "harness/options.h"

namespace atbus::compare {

inline constexpr std::int64_t slice_ns = 100'000'000;
// How often anybody looks at the clock: it costs as much as a small message.
inline constexpr std::uint64_t look_messages = 64;
inline constexpr std::uint64_t look_bytes = 64 * 1024;

// The last message of a sender says how many there were. Their order holds for it too.
inline constexpr std::size_t marker_bytes = 16;
constexpr std::uint64_t marker_word(std::uint64_t sender) noexcept {
  return bench::first_word(sender, bench::number_mask);
}

// The second word of a paced message is the time at which it was to be sent.
inline constexpr std::size_t paced_header_bytes = 16;

class account {
 public:
  explicit account(const options& run);

  void take(std::span<const std::byte> message) {
    if (is_marker(message)) [[unlikely]] {
      take_marker(message);
      return;
    }
    if (!paced_) {
      ledger_.take<bench::check_kind::full>(message);
    } else {
      take_paced(message);
    }
    bytes_since_ += message.size();
    if (++messages_since_ >= look_messages || bytes_since_ >= look_bytes) {
      look();
    }
  }

  // Nothing has come for a moment.
  void rest();

  bool complete() const noexcept { return markers_ == sent_.size(); }
  // Messages and markers so far.
  std::uint64_t arrived() const noexcept { return ledger_.messages() + markers_; }
  // 0: nothing has come yet. As exact as the clock is looked at.
  std::int64_t first_ns() const noexcept { return first_ns_; }
  std::int64_t last_ns() const noexcept { return last_ns_; }
  std::int64_t cpu_ns() const noexcept { return cpu_ns_; }
  bench::verdict close() const noexcept;
  const std::vector<std::uint64_t>& slices() const noexcept { return slices_; }
  const std::vector<std::uint64_t>& slice_bytes() const noexcept { return slice_bytes_; }
  const bench::histogram& latency() const noexcept { return latency_; }
  const std::vector<std::uint64_t>& latency_max() const noexcept { return latency_max_; }

 private:
  static bool is_marker(std::span<const std::byte> message) noexcept {
    return message.size() == marker_bytes &&
           (bench::load_word(message.data()) & bench::number_mask) == bench::number_mask;
  }
  void take_marker(std::span<const std::byte> message);
  void take_paced(std::span<const std::byte> message);
  void look();
  void book(std::int64_t now_ns);

  bench::ledger ledger_;
  bool paced_;
  std::int64_t pause_after_ns_;
  std::int64_t pause_for_ns_;
  std::vector<std::uint64_t> sent_;  // by sender, as its marker says
  std::vector<bool> marked_;
  std::size_t markers_ = 0;
  std::uint64_t paced_corrupt_ = 0;
  // The first message is looked at, for its time.
  std::uint64_t messages_since_ = look_messages - 1;
  std::uint64_t bytes_since_ = 0;
  std::uint64_t messages_booked_ = 0;
  std::uint64_t bytes_booked_ = 0;
  std::int64_t first_ns_ = 0;
  std::int64_t last_ns_ = 0;
  std::int64_t cpu_start_ns_ = 0;
  std::int64_t cpu_ns_ = 0;  // of this process from the first message to the last
  std::vector<std::uint64_t> slices_;
  std::vector<std::uint64_t> slice_bytes_;
  bench::histogram latency_;
  std::vector<std::uint64_t> latency_max_;  // by sender
};

}  // namespace atbus::compare
