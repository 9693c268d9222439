// Node 1: gives node 2 five thousand orders, and ends when all of them are handled.
#include <atbus/atbus.hpp>
#include <chrono>
#include <iostream>
#include <string>

using namespace std::chrono_literals;

int main(int argc, char** argv) {
  atbus::node node{1};
  int lost = 0;
  node.on_undelivered([&](const atbus::undelivered&) { ++lost; });
  if (auto s = node.connect(2, argc > 1 ? argv[1] : "shm://worker"); !s)
    return s.print(), 1;
  for (int order = 1; order <= 5000;) {
    if (node.send(2, 0, std::to_string(order)))
      ++order;
    else
      node.wait(1s);  // its queue is full: until there is room
    node.poll();
  }
  const auto done = node.shutdown(1h);
  return done && lost == 0 ? 0 : 1;
}
