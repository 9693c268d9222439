#include "node/core/blob_party.h"

#include <new>

#include "unit/node/core/parts_fixture.h"

namespace atbus::detail {
namespace {

class BlobParties : public parts_of_a_node {
 protected:
  // One that is of use.
  void add(std::uint64_t id) {
    blob_party& made = parties.find_or_make(id);
    made.farewells.push_back({1, 7, errc::cancelled});
    parties.set_ready(made);
  }

  blob_parties parties{node};
};

TEST_F(BlobParties, HaveTheirTurnThoughThereWasNoMemoryForOne) {
  for (std::uint64_t id = 2; id != 6; ++id)
    add(id);
  EXPECT_THROW(parties.for_each_ready([](blob_party&) -> bool { throw std::bad_alloc{}; }),
               std::bad_alloc);
  EXPECT_TRUE(parties.has_ready());
  int turns = 0;
  parties.for_each_ready([&](blob_party&) {
    ++turns;
    return false;
  });
  EXPECT_EQ(turns, 4);
  EXPECT_FALSE(parties.has_ready());
}

}  // namespace
}  // namespace atbus::detail
