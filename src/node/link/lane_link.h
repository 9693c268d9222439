// A link over a pair of lanes; lane_transport.h has the rules.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "atbus/sender.hpp"
#include "node/link/lane_transport.h"

namespace atbus::detail {

// What a lane's note says once its reader has made sure of its sender: who that is, and who the reader
// is, because its name may be another node's later.
[[nodiscard]] inline lane_note to_note(const node_instance& sender, bus_id reader) noexcept {
  return {sender.id.value(), sender.incarnation, reader.value()};
}
// 0: no reader.
[[nodiscard]] inline bus_id reader_of(const lane_note& note) noexcept {
  return bus_id{note[2]};
}
[[nodiscard]] inline std::optional<node_instance> to_instance(const lane_note& note,
                                                              bus_id reader) noexcept {
  if (reader == bus_id{} || reader_of(note) != reader)
    return std::nullopt;
  return node_instance{bus_id{note[0]}, note[1]};
}

class lane_link final : public link {
 public:
  lane_link(lane_transport& owner, lane_transport::inbox& own, std::string peer,
            std::size_t index) noexcept
      : owner_(owner), own_(own), peer_(std::move(peer)), index_(index) {}

  [[nodiscard]] std::byte* claim(std::size_t length, message_purpose purpose,
                                 status& why) noexcept override;
  [[nodiscard]] std::size_t share() const noexcept override;
  [[nodiscard]] std::size_t queued() const noexcept override;
  bool commit(std::size_t length) noexcept override;
  [[nodiscard]] bool has_claim() const noexcept override { return claimed_.has_value(); }
  void append(std::size_t length) noexcept override;
  void flush() noexcept override;
  [[nodiscard]] direct_place place() noexcept override {
    return {.lane = out_ ? out_->backend_ : nullptr};
  }
  [[nodiscard]] bool keeps() const noexcept override { return false; }
  void release(std::uint64_t) noexcept override {}
  [[nodiscard]] bool settled() const noexcept override { return !out_ || out_->settled(); }
  void take_unreleased(const std::function<void(bytes_view, errc)>& each) override;
  void pause() noexcept override;
  void resume() noexcept override;
  void close(std::chrono::nanoseconds linger) noexcept override;
  void abort() noexcept override;
  [[nodiscard]] link_kind kind() const noexcept override {
    const link_kind by_address = kind_of(own_.where.kind());
    return by_address == link_kind::unix_socket ? link_kind::lanes : by_address;
  }
  [[nodiscard]] link_trust trust() const noexcept override {
    return own_.where.kind() == address_kind::mem ? link_trust::same_process
                                                  : link_trust::same_user;
  }
  [[nodiscard]] link_origin origin() const override {
    return {.where = link_origin::place::host, .user = geteuid()};  // nobody else can open it
  }
  [[nodiscard]] std::string peer() const override { return peer_; }
  [[nodiscard]] std::uint64_t message_limit() const noexcept override {
    return out_ ? out_->message_limit() : 0;
  }
  void confirm(const node_instance& peer) noexcept override;
  void visit_unhandled(const std::function<void(bytes_view)>& each) const override;
  [[nodiscard]] bool has_successor() const noexcept override;
  [[nodiscard]] bool may_be_inherited() const noexcept override { return may_be_inherited_; }

 private:
  friend class lane_transport;

  enum class phase : std::uint8_t {
    calling,    // the answer to our call is awaited
    open,       // both lanes are there
    ending,     // its lane has ended, and it is not known yet whether its process has
    left,       // its process has ended, and its inbox waits for another one
    recalling,  // another process holds its inbox; the answer to our call is awaited
    closing,    // what was committed is being handled there
    closed,     // to be told, or just being told
  };

  [[nodiscard]] bool has_lane() const noexcept { return session_ != 0; }

  lane_transport& owner_;
  lane_transport::inbox& own_;  // where its lane is
  std::string peer_;            // where ours is
  std::size_t index_;           // in lane_transport::links_
  std::optional<sender> out_;
  std::optional<std::size_t> claimed_;  // bytes
  std::size_t unpublished_ = 0;         // bytes
  phase now_ = phase::calling;
  error why_;                  // of the end
  bool peer_durable_ = false;  // its inbox outlives its process
  bool orphaned_ = false;      // its process has ended, and its inbox will have no other holder
  bool call_due_ = false;      // there was no room for it
  bool left_due_ = false;      // to be told
  bool paused_ = false;
  bool may_be_inherited_ = false;
  std::uint32_t lane_ = 0;        // of the other end, in own_
  std::uint64_t session_ = 0;     // of that lane; 0: it has none
  std::uint64_t token_ = 0;       // of our call
  std::uint64_t generation_ = 0;  // of the receiver that the other end is
  std::chrono::nanoseconds look_again_at_{0};
  std::chrono::nanoseconds look_again_in_{0};
  std::chrono::nanoseconds phase_ends_at_{0};
};

}  // namespace atbus::detail
