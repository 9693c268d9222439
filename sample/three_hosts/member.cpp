// A node of a tree: answers who greets it, greets the nodes that it is told of until all have answered,
// and prints which way the answer came. One that greets nobody prints who it is linked to. It goes on
// until it is killed.
//
//   member ID LISTEN[,LISTEN] PARENT RANGE GREETED...      "-" for no parent, and for no children
#include <atbus/atbus.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

using namespace std::chrono_literals;

constexpr std::uint32_t kHello = 1;
constexpr std::uint32_t kAnswer = 2;

// The way to that node as this one sees it.
std::string way_to(const atbus::node& node, atbus::bus_id id) {
  for (const atbus::endpoint& one : node.endpoints()) {
    if (one.id() == id)
      return one.address();
  }
  return "nothing";
}

int main(int argc, char** argv) {
  if (argc < 5)
    return std::cerr << "usage: member ID LISTEN PARENT RANGE GREETED...\n", 2;
  std::istringstream listen{argv[2]};
  const std::string parent = argv[3];
  const std::string range = argv[4];
  const char* const token = std::getenv("THREE_HOSTS_TOKEN");
  atbus::node_options options;
  options.token(token != nullptr ? token : "three hosts on one machine");
  if (parent != "-")
    options.parent(parent);
  if (range != "-")
    options.children(range);
  const auto own = atbus::bus_id::parse(argv[1]);
  if (!own)
    return own.error().print(), 2;

  atbus::node node{*own, options};
  std::map<atbus::bus_id, bool> greeted;  // on its way, or answered
  for (int i = 5; i < argc; ++i) {
    const auto whom = atbus::bus_id::parse(argv[i]);
    if (!whom)
      return whom.error().print(), 2;
    greeted[*whom] = false;
  }
  node.on_log([](std::string_view line) { std::cerr << line << std::endl; });
  node.on_message([&](const atbus::message& m) {
    if (m.type() == kHello) {
      node.send(m.source(), kAnswer, m.text());
      return;
    }
    std::cout << own->to_hex() << " reached " << m.source().to_hex() << " through "
              << way_to(node, m.source()) << std::endl;
  });
  node.on_endpoint([&](const atbus::endpoint& other, atbus::endpoint_event event) {
    const bool linked =
        event == atbus::endpoint_event::connected || event == atbus::endpoint_event::moved;
    if (linked && greeted.empty()) {
      std::cout << own->to_hex() << " is linked to " << other.id().to_hex() << " through "
                << other.address() << std::endl;
    }
  });
  // Not everybody is there yet: greeted again.
  node.on_undelivered([&](const atbus::undelivered& u) {
    if (u.type() == kHello)
      greeted[u.destination()] = false;
  });
  for (std::string at; std::getline(listen, at, ',');) {
    if (auto s = node.listen(at); !s)
      return s.print(), 1;
  }
  std::cout << own->to_hex() << " listens at " << node.addresses().at(0) << std::endl;
  while (node.is_open()) {
    for (auto& [whom, done] : greeted) {
      if (!done)
        done = static_cast<bool>(node.send(whom, kHello, "hello"));
    }
    node.poll();
    node.wait(200ms);
  }
}
