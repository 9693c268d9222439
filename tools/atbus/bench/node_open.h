// The nodes of a run. Failure is an exception with the library's sentence: it ends the worker.
#pragma once

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

#include "atbus/bench/channel_open.h"
#include "atbus/bench/receiving.h"
#include "atbus/bench/sending.h"
#include "atbus/bench/socket_limit.h"
#include "atbus/bench/worker.h"
#include "atbus/bench/workload.h"
#include "atbus/node.hpp"

namespace atbus::bench {

// Workers behind the ends are relays: each is the parent of the next one, the first one of all ends but
// worker 0, the last one of that. Both ends of `ping_between_own_nodes` are in one worker.
inline std::size_t first_relay(const workload& work) noexcept {
  return work.own_ends ? 1 : 1 + work.senders;
}

// Bits of the ids below a relay: each takes 8 more.
inline unsigned relay_bits(std::size_t relay) noexcept {
  return static_cast<unsigned>(32 + 8 * relay);
}

// The one that the others dial or reach, worker 0, lies below all relays. Of nodes that all send, every
// second one does.
inline bool is_below_all_relays(const workload& work, std::size_t worker) noexcept {
  return work.nodes == 0 ? worker == 0 : worker < work.nodes && worker % 2 == 0;
}

inline bus_id node_of_worker(const workload& work, std::size_t worker) noexcept {
  constexpr std::uint64_t below_all = 0x01010101;
  if (work.hops == 0) {
    return bus_id{worker + 1};
  }
  if (is_below_all_relays(work, worker)) {
    return bus_id{below_all + worker};
  }
  if (worker < 1 + work.senders) {
    return bus_id{0xfd000000 + worker};
  }
  const auto relay = static_cast<unsigned>(worker - 1 - work.senders);
  const std::uint64_t prefix = below_all >> (32 - 8 * relay) << (32 - 8 * relay);
  return bus_id{prefix | std::uint64_t{0xfe} << (24 - 8 * relay)};
}

// A scheme's own port, or a name of its own.
inline std::string address_beside(const workload& work, const std::string& suffix) {
  const std::string first = work.address.data();
  if (const auto kind = kind_of(first); kind && *kind != socket_kind::local) {
    return first.substr(0, first.rfind(':')) + ":0";
  }
  const std::size_t end = std::min(first.find('?'), first.size());
  return first.substr(0, end) + suffix + first.substr(end);
}
inline std::string relay_address(const workload& work, std::size_t relay) {
  return address_beside(work, "-relay" + std::to_string(relay));
}
// Of nodes that dial each other.
inline std::string member_address(const workload& work, std::size_t worker) {
  return address_beside(work, "-node" + std::to_string(worker));
}

// `worker`: for whom, where one holds the nodes of two.
inline node open_node(const worker& self, std::size_t worker) {
  const workload& work = self.work();
  node_options options;
  if (work.tls) {
    options.token(bench_token);
  } else {
    options.allow_unauthenticated();
  }
  if (work.hops != 0) {
    const std::size_t relays = 1 + work.senders;  // as node_of_worker counts
    if (worker >= relays) {
      const std::size_t relay = worker - relays;
      const std::uint64_t own = node_of_worker(work, 0).value();
      const unsigned below = 64 - relay_bits(relay);
      options.children(bus_id{own >> below << below}.to_hex() + "/" +
                       std::to_string(relay_bits(relay)));
      if (relay != 0) {
        options.parent(self.address_of(self.index() - 1));
      }
    } else {
      const std::size_t parent = is_below_all_relays(work, worker) ? work.hops - 1 : 0;
      options.parent(self.address_of(first_relay(work) + parent));
    }
  }
  std::size_t longest = work.lengths().longest();
  if (const request_workload& requests = work.requests; requests.in_flight != 0) {
    longest = std::max<std::size_t>(longest, requests.reply_size) + request_overhead;
    options.requests(std::max<std::size_t>(options.requests(), requests.in_flight));
  }
  options.message_limit(std::max<std::size_t>(options.message_limit(), longest));
  options.write_delay(std::chrono::nanoseconds{work.write_delay_ns});
  if (work.send_buffer_bytes != 0) {
    options.send_buffer_size(work.send_buffer_bytes);
  }
  if (!work.growing_buffer) {
    constexpr std::uint64_t block = build_settings::data_node_size;
    options.send_buffer_number(work.send_buffer_blocks != 0 ? work.send_buffer_blocks
                                                            : options.send_buffer_size() / block);
  }
  return node{node_of_worker(work, worker), options};
}

inline void listen(worker& self, node& at, const std::string& address) {
  if (const error problem = at.listen(address); !problem) {
    throw failure("listen", problem);
  }
  self.listening(at.addresses().front());
}

// Of a channel or of nodes.
inline void remove_all_leftovers(const workload& work) {
  remove_leftovers(work.address.data());
  remove_leftovers(work.reply_address.data());
  for (std::size_t member = 0; member != work.nodes; ++member) {
    remove_leftovers(member_address(work, member));
  }
  for (std::size_t relay = 0; relay != work.hops; ++relay) {
    remove_leftovers(relay_address(work, relay));
  }
}

// Not for measured loops. False: the run was stopped first.
template <class Condition>
[[nodiscard]] bool poll_until(worker& self, node& at, Condition&& holds) {
  while (!self.stopped()) {
    at.poll();
    if (holds()) {
      return true;
    }
    static_cast<void>(at.wait(std::chrono::milliseconds{1}));
  }
  return false;
}

// Who dials is accepted by polling only.
inline void poll_until_ready(worker& self, node& at) {
  static_cast<void>(
      poll_until(self, at, [&] { return senders_have_reached(self, worker_state::ready); }));
}

// Waits for the last relay, which comes after the others. False: the run was stopped first.
inline bool wait_for_relays(worker& self) {
  const workload& work = self.work();
  return work.hops == 0 ||
         self.wait_for(first_relay(work) + work.hops - 1, worker_state::listening);
}

// Until its parent is there. False: the run was stopped first.
inline bool reach_parent(worker& self, node& from) {
  return poll_until(self, from, [&] { return from.parent() != bus_id{}; });
}

// To worker 0, or to the relay that leads there. False: the run was stopped first.
inline bool connect(worker& self, node& from) {
  if (self.work().hops != 0) {
    return reach_parent(self, from);
  }
  const bus_id to = node_of_worker(self.work(), 0);
  if (const error problem = from.connect(to, self.address_of(0)); !problem) {
    throw failure("connect", problem);
  }
  return poll_until(self, from, [&] { return from.endpoints().front().connected(); });
}

// After so many messages a sender polls.
inline std::uint32_t messages_a_poll(const workload& work) noexcept {
  constexpr std::uint64_t message_head_bytes = 8;
  return work.batch != 0 ? work.batch : messages_a_write(work, message_head_bytes);
}

// A node as something to write to.
struct node_target {
  static constexpr std::uint32_t type_of_messages = 1;

