// Links through sockets: ipv4://, ipv6://, dns:// and unix://, over a connection_set. Where both ends of
// a unix:// one have lanes, those carry the link from its opening on, and the connection ends.
//
// A link's queue holds what was committed until the other end has handled it. Data leaves a part of
// it free, so that acknowledgements find room in a queue that data has filled: else two nodes that
// fill each other's queues would wait for each other for ever.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atbus/channel_options.hpp"
#include "atbus/connection.hpp"
#include "node/link/link.h"

namespace atbus::detail {

class connection_link;
class lane_transport;

struct stream_transport_options {
  // Its `tls` encrypts TCP links, except for an address with tls=false.
  socket_options socket = {};
  // Why `socket` has no `tls` though it should; then no TCP link can be made.
  error no_tls = {};
  // The longest message of a link in bytes, with whatever the node puts before the user's.
  // 0: ATBUS_MACRO_MSG_LIMIT + 8.
  std::uint64_t message_limit = 0;
  // Of each link, as in sender_options; what control messages may use comes on top.
  send_buffer_kind buffer = send_buffer_kind::growing;
  std::uint64_t send_buffer_size = 0;
  std::uint64_t send_buffer_number = 0;
  // Bytes of the queue that data never fills.
  std::uint64_t control_reserve = 16 * 1024;
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
  // As in connection_set_options.
  std::chrono::nanoseconds write_delay{0};
  // How long a link may be open before link::confirm. 0: for ever.
  std::chrono::nanoseconds confirm_timeout = build_settings::connection_confirm_timeout;
  // As in listen_options. A thousand nodes may dial at the same moment.
  int backlog = std::max(build_settings::connection_backlog, 1024);
  std::uint32_t connections = 4096;
  std::uint32_t unconfirmed = 1024;
  stranger_limits strangers = {};
};

class stream_transport final : public transport {
 public:
  // `lanes`: for Unix connections whose other end has some too. Outlives this; polled by its owner.
  explicit stream_transport(const stream_transport_options& options = {},
                            lane_transport* lanes = nullptr);
  ~stream_transport() override;

  void start(const node_instance& self, link_events& events) override;
  result<std::string> listen(const address& at) override;
  result<link*> connect(const address& to) override;
  void close() noexcept override;
  std::size_t poll(const poll_limits& limits) override;
  void end_poll() noexcept override;
  void flush() noexcept override;
  void flush_due() noexcept override;
  [[nodiscard]] int descriptor() const noexcept override;
  bool prepare_sleep() override;
  void finish_sleep() override;
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept override;
  [[nodiscard]] std::uint64_t tls_failed() const noexcept override { return stats().tls_failed; }
  [[nodiscard]] stranger_stats strangers() const noexcept override { return stats().strangers; }

 private:
  friend class connection_link;

  [[nodiscard]] channel_stats stats() const noexcept;
  [[nodiscard]] error check(const address& at) const;
  connection_link& add(connection at);
  void remove(connection_link& gone) noexcept;
  void tell_opened(connection at);
  void tell_closed(connection at, const error& why);
  void tell_writable();

  // Lanes that a connection has opened take its place.
  void take_over(connection at);

  stream_transport_options options_;
  std::optional<channel_stats> stats_at_close_;
  lane_transport* lanes_;
  connection_options of_links_;
  std::uint64_t data_limit_ = 0;  // bytes of a link's queue that data may fill
  link_events* events_ = nullptr;
  error unusable_{errc::closed, "the transport has not been started"};
  std::vector<std::unique_ptr<connection_link>> links_;
  std::vector<connection_link*> roomy_;  // to be told that there is room; has some for all links
  std::optional<connection_set> set_;
};

}  // namespace atbus::detail
