// Tests order_desk on a simulated bus: a customer sends a hundred orders while connections break and
// processes die, once for each of a hundred seeds. With ATBUS_SIMULATION_SEED=N of seed N alone.
#include <atbus/testing.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "order_desk.hpp"

using namespace std::chrono_literals;

static bool takes_every_order_once(atbus::testing::simulation& sim) {
  constexpr int sent = 100;
  database orders;
  sim.start(2, [&](atbus::node& node) {
    if (auto s = node.listen("ipv4://10.0.0.2:7000"); !s)
      s.print();
    return std::make_unique<order_desk>(node, orders);
  });
  sim.start(1, [](atbus::node& node) {
    if (auto s = node.connect(2, "ipv4://10.0.0.2:7000"); !s)
      s.print();
  });
  for (int i = 0; i < sent; ++i)
    sim.after(i * 200ms, [&, i] { sim.node(1).send(2, 0, "order " + std::to_string(i)); });
  // Not the customer's: what it has sent would die with it.
  sim.disturb(20s, {.cuts = 10, .restarts = 0});
  for (int i = 0; i < 3; ++i)
    sim.after(std::chrono::milliseconds{sim.draw(20'000)}, [&] { sim.restart(2); });

  if (!sim.run_until_idle(5min))
    return false;
  for (int i = 0; i < sent; ++i) {
    if (orders.count("order " + std::to_string(i)) != 1)
      return false;
  }
  return true;
}

int main() {
  if (atbus::testing::first_failing_seed(100, takes_every_order_once))
    return 1;
  std::cout << "every order once" << std::endl;
}
