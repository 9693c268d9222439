// Nodes that find each other in etcd: the client knows neither the id nor the address of the server.
//
// usage: echo ETCD-URL            a server, which sends back what it gets
//        echo ETCD-URL MESSAGE    a client, which sends one message
#include <atbus/atbus.hpp>
#include <atbus/etcd.hpp>
#include <chrono>
#include <cstdio>

int main(int argc, char** argv) {
  const bool is_client = argc == 3;
  auto registry = atbus::etcd_directory::open({.endpoints = {argc > 1 ? argv[1] : ""}});
  if (!registry) {
    registry.error().print();
    return 1;
  }
  atbus::node node{is_client ? 2 : 1,
                   atbus::node_options{}.token("the secret of both").directory(*registry)};
  node.on_message([&](const atbus::message& m) {
    std::puts(std::string{m.text()}.c_str());
    if (!is_client)
      (void)node.send(m.source(), 1, m.text());
    node.stop();
  });

  // The address that others dial: programs of other machines need that of a network.
  atbus::error failed = node.listen("ipv4://127.0.0.1:0");
  if (failed && !is_client)
    failed = node.offer("echo");
  if (!failed) {
    failed.print();
    return 1;
  }
  if (is_client) {
    atbus::service servers{node, "echo"};
    while (!node.send(servers.any(), 1, argv[2])) {
      node.poll();
      (void)node.wait(std::chrono::milliseconds{100});
    }
  }
  return node.run() && node.shutdown(std::chrono::seconds{1}) ? 0 : 1;
}
