// A server of a fleet: offers the service "chat", counts what each player says, and answers with that count.
// SIGTERM: it lets others take over, answers what it still gets, and ends.
//
//   server ID ETCD TOKEN_FILE LISTEN...
#include "common.h"

using namespace std::chrono_literals;

int main(int argc, char** argv) {
  if (argc < 5)
    return std::cerr << "usage: server ID ETCD TOKEN_FILE LISTEN...\n", 2;
  const auto start = start::from(argv);
  if (start == nullptr)
    return 2;
  atbus::node node{start->id, start->options};
  node.on_log([](std::string_view line) { std::cerr << line << std::endl; });
  std::uint64_t answered = 0;
  node.on_request(kSay, [&](atbus::request& r) {
    ++answered;
    r.reply(std::to_string(answered));
  });
  for (int i = 4; i < argc; ++i) {
    if (auto s = node.listen(argv[i]); !s)
      return s.print(), 1;
  }
  if (auto s = node.offer("chat"); !s)
    return s.print(), 1;
  while (node.is_open() && asked_to_end == 0) {
    node.poll();
    node.wait(100ms);
  }
  node.stop();  // takes the record out of the registry first
  node.run();
  std::cout << "answered " << answered << std::endl;
}
