// A node that registers itself in an etcd, and a directory of DNS; neither server need be there.
#include <atbus/dns.hpp>
#include <atbus/etcd.hpp>
#include <atbus/node.hpp>
#include <cstdio>

int main() {
  const auto registry = atbus::etcd_directory::open({.endpoints = {"http://127.0.0.1:1"}});
  if (!registry) {
    registry.error().print();
    return 1;
  }
  atbus::node node{7, atbus::node_options{}.token("a secret of both").directory(*registry)};
  if (const auto failed = node.listen("ipv4://127.0.0.1:0"); !failed) {
    failed.print();
    return 1;
  }
  const auto relays = atbus::dns_directory::open(
      {.hosts = {{.id = 8, .name = "relay.invalid", .port = 7000}}, .servers = {"127.0.0.1:1"}});
  if (!relays) {
    relays.error().print();
    return 1;
  }
  std::puts("is found by etcd");
}
