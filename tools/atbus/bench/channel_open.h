// Opens the channels of a run as its workload says. Failure is an exception with the library's
// sentence: it ends the worker.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/bench/workload.h"
#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"

namespace atbus::bench {

inline std::runtime_error failure(const std::string& what, const error& why) {
  return std::runtime_error(what + ": " + std::string{name(why.code())} + ": " + why.text());
}

// Many senders take more descriptors than most shells allow.
inline void allow_many_descriptors(const workload& work) noexcept {
  rlimit limit{};
  if (work.idle_senders + work.connections == 1 || getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return;
  }
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

// What both sides of a channel have to be told.
template <class Options>
void set_common_options(const workload& work, Options& options) {
  options.prefault = work.prefault;
  if (work.spin_ns >= 0) {
    options.spin = std::chrono::nanoseconds{work.spin_ns};
  }
  options.socket.checksums = work.checksum;
  if (work.tls) {
    options.socket.tls = *tls_credentials::from_token(bench_token);
  }
  if (work.socket_buffer_bytes >= 0) {
    options.socket.send_buffer = static_cast<int>(work.socket_buffer_bytes);
    options.socket.receive_buffer = static_cast<int>(work.socket_buffer_bytes);
  }
  if (work.lengths().longest() > build_settings::message_limit) {
    options.message_limit = work.lengths().longest();
  }
}

inline receiver_options options_of_receivers(const workload& work) {
  receiver_options options;
  set_common_options(work, options);
  options.lanes = work.lanes;
  options.lane_size = work.lane_size;
  // All dial at once.
  const std::uint32_t dialling = work.connections + work.idle_senders;
  options.unconfirmed = std::max(options.unconfirmed, dialling);
  options.connections = std::max(options.connections, dialling);
  options.backlog = std::max(options.backlog, static_cast<int>(dialling));
  return options;
}

inline receiver open_receiver(const workload& work, const char* address) {
  allow_many_descriptors(work);
  auto opened = receiver::open(address, options_of_receivers(work));
  if (!opened) {
    throw failure(address, opened.error());
  }
  // What an earlier run left there is not ours to count.
  while (opened->poll([](std::span<const std::byte>) {}) != 0) {
  }
  return std::move(opened).value();
}

// One for each receiving thread.
inline std::vector<receiver> open_shards(const workload& work, const char* address) {
  allow_many_descriptors(work);
  auto opened = receiver::open_shards(address, work.receivers, options_of_receivers(work));
  if (!opened) {
    throw failure(address, opened.error());
  }
  for (receiver& each : *opened) {
    while (each.poll([](std::span<const std::byte>) {}) != 0) {
    }
  }
  return std::move(opened).value();
}

inline void remove(receiver& inbox) {
  if (const error problem = inbox.remove(); !problem) {
    throw failure("remove", problem);
  }
}

inline sender open_sender(const workload& work, const char* address) {
  sender_options options;
  set_common_options(work, options);
  options.buffer = work.growing_buffer ? send_buffer_kind::growing : send_buffer_kind::fixed;
  options.send_buffer_size = work.send_buffer_bytes;
  options.send_buffer_number = work.send_buffer_blocks;
  // A limit in bytes holds for blocks too.
  if (work.send_buffer_bytes != 0) {
    const std::uint64_t most =
        std::max<std::uint64_t>(work.send_buffer_bytes / build_settings::data_node_size, 1);
    options.send_buffer_number =
        options.send_buffer_number == 0 ? most : std::min(options.send_buffer_number, most);
  }
  auto opened = sender::open(address, options);
  if (!opened) {
    throw failure(address, opened.error());
  }
  return std::move(opened).value();
}

inline std::vector<sender> open_idle_senders(const workload& work, const char* address) {
  std::vector<sender> idle;
  for (std::uint32_t i = 0; i != work.idle_senders; ++i) {
    idle.push_back(open_sender(work, address));
  }
  return idle;
}

// A run that broke off may have left its segment or socket file; nobody else knows of it.
inline void remove_leftovers(std::string_view address) {
  if (address.starts_with("shm://") || address.starts_with("unix://")) {
    if (auto inbox = receiver::open(address)) {
      static_cast<void>(inbox->remove());
    }
  }
}

}  // namespace atbus::bench
