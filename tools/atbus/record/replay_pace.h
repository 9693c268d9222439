// When each message of a replay is due.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace atbus::tool {

class replay_pace {
 public:
  // "original"; "x2": twice as fast; "1000/s" or "1000": so many a second; "0": as fast as possible.
  // Nothing: the text is none of these.
  [[nodiscard]] static std::optional<replay_pace> parse(const std::string& text);

  // Whether messages are due at some time at all.
  [[nodiscard]] bool is_paced() const noexcept { return kind_ != rate_kind::none; }
  // The number counts from 0. `recorded` is the time in the recording. The result counts from the begin of the
  // replay, and never goes back.
  [[nodiscard]] std::chrono::nanoseconds due(std::uint64_t number,
                                             std::chrono::nanoseconds recorded) noexcept;

 private:
  enum class rate_kind : std::uint8_t { recorded, fixed, none };
  replay_pace(rate_kind kind, double rate) noexcept : kind_(kind), rate_(rate) {}

  rate_kind kind_;
  double rate_;  // times as fast; or messages per second
  std::optional<std::chrono::nanoseconds> first_;
  std::chrono::nanoseconds last_{0};
};

}  // namespace atbus::tool
