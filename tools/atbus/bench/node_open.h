// The nodes of a run. Failure is an exception with the library's sentence: it ends the worker.
#pragma once

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

#include "atbus/bench/channel_open.h"
#include "atbus/bench/receiving.h"
#include "atbus/bench/workload.h"
#include "atbus/node/node.hpp"

namespace atbus::bench {

// The one that the others dial, worker 0, has the first id.
inline bus_id node_of_worker(std::size_t worker) noexcept {
  return bus_id{worker + 1};
}

inline node open_node(const workload& work, std::size_t worker) {
  node_options options;
  options.allow_unauthenticated();
  options.message_limit(std::max<std::size_t>(options.message_limit(), work.lengths().longest()));
  if (work.send_buffer_bytes != 0) {
    options.send_buffer_size(work.send_buffer_bytes);
  }
  if (!work.growing_buffer) {
    constexpr std::uint64_t block = build_settings::data_node_size;
    options.send_buffer_number(work.send_buffer_blocks != 0 ? work.send_buffer_blocks
                                                            : options.send_buffer_size() / block);
  }
  return node{node_of_worker(worker), options};
}

inline void listen(worker& self, node& at) {
  if (const error problem = at.listen(self.work().address.data()); !problem) {
    throw failure("listen", problem);
  }
  self.listening(at.addresses().front());
}

// Who dials is accepted by polling only.
inline void poll_until_ready(worker& self, node& at) {
  while (!self.stopped() && !senders_have_reached(self, worker_state::ready)) {
    at.poll();
    static_cast<void>(at.wait(std::chrono::milliseconds{1}));
  }
}

// To worker 0. False: the run was stopped first.
inline bool connect(worker& self, node& from) {
  const bus_id to = node_of_worker(0);
  if (const error problem = from.connect(to, self.address_of(0)); !problem) {
    throw failure("connect", problem);
  }
  while (!self.stopped()) {
    from.poll();
    if (from.endpoints().front().connected()) {
      return true;
    }
    static_cast<void>(from.wait(std::chrono::milliseconds{1}));
  }
  return false;
}

// Everything it has sent is handled before it ends.
inline void shut_down(node& at) {
  if (const status how = at.shutdown(std::chrono::seconds{8}); !how) {
    throw std::runtime_error("shutdown: " + how.text());
  }
}

}  // namespace atbus::bench
