// One transport over all channels of a node: sockets and lanes, by the kind of the address.
#pragma once

#include <memory>

#include "node/link/lane_transport.h"
#include "node/link/stream_transport.h"
#include "system/guarded_file.h"

namespace atbus::detail {

struct channels_options {
  stream_transport_options streams = {};
  lane_transport_options lanes = {};
};

class channels final : public transport {
 public:
  explicit channels(const channels_options& options = {});

  void start(const node_instance& self, link_events& events) override;
  result<std::string> listen(const address& at) override;
  [[nodiscard]] std::uint64_t message_limit() const noexcept override {
    return lanes_.message_limit();  // the two ends of a socket agree on theirs
  }
  result<link*> connect(const address& to) override;
  void close() noexcept override;
  std::size_t poll(const poll_limits& limits) override;
  void end_poll() noexcept override;
  void flush() noexcept override {
    streams_.flush();
    lanes_.flush();
  }
  void flush_due() noexcept override {
    streams_.flush_due();
    lanes_.flush();
  }
  [[nodiscard]] int descriptor() const noexcept override { return epoll_.get(); }
  bool prepare_sleep() override;
  void finish_sleep() override;
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept override;
  int watch_descriptor(int descriptor) override;
  void unwatch_descriptor(int descriptor) noexcept override;
  [[nodiscard]] std::uint64_t tls_failed() const noexcept override { return streams_.tls_failed(); }
  [[nodiscard]] stranger_stats strangers() const noexcept override { return streams_.strangers(); }
  [[nodiscard]] bool has_lanes() const noexcept override { return lanes_.has_lanes(); }
  [[nodiscard]] bool has_messages() noexcept override { return lanes_.has_messages(); }

 private:
  [[nodiscard]] transport& part_for(const address& at) noexcept;

  lane_transport lanes_;
  stream_transport streams_;
  guarded_file epoll_;     // watches both
  int epoll_failure_ = 0;  // errno
  bool lanes_first_ = false;
  bool polling_ = false;
  bool poll_ends_ = false;
};

}  // namespace atbus::detail
