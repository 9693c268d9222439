// Two nodes that make sure of each other.
#include "protocol/handshake.h"

#include <gtest/gtest.h>

#include "handshake_pair.h"

namespace atbus::detail {
namespace {

TEST(Handshake, IsDoneOnBothSidesWhenBothHaveTheToken) {
  handshake_pair pair;
  pair.run();
  EXPECT_TRUE(pair.is_done());
  EXPECT_EQ(pair.first->peer().id, bus_id{2});
  EXPECT_EQ(pair.second->peer().id, bus_id{1});
}

}  // namespace
}  // namespace atbus::detail
