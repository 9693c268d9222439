// What a node can be told at its start. Each setter returns the options, so that they can be chained:
//
//   atbus::node node{7, atbus::node_options{}.token(secret).ping_interval(4s)};
//
// A time of nanoseconds::max() is for ever. Plain values; a node copies them. check() says what can't work; a node made of such options
// refuses every verb with the same error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/build_settings.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/policies.hpp"
#include "atbus/status.hpp"

struct uv_loop_s;  // uv_loop_t

namespace atbus {

class address;
class directory;

class node_options {
 public:
  // Channels carry 64 MiB, with what a node and a relay put in front of a message.
  static constexpr std::size_t message_limit_max = (std::size_t{64} << 20) - 1024;
  static constexpr std::size_t send_buffer_size_max = std::size_t{1} << 40;  // 1 TiB

  // Runs on this loop instead of one of its own: no run(), no poll(). The loop must outlive the node.
  node_options& loop(uv_loop_s* loop) {
    loop_ = loop;
    return *this;
  }
  // A secret of 16 to 1024 bytes that nodes prove to each other when they connect. More than one for
  // rotation: the first is the one proven, every one is accepted.
  node_options& token(std::string_view secret) {
    tokens_.emplace_back(secret);
    return *this;
  }
  // Links through TCP without a token, dialled and accepted. Off: only processes of the same user on
  // the same host need none.
  node_options& allow_unauthenticated(bool allow = true) {
    allow_unauthenticated_ = allow;
    return *this;
  }
  // Where this node's parent listens: it is dialled from the start, and again for ever. More addresses
  // are other ways to it, or to whoever takes its place. doc/nodes.md, "A tree of nodes".
  node_options& parent(std::string_view address) {
    parents_.emplace_back(address);
    return *this;
  }
  // The ids of the nodes below this one, such as "0x12340000/48": a prefix of 1 to 63 bits. A node
  // without it has no children.
  node_options& children(std::string_view range) {
    children_ = range;
    return *this;
  }
  // The longest message in payload bytes, both ways: 1 to message_limit_max. An address of this node
  // with a lower one (shm://name?message_limit=32K) lowers what all others may send it.
  node_options& message_limit(std::size_t bytes) {
    message_limit_ = bytes;
    return *this;
  }
  // How long a link may take until the other end has registered; and how long messages wait for a node
  // that was there and that nobody connect()s to.
  node_options& first_idle_timeout(std::chrono::nanoseconds time) {
    first_idle_timeout_ = time;
    return *this;
  }
  // How often the other end of a TCP link is asked whether it is there, and that of a way over other
  // nodes if nothing was heard of it.
  node_options& ping_interval(std::chrono::nanoseconds time) {
    ping_interval_ = time;
    return *this;
  }
  // How many pings in a row may stay unanswered before a TCP link counts as lost.
  node_options& fault_tolerance(unsigned pings) {
    fault_tolerance_ = pings;
    return *this;
  }
  // Before a peer is dialled again: `first`, then twice as long each time up to `longest`; each wait
  // is drawn from the upper half.
  node_options& retry(std::chrono::nanoseconds first, std::chrono::nanoseconds longest) {
    retry_first_ = first;
    retry_longest_ = longest;
    return *this;
  }
  // Bytes that wait for a peer: in its link's queue, and as many again in the node while there is no
  // link, or where messages have a deadline or may be dropped. More than send_buffer_size_max counts as
  // that. The longest message always fits.
  node_options& send_buffer_size(std::size_t bytes) {
    send_buffer_size_ = bytes < send_buffer_size_max ? bytes : send_buffer_size_max;
    return *this;
  }
  // Blocks (of build_settings::data_node_size bytes, 128) of the static queue of a socket link,
  // allocated once, send_buffer_size_max bytes at most; 0: allocated as needed.
  node_options& send_buffer_number(std::size_t blocks) {
    send_buffer_number_ = blocks;
    return *this;
  }
  node_options& overflow(overflow_policy policy) {
    overflow_ = policy;
    return *this;
  }
  node_options& restart(restart_policy policy) {
    restart_ = policy;
    return *this;
  }
  // How long a message may wait before a channel takes it; 0: for as long as it takes.
  node_options& message_deadline(std::chrono::nanoseconds time) {
    message_deadline_ = time;
    return *this;
  }
  // How many nodes that are away are remembered, so that they can go on where they were.
  node_options& sessions(std::size_t most) {
    sessions_ = most;
    return *this;
  }
  // How many visitors (see node) may be here at a time.
  node_options& visitors(std::size_t most) {
    visitors_ = most;
    return *this;
  }
  // How long run() goes on after stop() so that what was accepted is delivered; then it says timed_out.
  // 0: not at all.
  node_options& drain(std::chrono::nanoseconds longest) {
    drain_ = longest;
    return *this;
  }
  // Where nodes listen that nobody connect()s to: a file (doc/nodes.md), or a directory of yours, which
  // nodes of one thread may share. The last one set counts.
  node_options& directory(std::string file) {
    directory_file_ = std::move(file);
    directory_ = nullptr;
    return *this;
  }
  node_options& directory(std::shared_ptr<atbus::directory> of_yours) {
    directory_file_.clear();
    directory_ = std::move(of_yours);
    return *this;
  }

