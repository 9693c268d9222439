// Prints three prices of the publisher. Start as many as you like, before or after it: subscriber [address
// [id]]. Each has an id of its own.
#include <atbus/atbus.hpp>
#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
  atbus::node node{argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2};
  node.on_log([](std::string_view line) { std::cerr << line << std::endl; });
  int left = 3;
  const auto take = [&](const atbus::topic_message& m) {
    std::cout << m.topic() << ": " << m.text() << std::endl;
    if (--left == 0)
      node.stop();
  };
  // Of those that come while it is slow it wants the latest; on_missed is told how many it was spared.
  const auto missed = [](atbus::bus_id from, std::uint64_t messages) {
    std::cerr << messages << " of " << from.to_string() << " missed" << std::endl;
  };
  if (auto s = node.subscribe("prices/apples", take, {.waiting = 1, .on_missed = missed}); !s)
    return s.print(), 1;
  if (auto s = node.connect(1, argc > 1 ? argv[1] : "shm://prices"); !s)
    return s.print(), 1;
  return node.run() ? 0 : 1;
}
