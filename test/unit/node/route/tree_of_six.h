// A tree of six parties, for tests of what goes on in it.
#pragma once

#include "unit/node/simulated_party.h"

namespace atbus::detail {

//           64 (root)
//        80           96        relays
//     81    82      97           leaves
class tree_of_six : public ::testing::Test {
 protected:
  void SetUp() override {
    root.emplace(net, 64, plain().children("64/58"));
    relay_a.emplace(net, 80, relay_options("80/60"));
    relay_b.emplace(net, 96, relay_options("96/60"));
    one.emplace(net, 81, leaf_options(80));
    two.emplace(net, 82, leaf_options(80));
    far.emplace(net, 97, leaf_options(96));
    ASSERT_TRUE(until([&] {
      return relay_a->core().parent() == 64 && relay_b->core().parent() == 64 &&
             one->core().parent() == 80 && two->core().parent() == 80 && far->core().parent() == 96;
    }));
  }
  virtual node_options relay_options(std::string_view range) {
    return plain().parent(address_of(64)).children(range);
  }
  static node_options leaf_options(std::uint64_t parent) {
    return plain().parent(address_of(parent));
  }
  bool until(const std::function<bool()>& holds) { return net.run_until(holds, 60s); }
  static std::vector<std::string> numbers(int first, int last) {
    std::vector<std::string> made;
    for (int i = first; i != last; ++i)
      made.push_back(std::to_string(i));
    return made;
  }
  static std::uint64_t relayed(std::optional<party>& by) { return by->core().stats().relayed; }

  simulated_network net{1};
  std::optional<party> root;
  std::optional<party> relay_a;
  std::optional<party> relay_b;
  std::optional<party> one;
  std::optional<party> two;
  std::optional<party> far;
};

}  // namespace atbus::detail
