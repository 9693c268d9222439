// Node 1 sends orders to node 2 and ends when all of them are handled.
//
//   sample_hot_restart_producer [ADDRESS [ORDERS]]
#include <atbus/atbus.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

using namespace std::chrono_literals;

int main(int argc, char** argv) {
  const int orders = argc > 2 ? std::atoi(argv[2]) : 5000;
  atbus::node node{1};
  int lost = 0;
  node.on_undelivered([&](const atbus::undelivered&) { ++lost; });
  if (auto s = node.connect(2, argc > 1 ? argv[1] : "shm://worker"); !s)
    return s.print(), 1;
  for (int order = 1; order <= orders;) {
    if (node.send(2, 0, std::to_string(order)))
      ++order;
    else
      node.wait(1s);  // its queue is full: until there is room
    node.poll();
  }
  const auto done = node.shutdown(1h);
  return done && lost == 0 ? 0 : 1;
}
