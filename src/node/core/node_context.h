// What every part of a node reads and none of them owns: its ids, its options, its environment, its
// timers and its counters.
//
// One thread.
#pragma once

#include <algorithm>
#include <chrono>

#include "atbus/bus_id.hpp"
#include "atbus/clock.hpp"
#include "atbus/node_options.hpp"
#include "atbus/node_stats.hpp"
#include "atbus/status.hpp"
#include "core/node_instance.h"
#include "core/random_source.h"
#include "core/timer_queue.h"
#include "node/link/link.h"
#include "node/link/link_keys.h"
#include "node/link/poll_progress.h"
#include "node/link/tap_lane.h"
#include "node/peer/peer.h"
#include "protocol/handshake.h"
#include "system/fork_guard.h"
#include "system/secret_bytes.h"

namespace atbus::detail {

// What a node stands on. All of it outlives the node.
struct node_environment {
  const clock_source& clock;
  random_source& random;
  transport& channels;
  host_identity host{};           // equal for nodes that can share memory
  link_keys* keys = nullptr;      // null: nothing encrypts links
  tap_opener open_tap = nullptr;  // null: there are no taps
};

struct node_context {
  node_context(bus_id id, const node_options& from, const node_environment& environment)
      : self{id, 0},
        options(without_tokens(from)),
        on(environment),
        circuit_secret(as_bytes(from.circuit_secret())),
        fault(from.check()) {}

  node_instance self;
  const node_options options;  // const: it has setters of the same names
  node_environment on;
  token_list tokens;
  secret_bytes circuit_secret;
  error fault;         // why the node can't be used at all; no error: it can
  timer_queue timers;  // declared before everything that has timers
  node_stats stats;
  poll_progress progress;  // of the poll that runs
  bool closed = false;
  bool leaving = false;
  bool tapped = false;  // what is received is copied: message_taps

  [[nodiscard]] std::chrono::nanoseconds now() const { return on.clock.now(); }
  // As now(), or a little before: clock_source::recent.
  [[nodiscard]] std::chrono::nanoseconds recent() const { return on.clock.recent(); }
  // The moment a peer that has gone silent, or never came, is given up.
  [[nodiscard]] std::chrono::nanoseconds idle_deadline() const {
    return moment_after(now(), options.first_idle_timeout());
  }
  // Whether this is a child of the process that made the node: nothing is said, handled or told there.
  [[nodiscard]] bool is_forked() const noexcept { return forks_so_far() != forks_before_; }
  // Whether the time of the poll that runs is over. To be asked every poll_progress::per_look messages.
  [[nodiscard]] bool is_late() const {
    return progress.deadline.count() != 0 && now() >= progress.deadline;
  }
  void end_poll() const noexcept { on.channels.end_poll(); }

  // A client has no bus id, and one peer, which it knows as 0.
  [[nodiscard]] bool is_client() const noexcept { return self.id == bus_id{}; }
  // Whether that peer is a client of this node.
  [[nodiscard]] bool is_client(const peer& of) const noexcept {
    return of.id == bus_id{} && !is_client();
  }
  // The id under which this node keeps a peer that calls itself `id`.
  [[nodiscard]] bus_id known_as(bus_id id) const noexcept { return is_client() ? bus_id{} : id; }

  // Whether its TCP links are to be encrypted.
  [[nodiscard]] bool has_keys() const noexcept {
    return !tokens.empty() || !options.certificates().chain.empty();
  }

  // Bytes after which a sender asks for an acknowledgement. Not more: what waits for it should not
  // outgrow the processor's caches.
  [[nodiscard]] std::size_t acknowledge_after() const noexcept { return acknowledge_after_; }

 private:
  // A quarter of the shortest queue that a link may have.
  [[nodiscard]] static std::size_t quarter_of_queue(const node_options& from) noexcept {
    const std::size_t blocks = from.send_buffer_number();
    const std::size_t fixed = blocks * build_settings::data_node_size;
    return (blocks == 0 ? from.send_buffer_size() : std::min(fixed, from.send_buffer_size())) / 4;
  }
  // The node proves itself with `tokens`, which are wiped when they go.
  [[nodiscard]] static node_options without_tokens(node_options options) {
    options.wipe_tokens();
    return options;
  }

  const std::uint64_t forks_before_ = forks_so_far();
  const std::size_t acknowledge_after_ =
      std::min(quarter_of_queue(options), std::size_t{512} * 1024);
};

}  // namespace atbus::detail