  node& from;
  bus_id to;

  status send(bytes_view bytes) noexcept { return from.send(to, type_of_messages, bytes); }
  node_slot claim(std::size_t length) noexcept { return from.claim(to, type_of_messages, length); }
  status wait_writable(std::chrono::nanoseconds time) { return from.wait(time); }
};

// How many messages are to be sent by now, one of so many equal parts.
inline std::uint64_t due_by_now(const worker& self, std::uint64_t parts) noexcept {
  if (self.work().rate == 0) {
    return ~std::uint64_t{0};
  }
  const double seconds = static_cast<double>(now_ns() - self.start_ns()) / ns_per_s;
  return static_cast<std::uint64_t>(seconds * static_cast<double>(self.work().rate)) / parts;
}

// Until the next burst of a paced run is due, whatever else wakes the node meanwhile: who is answered
// more often does not send in more parts.
inline void rest(worker& self, node& at) {
  constexpr std::int64_t between_bursts_ns = 1'000'000;
  const std::int64_t until = now_ns() + between_bursts_ns;
  for (std::int64_t left = between_bursts_ns; left > 0 && !self.stopped();
       left = until - now_ns()) {
    static_cast<void>(at.wait(std::chrono::nanoseconds{left}));
    at.poll();
  }
}

// Message `number`, written in place.
inline void send_one(node& from, bus_id to, std::uint64_t number, std::uint64_t length) {
  node_slot slot = from.claim(to, 0, length);
  if (!slot) {
    throw std::runtime_error("claim: " + slot.why().text());
  }
  fill(number, slot.bytes().data(), length);
  slot.commit();
}

// Everything it has sent is handled before it ends.
inline void shut_down(node& at) {
  if (const status how = at.shutdown(std::chrono::seconds{8}); !how) {
    throw std::runtime_error("shutdown: " + how.text());
  }
}

}  // namespace atbus::bench
