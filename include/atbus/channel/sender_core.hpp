// The sender's hot path: the part of `atbus::sender` that is inlined into user code. Programs
// include atbus/channel/sender.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "atbus/channel/lane.hpp"
#include "atbus/core/export.hpp"
#include "atbus/core/status.hpp"

namespace atbus::detail {

class ATBUS_API sender_core {
 public:
  sender_core(const sender_core&) = delete;
  sender_core& operator=(const sender_core&) = delete;

  // Begins a record with so many bytes of payload and says where they go; else null and why.
  [[nodiscard]] std::byte* claim(std::size_t length, status& why) noexcept {
    if (length > message_limit_) [[unlikely]] {
      why = status{errc::message_too_large, length, message_limit_};
      return nullptr;
    }
    const std::uint64_t size = record_size(length);
    if (!writer_.fits(size)) [[unlikely]] {
      why = make_room(size);
      if (!why)
        return nullptr;
    }
    return writer_.begin(record_kind::message, length);
  }

  // Of the `claimed` bytes, `length` are sent.
  void append(std::size_t claimed, std::size_t length) noexcept {
    if (length != claimed) [[unlikely]]
      writer_.begin(record_kind::message, length);
    writer_.append(length);
  }
  void publish() noexcept {
    if (writer_.publish()) [[unlikely]]
      answer_notice();
  }

 protected:
  sender_core() = default;
  ~sender_core() = default;

  // Cold paths, in src/channel/sender_state.cpp.
  [[nodiscard]] status make_room(std::uint64_t size) noexcept;
  void answer_notice() noexcept;

  lane_writer writer_;
  std::uint64_t message_limit_ = 0;
};

}  // namespace atbus::detail