  // Overwrites the bytes of each token; how many there are stays known. For who keeps these options
  // when the node is made.
  ATBUS_API void wipe_tokens() noexcept;

  // invalid_argument, and which value it is.
  [[nodiscard]] ATBUS_API error check() const;
  // Whether links may go there: through TCP only with a token, or allow_unauthenticated.
  [[nodiscard]] ATBUS_API bool lets_through(const address& at) const noexcept;

  [[nodiscard]] uv_loop_s* loop() const noexcept { return loop_; }
  [[nodiscard]] const std::vector<std::string>& tokens() const noexcept { return tokens_; }
  [[nodiscard]] bool allow_unauthenticated() const noexcept { return allow_unauthenticated_; }
  [[nodiscard]] const std::vector<std::string>& parents() const noexcept { return parents_; }
  [[nodiscard]] const std::string& children() const noexcept { return children_; }
  [[nodiscard]] std::size_t message_limit() const noexcept { return message_limit_; }
  [[nodiscard]] std::chrono::nanoseconds first_idle_timeout() const noexcept {
    return first_idle_timeout_;
  }
  [[nodiscard]] std::chrono::nanoseconds ping_interval() const noexcept { return ping_interval_; }
  [[nodiscard]] unsigned fault_tolerance() const noexcept { return fault_tolerance_; }
  [[nodiscard]] std::chrono::nanoseconds retry_first() const noexcept { return retry_first_; }
  [[nodiscard]] std::chrono::nanoseconds retry_longest() const noexcept { return retry_longest_; }
  [[nodiscard]] std::size_t send_buffer_size() const noexcept { return send_buffer_size_; }
  [[nodiscard]] std::size_t send_buffer_number() const noexcept { return send_buffer_number_; }
  [[nodiscard]] overflow_policy overflow() const noexcept { return overflow_; }
  [[nodiscard]] restart_policy restart() const noexcept { return restart_; }
  [[nodiscard]] std::chrono::nanoseconds message_deadline() const noexcept {
    return message_deadline_;
  }
  [[nodiscard]] std::size_t sessions() const noexcept { return sessions_; }
  [[nodiscard]] std::size_t visitors() const noexcept { return visitors_; }
  [[nodiscard]] std::chrono::nanoseconds drain() const noexcept { return drain_; }
  // Empty: none.
  [[nodiscard]] const std::string& directory_file() const noexcept { return directory_file_; }
  [[nodiscard]] const std::shared_ptr<atbus::directory>& directory() const noexcept {
    return directory_;
  }

 private:
  uv_loop_s* loop_ = nullptr;
  std::vector<std::string> tokens_;
  bool allow_unauthenticated_ = false;
  std::vector<std::string> parents_;
  std::string children_;
  std::size_t message_limit_ = build_settings::message_limit;
  std::chrono::nanoseconds first_idle_timeout_ = std::chrono::seconds{30};
  std::chrono::nanoseconds ping_interval_ = std::chrono::seconds{8};
  unsigned fault_tolerance_ = 3;
  std::chrono::nanoseconds retry_first_ = std::chrono::milliseconds{100};
  std::chrono::nanoseconds retry_longest_ = std::chrono::seconds{4};
  std::size_t send_buffer_size_ = 4 * 1024 * 1024;
  std::size_t send_buffer_number_ = 0;
  overflow_policy overflow_ = overflow_policy::would_block;
  restart_policy restart_ = restart_policy::redeliver;
  std::chrono::nanoseconds message_deadline_{0};
  std::size_t sessions_ = 4096;
  std::size_t visitors_ = 64;
  std::chrono::nanoseconds drain_ = std::chrono::seconds{5};
  std::string directory_file_;
  std::shared_ptr<atbus::directory> directory_;
};

}  // namespace atbus
