// Node 2: handles orders, one line each. Kill it at any moment, in any way, and start it again: it
// goes on with the first order that it has not handled.
#include <atbus/atbus.hpp>
#include <iostream>

int main(int argc, char** argv) {
  atbus::node node{2};
  node.on_message([](const atbus::message& order) {
    // Of a marked one the life before may have printed the line.
    std::cout << order.text() << (order.redelivered() ? " again" : "") << std::endl;
  });
  if (auto s = node.listen(argc > 1 ? argv[1] : "shm://worker"); !s)
    return s.print(), 1;
  return node.run() ? 0 : 1;
}
