// Opens the channels of a run as its workload says. Failure is an exception with the library's
// sentence: it ends the worker.
#pragma once

#include <sys/resource.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "atbus/bench/workload.h"
#include "atbus/channel/receiver.hpp"
#include "atbus/channel/sender.hpp"

namespace atbus::bench {

inline std::runtime_error failure(const std::string& what, const error& why) {
  return std::runtime_error(what + ": " + std::string{name(why.code())} + ": " + why.text());
}

// Idle senders take more descriptors than most shells allow.
inline void allow_many_descriptors(const workload& work) noexcept {
  rlimit limit{};
  if (work.idle_senders == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return;
  }
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

inline receiver open_receiver(const workload& work, const char* address) {
  allow_many_descriptors(work);
  receiver_options options;
  options.lanes = work.lanes;
  options.lane_size = work.lane_size;
  options.prefault = work.prefault;
  if (work.lengths().longest() > build_settings::message_limit) {
    options.message_limit = work.lengths().longest();
  }
  if (work.spin_ns >= 0) {
    options.spin = std::chrono::nanoseconds{work.spin_ns};
  }
  auto opened = receiver::open(address, options);
  if (!opened) {
    throw failure(address, opened.error());
  }
  // What an earlier run left there is not ours to count.
  while (opened->poll([](std::span<const std::byte>) {}) != 0) {
  }
  return std::move(opened).value();
}

inline sender open_sender(const workload& work, const char* address) {
  sender_options options;
  options.prefault = work.prefault;
  if (work.spin_ns >= 0) {
    options.spin = std::chrono::nanoseconds{work.spin_ns};
  }
  auto opened = sender::open(address, options);
  if (!opened) {
    throw failure(address, opened.error());
  }
  return std::move(opened).value();
}

inline std::vector<sender> open_idle_senders(const workload& work, const char* address) {
  allow_many_descriptors(work);
  std::vector<sender> idle;
  for (std::uint32_t i = 0; i != work.idle_senders; ++i) {
    idle.push_back(open_sender(work, address));
  }
  return idle;
}

}  // namespace atbus::bench
