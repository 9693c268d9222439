// What a directory remembers to tell, however many services its records name.
#include "node/directory/record_table.h"

#include "counting_allocator.h"
#include "test.h"

namespace atbus::detail {
namespace {

// So many nodes with so many services each, none of which another one has.
record_table::records fleet(std::uint64_t nodes, std::size_t services) {
  record_table::records all;
  for (std::uint64_t id = 1; id <= nodes; ++id) {
    directory_record& one = all[id];
    one.id = bus_id{id};
    for (std::size_t i = 0; i != services; ++i)
      one.services.push_back("a service with a long name, " + std::to_string(id) + "." +
                             std::to_string(i));
  }
  return all;
}

TEST(RecordTable, TellsOfWatchedServicesAndRemembersNoOthers) {
  record_table table;
  int told = 0;
  const auto which = table.watch_members("a service with a long name, 7.9", [&] { ++told; });
  record_table::records first = fleet(128, 256);
  const std::uint64_t before = test::allocations();
  table.replace_all(std::move(first));
  if (test::counts_allocations()) {
    EXPECT_LT(test::allocations() - before, 1000U) << "of 32,768 names";
  }
  EXPECT_EQ(told, 0);
  table.tell_changed();
  EXPECT_EQ(told, 1);
  table.tell_changed();
  EXPECT_EQ(told, 1);
  table.remove(bus_id{8});
  table.tell_changed();
  EXPECT_EQ(told, 1);
  table.remove(bus_id{7});
  table.tell_changed();
  EXPECT_EQ(told, 2);
  table.unwatch(which);
  table.replace_all(fleet(10, 10));
  table.tell_changed();
  EXPECT_EQ(told, 2);
}

TEST(RecordTable, TellsEachWatchOfAServiceUntilItIsNoMore) {
  record_table table;
  int first = 0;
  int second = 0;
  const auto one = table.watch_members("chat", [&] { ++first; });
  const auto other = table.watch_members("chat", [&] { ++second; });
  const auto change = [&](std::vector<std::string> services) {
    directory_record fresh;
    fresh.id = bus_id{1};
    fresh.services = std::move(services);
    table.put(std::move(fresh));
    table.tell_changed();
  };
  change({"chat", "chat", "login"});
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
  table.unwatch(one);
  change({"login"});
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
  table.unwatch(other);
  change({"chat"});
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

}  // namespace
}  // namespace atbus::detail
