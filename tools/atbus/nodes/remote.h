// What a node that listens at an address says of itself and of the nodes behind it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "atbus/node_client.h"
#include "atbus/nodes/nodes.h"

namespace atbus::tool {

// A node, asked through the one that the client is connected to.
class remote_nodes {
 public:
  explicit remote_nodes(const client_options& options) : client_(options) {}

  // The id of the node at the address.
  [[nodiscard]] bus_id first();
  // Asks that node: the values of its reply, printable. Throws what is in the way, as node_client does.
  std::vector<std::string> ask(bus_id whom, std::vector<std::string> words);
  // As of node_client.
  void rest(std::chrono::nanoseconds time) { client_.rest(time); }
  // Its report, with all of its peers.
  [[nodiscard]] node_report report_of(bus_id whom);
  // The reports of the first node and of all that can be asked through it. One that does not answer is in
  // the list with the reason.
  [[nodiscard]] node_reports all();

 private:
  // The values as they are.
  std::vector<std::string> ask_for_bytes(bus_id whom, std::vector<std::string> words);
  node_report page_of(bus_id whom, std::size_t first_peer);

  node_client client_;
  bus_id first_;  // 0: not asked yet
};

}  // namespace atbus::tool
