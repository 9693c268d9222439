// A node that listens through a NATS server, which need not be there.
#include <atbus/nats.hpp>
#include <atbus/node.hpp>
#include <cstdio>

int main() {
  const auto carrier = atbus::nats_carrier({});
  if (!carrier) {
    carrier.error().print();
    return 1;
  }
  atbus::node node{7, atbus::node_options{}.token("a secret of both").carrier(*carrier)};
  if (const auto failed = node.listen("nats://127.0.0.1:1/fleet.seven"); !failed) {
    failed.print();
    return 1;
  }
  std::puts("listens through NATS");
}
