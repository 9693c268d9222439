// Who a key belongs to, and what changes when members do.
#include "node/service/key_owner.h"

#include <map>

#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::uint64_t keys = 20'000;

std::vector<bus_id> servers(std::uint64_t count) {
  std::vector<bus_id> all;
  for (std::uint64_t i = 0; i != count; ++i)
    all.emplace_back(0x0100'0000'0000U + (i << 16U));
  return all;
}

std::vector<bus_id> owners_of_keys(const std::vector<bus_id>& members) {
  key_owner owner;
  owner.set_members(members);
  std::vector<bus_id> all;
  for (std::uint64_t key = 0; key != keys; ++key)
    all.push_back(owner.of(key));
  return all;
}

TEST(KeyOwner, IsNobodyWithoutMembers) {
  key_owner owner;
  EXPECT_EQ(owner.of(7), bus_id{});
  EXPECT_EQ(owner.of("seven"), bus_id{});
}

TEST(KeyOwner, IsTheSameInWhateverOrderMembersAreNamed) {
  std::vector<bus_id> members = servers(10);
  const std::vector<bus_id> before = owners_of_keys(members);
  std::ranges::reverse(members);
  EXPECT_EQ(owners_of_keys(members), before);
}

TEST(KeyOwner, ThatGoesLosesItsKeysAndNobodyElseDoes) {
  std::vector<bus_id> members = servers(10);
  const std::vector<bus_id> before = owners_of_keys(members);
  const bus_id gone = members[3];
  members.erase(members.begin() + 3);
  const std::vector<bus_id> after = owners_of_keys(members);
  for (std::size_t key = 0; key != keys; ++key) {
    if (before[key] == gone)
      EXPECT_NE(after[key], gone);
    else
      EXPECT_EQ(after[key], before[key]) << key;
  }
}

TEST(KeyOwner, ThatComesTakesItsShareAndNothingElseMoves) {
  const std::vector<bus_id> before = owners_of_keys(servers(9));
  const std::vector<bus_id> after = owners_of_keys(servers(10));
  std::size_t moved = 0;
  for (std::size_t key = 0; key != keys; ++key) {
    if (after[key] == before[key])
      continue;
    ++moved;
    EXPECT_EQ(after[key], servers(10).back()) << key;
  }
  EXPECT_NEAR(static_cast<double>(moved), keys / 10.0, keys / 100.0);
}

TEST(KeyOwner, HasAboutAsManyKeysAsAnyOther) {
  std::map<bus_id, std::size_t> shares;
  for (const bus_id owner : owners_of_keys(servers(10)))
    ++shares[owner];
  EXPECT_EQ(shares.size(), 10U);
  for (const auto& [owner, share] : shares)
    EXPECT_NEAR(static_cast<double>(share), keys / 10.0, keys / 60.0) << owner.to_string();
}

// Other programs, of other versions and machines, have to choose alike.
TEST(KeyOwner, OfATextIsFixedForEver) {
  EXPECT_EQ(key_owner::number_of(""), 0xcbf29ce484222325U);
  EXPECT_EQ(key_owner::number_of("foobar"), 0x85944171f73967e8U);
  key_owner owner;
  owner.set_members(servers(10));
  EXPECT_EQ(owner.of("player-4711"), owner.of(key_owner::number_of("player-4711")));
  std::string chosen;
  for (const std::string_view player : {"anna", "ben", "chris", "dora", "eva"})
    chosen += std::to_string(owner.of(player).value() >> 16U & 0xFU);
  EXPECT_EQ(chosen, "21988");
}

TEST(KeyOwner, ChoosesAmongSoManyAndNoMore) {
  key_owner few{5};
  few.set_members(servers(10));
  for (std::uint64_t key = 0; key != 1000; ++key)
    EXPECT_LT(few.of(key), servers(6).back());
}

}  // namespace
}  // namespace atbus::detail
