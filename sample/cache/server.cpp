// A cache server of bounded memory:
//
//   server [--id N] [--memory 64M] [--keep FILE] [--huge-pages] [--prefault] ADDRESS...
//   server --memory 256M --keep /var/tmp/cache 'shm://cache?lane_size=4M' unix:///run/cache.sock
#include <atbus/atbus.hpp>
#include <charconv>
#include <csignal>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "cache_service.h"
#include "freed_memory.h"

using namespace std::chrono_literals;

namespace {

volatile std::sig_atomic_t stopped = 0;

// 64M and the like; 0: none.
std::size_t parse_bytes(std::string_view text) {
  std::size_t number = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit{end, static_cast<std::size_t>(text.data() + text.size() - end)};
  const unsigned shift = unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : 0;
  if (bad != std::errc{} || (!unit.empty() && shift == 0) ||
      number > std::size_t{1} << (63 - shift))
    return 0;
  return number << shift;
}

atbus::task<> stop_on_signal(atbus::node& node) {
  for (;;) {
    const atbus::status slept = co_await node.sleep(50ms);
    if (!slept || stopped != 0)
      break;
  }
  node.stop();
}

int usage(std::string_view why) {
  std::cerr << why << "\nusage: server [--id N] [--memory 64M] [--keep FILE] [--huge-pages] "
            << "[--prefault] ADDRESS...\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  cache::store_options options;
  std::uint64_t id = 1;
  std::vector<std::string> addresses;
  const std::vector<std::string> words{argv + 1, argv + argc};
  for (std::size_t at = 0; at != words.size(); ++at) {
    const std::string& word = words[at];
    const bool has_value = word == "--id" || word == "--memory" || word == "--keep";
    if (has_value && at + 1 == words.size())
      return usage(word + " needs a value");
    if (word == "--id") {
      id = parse_bytes(words[++at]);
      if (id == 0)
        return usage("--id must be a number above 0, not " + words[at]);
    } else if (word == "--memory") {
      options.memory_bytes = parse_bytes(words[++at]);
      if (options.memory_bytes == 0)
        return usage("--memory must be a size such as 64M, not " + words[at]);
    } else if (word == "--keep") {
      options.keep_file = words[++at];
    } else if (word == "--huge-pages") {
      options.pages.huge_pages = true;
    } else if (word == "--prefault") {
      options.pages.prefault = true;
    } else if (word.starts_with("--")) {
      return usage("there is no option " + word);
    } else {
      addresses.push_back(word);
    }
  }
  if (addresses.empty())
    return usage("no address to listen at");

  cache::keep_freed_memory();
  auto store = cache::cache_store::open(options);
  if (!store)
    return store.error().print(), 1;
  constexpr std::size_t message_limit = (std::size_t{8} << 20) + 4096;
  atbus::node node{atbus::bus_id{id}, atbus::node_options{}
                                          .message_limit(message_limit)
                                          .send_buffer_size(2 * message_limit)
                                          .clients(256)};
  node.on_log([](std::string_view line) { std::cerr << line << '\n'; });
  for (const std::string& address : addresses) {
    if (auto s = node.listen(address); !s)
      return s.print(), 1;
  }
  cache::cache_service service{node, **store, message_limit};
  std::signal(SIGTERM, [](int) { stopped = 1; });
  std::signal(SIGINT, [](int) { stopped = 1; });
  node.spawn(service.sweep());
  node.spawn(stop_on_signal(node));
  for (const std::string& address : node.addresses())
    std::cout << "serving " << (*store)->stats().items << " items at " << address << std::endl;
  const atbus::status ended = node.run();
  node.close();
  return ended ? 0 : (ended.print(), 1);
}
