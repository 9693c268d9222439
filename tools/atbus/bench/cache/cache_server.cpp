// The server of `bench cache`: the store and the service of sample/cache at a node.
#include <cstdio>

#include "atbus/bench/cache/cache_node.h"
#include "atbus/bench/cache/cache_tally.h"
#include "atbus/bench/resource_usage.h"
#include "atbus/bench/round_trip.h"
#include "atbus/bench/tasks.h"
#include "cache_service.h"
#include "freed_memory.h"

namespace atbus::bench {

void serve_cache(worker& self) {
  cache::keep_freed_memory();
  workload work = self.work();
  work.sleep = true;
  const auto store = cache::cache_store::open(
      {.memory_bytes = work.cache.memory_bytes, .pages = {.huge_pages = work.cache.huge_pages}});
  if (!store) {
    throw failure("cache", store.error());
  }
  node at = open_cache_node(self);
  cache::cache_service service{at, **store, cache_message_limit(work.cache)};
  at.spawn(service.sweep());
  listen(self, at, work.address.data());
  poll_until_ready(self, at);
  if (!self.wait_for_start()) {
    return;
  }
  const std::int64_t cpu_before_ns = process_usage().cpu_ns;
  while (!senders_have_reached(self, worker_state::finished)) {
    if (at.poll() == 0) {
      self.progress((*store)->stats().hits + (*store)->stats().misses);
      wait_a_moment(self, at);
    }
  }
  cache_server_tally& tally = cache_tally_of_server(self.block());
  tally.peak_kib = max_rss_kib();
  tally.cpu_ns = process_usage().cpu_ns - cpu_before_ns;
  self.finish({.messages = (*store)->stats().hits});
  at.close();
}

}  // namespace atbus::bench
