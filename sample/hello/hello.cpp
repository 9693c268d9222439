// Node 1: says hello to node 2 and prints what comes back. Start it before or after echo.
#include <atbus/atbus.hpp>
#include <iostream>

int main(int argc, char** argv) {
  atbus::node node{1};
  node.on_log([](std::string_view line) { std::cerr << line << std::endl; });
  node.on_message([&](const atbus::message& m) {
    std::cout << m.text() << std::endl;
    node.stop();
  });
  if (auto s = node.connect(2, argc > 1 ? argv[1] : "shm://echo"); !s)
    return s.print(), 1;
  node.send(2, 0, "hello");
  return node.run() ? 0 : 1;
}
