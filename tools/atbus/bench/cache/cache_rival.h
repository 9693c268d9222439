// Other cache servers, as packages of the system bring them.
#pragma once

#include <string>
#include <string_view>

#include "atbus/bench/cache/cache_workload.h"

namespace atbus::bench {

constexpr const char* name_of(cache_system system) noexcept {
  switch (system) {
    case cache_system::memcached:
      return "memcached";
    case cache_system::redis:
      return "redis";
    case cache_system::atbus:
      break;
  }
  return "atbus";
}

// The name of the program, which PATH leads to.
constexpr const char* rival_program(cache_system system) noexcept {
  return system == cache_system::memcached ? "memcached" : "redis-server";
}
bool is_rival_installed(cache_system system);
// A command line.
constexpr const char* how_to_install(cache_system system) noexcept {
  return system == cache_system::memcached ? "apt-get install memcached"
                                           : "apt-get install redis-server";
}

}  // namespace atbus::bench
