// How much of etcd's keys is kept.
#include "discovery/etcd_keys.h"

#include <algorithm>
#include <string>
#include <utility>

#include "etcd_party.h"

namespace atbus::test {
namespace {

detail::etcd_pair pair_of_size(std::uint64_t id, std::int64_t revision, std::size_t size) {
  std::string value = R"({"version":1,"addresses":["unix://@one"]})";
  value.resize(std::max(size, value.size()), ' ');
  return {.key = key_of(id), .value = std::move(value), .revision = revision};
}

TEST(EtcdKeys, HaveALimitOfBytesForChangesToo) {
  etcd_stats stats;
  detail::etcd_keys keys{"/atbus/", 10'000, stats};
  constexpr std::size_t size = 65'000;
  constexpr std::uint64_t fit = detail::etcd_keys::bytes_max / size - 1;
  constexpr std::uint64_t count = fit + 100;
  for (std::uint64_t id = 1; id <= count; ++id)
    keys.put(pair_of_size(id, static_cast<std::int64_t>(id), 0));
  ASSERT_EQ(stats.records, count);
  EXPECT_TRUE(keys.problem());
  for (std::uint64_t id = 1; id <= count; ++id)
    keys.put(pair_of_size(id, static_cast<std::int64_t>(count + id), size));
  EXPECT_GE(stats.beyond_limit, 90);
  EXPECT_LE(stats.records * size, detail::etcd_keys::bytes_max);
  EXPECT_EQ(keys.problem(), errc::no_space);
  EXPECT_NE(keys.problem().text().find("64 MiB"), std::string::npos) << keys.problem().text();
  EXPECT_FALSE(keys.count());
  // One that does not grow stays, and what was removed makes room.
  keys.put(pair_of_size(1, static_cast<std::int64_t>(3 * count), size - 1));
  EXPECT_NE(keys.records().find(1), nullptr);
  keys.remove(key_of(2));
  keys.remove(key_of(3));
  keys.put(pair_of_size(count, static_cast<std::int64_t>(3 * count + 1), size));
  EXPECT_NE(keys.records().find(count), nullptr);
}

}  // namespace
}  // namespace atbus::test
