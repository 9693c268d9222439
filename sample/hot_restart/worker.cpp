// Node 2 handles orders and prints a line for each. Kill it at any moment and start it again: it goes
// on with the first order that it has not handled.
//
//   sample_hot_restart_worker [ADDRESS]
#include <atbus/atbus.hpp>
#include <iostream>

int main(int argc, char** argv) {
  atbus::node node{2};
  node.on_message([](const atbus::message& order) {
    // A message is marked if an earlier process may have handled it: it died within its handler.
    std::cout << order.text() << (order.redelivered() ? " again" : "") << std::endl;
  });
  if (auto s = node.listen(argc > 1 ? argv[1] : "shm://worker"); !s)
    return s.print(), 1;
  return node.run() ? 0 : 1;
}
