// A node that monitoring can look at: http://127.0.0.1:9464/ in a browser, /metrics for Prometheus,
// /healthz and /readyz for what starts and stops it.
//
// usage: monitored [HOST:PORT]
#include <atbus/node.hpp>
#include <atbus/status_server.hpp>
#include <csignal>
#include <cstdio>

namespace {
volatile std::sig_atomic_t asked_to_end = 0;
}

int main(int argc, char** argv) {
  std::signal(SIGTERM, [](int) { asked_to_end = 1; });
  std::signal(SIGINT, [](int) { asked_to_end = 1; });

  atbus::node node{7};
  atbus::status_server_options options;
  if (argc > 1)
    options.listen = argv[1];
  auto status = atbus::status_server::open(node, options);
  if (status)
    std::printf("http://%s/\n", status->address().c_str());
  else
    status.error().print();  // a node works without
  std::fflush(stdout);

  while (asked_to_end == 0) {
    node.poll();
    (void)node.wait(std::chrono::milliseconds{500});
  }
}
