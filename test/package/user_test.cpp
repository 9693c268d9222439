// A user's first test on a simulated bus.
#include <atbus/testing.hpp>
#include <cstdio>

int main() {
  atbus::testing::simulation sim{1};
  int received = 0;
  sim.start(2, [&](atbus::node& node) {
    node.on_message([&](const atbus::message&) { ++received; });
    if (!node.listen("unix:///two"))
      std::puts("can't listen");
  });
  sim.start(1, [](atbus::node& node) {
    if (!node.connect(2, "unix:///two"))
      std::puts("can't connect");
  });
  sim.node(1).send(2, 0, "hello");
  sim.cut(1, 2);
  const bool idle = sim.run_until_idle();
  std::printf("received %d\n", received);
  return idle && received == 1 ? 0 : 1;
}
