// The nodes of a cache benchmark.
#pragma once

#include <algorithm>

#include "atbus/bench/cache/cache_cases.h"
#include "atbus/bench/node_open.h"

namespace atbus::bench {

// A message holds the longest value, its key, and what is put in front of them.
inline std::size_t cache_message_limit(const cache_workload& work) noexcept {
  constexpr std::size_t beside_a_value = 4096;
  return std::max<std::size_t>(build_settings::message_limit,
                               cache_cases{work}.longest() + beside_a_value);
}

inline node open_cache_node(const worker& self) {
  const std::size_t limit = cache_message_limit(self.work().cache);
  return node{node_of_worker(self.work(), self.index()),
              node_options{}.allow_unauthenticated().message_limit(limit).send_buffer_size(
                  std::max<std::size_t>(2 * limit, std::size_t{4} << 20))};
}

}  // namespace atbus::bench
