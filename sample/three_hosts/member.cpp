// A leaf of a tree: greets the nodes that it is told of until all have answered, prints which way each answer
// came, and answers who greets it. SIGTERM ends it.
//
//   member ID LISTEN PARENT TOKEN_FILE GREETED...
#include <atbus/atbus.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iostream>
#include <map>
#include <string>

using namespace std::chrono_literals;

constexpr std::uint32_t kHello = 1;
constexpr std::uint32_t kAnswer = 2;

volatile std::sig_atomic_t asked_to_end = 0;

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
    return std::cerr << "usage: member ID LISTEN PARENT TOKEN_FILE GREETED...\n", 2;
  const auto own = atbus::bus_id::parse(argv[1]);
  if (!own)
    return own.error().print(), 2;
  std::string token;
  if (std::ifstream file{argv[4]}; !std::getline(file, token))
    return std::cerr << argv[4] << " has no token\n", 2;
  std::map<atbus::bus_id, bool> greeted;  // on its way, or answered
  for (int i = 5; i < argc; ++i) {
    const auto whom = atbus::bus_id::parse(argv[i]);
    if (!whom)
      return whom.error().print(), 2;
    greeted[*whom] = false;
  }

  std::signal(SIGTERM, [](int) { asked_to_end = 1; });
  atbus::node node{*own, atbus::node_options{}.token(token).parent(argv[3])};
  node.on_log([](std::string_view line) { std::cerr << line << std::endl; });
  node.on_message([&](const atbus::message& m) {
    if (m.type() == kHello) {
      node.send(m.source(), kAnswer, m.text());
      return;
    }
    std::cout << own->to_hex() << " reached " << m.source().to_hex() << " through "
              << way_to(node, m.source()) << std::endl;
  });
  // Not everybody is there yet: greeted again.
  node.on_undelivered([&](const atbus::undelivered& u) {
    if (u.type() == kHello)
      greeted[u.destination()] = false;
  });
  if (auto s = node.listen(argv[2]); !s)
    return s.print(), 1;
  while (node.is_open() && asked_to_end == 0) {
    for (auto& [whom, done] : greeted) {
      if (!done)
        done = static_cast<bool>(node.send(whom, kHello, "hello"));
    }
    node.poll();
    node.wait(200ms);
  }
}
