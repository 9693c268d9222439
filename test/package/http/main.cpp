// A node with a status server, which listens at a free port.
#include <atbus/node.hpp>
#include <atbus/status_server.hpp>
#include <cstdio>

int main() {
  atbus::node node{7};
  const auto status = atbus::status_server::open(node, {.listen = "127.0.0.1:0"});
  if (!status) {
    status.error().print();
    return 1;
  }
  std::printf("status at http://%s/\n", status->address().c_str());
}
