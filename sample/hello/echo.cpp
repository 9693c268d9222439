// Node 2: sends every message back to where it came from, until somebody stops it.
#include <atbus/atbus.hpp>
#include <iostream>

int main(int argc, char** argv) {
  atbus::node node{2};
  node.on_log([](std::string_view line) { std::cerr << line << std::endl; });
  node.on_message([&](const atbus::message& m) { node.send(m.source(), m.type(), m.bytes()); });
  if (auto s = node.listen(argc > 1 ? argv[1] : "shm://echo"); !s)
    return s.print(), 1;
  return node.run() ? 0 : 1;
}
