// Directories of one process that meet in an etcd.
#pragma once

#include <poll.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/etcd.hpp"
#include "discovery/record_text.h"
#include "etcd_server.h"
#include "test.h"

namespace atbus::test {

using shared_directory = std::shared_ptr<etcd_directory>;
using texts = std::vector<std::string>;

inline shared_directory open_directory(const etcd_options& options) {
  auto made = etcd_directory::open(options);
  EXPECT_TRUE(made) << made.error().text();
  return made ? *made : nullptr;
}

// Polls them as nodes do, until `done`.
template <class Done>
bool until(std::initializer_list<shared_directory> all, const Done& done,
           std::chrono::nanoseconds longest = 30s) {
  for (const auto limit = now() + longest;;) {
    std::vector<pollfd> ready;
    for (const shared_directory& one : all) {
      (void)one->poll();
      ready.push_back({.fd = one->descriptor(), .events = POLLIN, .revents = 0});
    }
    if (done())
      return true;
    if (now() > limit)
      return false;
    (void)::poll(ready.data(), ready.size(), 10);  // `done` may ask others than them
  }
}
inline bool knows(const shared_directory& of, bus_id id, const texts& addresses) {
  return until({of}, [&] { return of->lookup(id) == addresses; });
}

inline directory_record record_of(bus_id id, texts addresses, texts services = {}) {
  return {.id = id, .addresses = std::move(addresses), .services = std::move(services)};
}
inline std::string key_of(bus_id id) {
  return "/atbus/" + detail::to_key(id);
}

class EtcdDirectories : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!etcd_server::is_installed())
      GTEST_SKIP() << "etcd is not installed (Debian: etcd-server)";
  }
  // Behind their backs.
  static void put(const etcd_server& into, const directory_record& record) {
    into.put(key_of(record.id), *detail::write_record(record));
  }
  static std::string lease_of(const etcd_server& in, bus_id id) {
    const auto all = in.answer("/v3/kv/range", {{"key", detail::to_base64(key_of(id))}});
    return all.contains("kvs") ? all["kvs"][0].value("lease", "0") : "0";
  }
};

}  // namespace atbus::test
