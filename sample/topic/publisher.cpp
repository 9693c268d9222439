// Node 1: publishes the price of apples ten times a second, until somebody stops it, for as many
// subscribers as there are.
#include <atbus/atbus.hpp>
#include <chrono>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  atbus::node node{1};
  node.on_log([](std::string_view line) { std::cerr << line << std::endl; });
  if (auto s = node.listen(argc > 1 ? argv[1] : "shm://prices"); !s)
    return s.print(), 1;
  atbus::topic prices{node, "prices/apples"};
  for (int price = 1; node.is_open(); ++price) {
    if (const auto sent = prices.publish(0, std::to_string(price)); !sent)
      return sent.how().print(), 1;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{100};
    while (std::chrono::steady_clock::now() < until) {
      (void)node.wait(until - std::chrono::steady_clock::now());
      node.poll();
    }
  }
}
