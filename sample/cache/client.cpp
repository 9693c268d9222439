// Asks a cache server:
//
//   client ADDRESS get KEY...
//   client ADDRESS set KEY VALUE [MILLISECONDS]
//   client ADDRESS erase KEY
//   client ADDRESS stats
#include <atbus/atbus.hpp>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "cache_client.h"

using namespace std::chrono_literals;

namespace {

int exit_code = 1;

int usage() {
  std::cerr << "usage: client ADDRESS get KEY... | set KEY VALUE [MILLISECONDS] | erase KEY | "
            << "stats\n";
  return 2;
}

void fail(const atbus::kept_response& r) {
  std::cerr << (r.text().empty() ? r.how().text() : std::string{r.text()}) << '\n';
}

atbus::task<> get_many(cache::cache_client& cache, std::vector<std::string> keys) {
  const auto r = co_await cache.get_many(keys);
  if (!r) {
    fail(r);
    co_return;
  }
  atbus::bytes_view rest = r.bytes();
  cache::answer_head head;
  std::vector<std::uint32_t> lengths(keys.size());
  if (!cache::take(rest, head) || head.count != keys.size())
    co_return;
  for (std::uint32_t& length : lengths)
    (void)cache::take(rest, length);
  exit_code = head.found == head.count ? 0 : 1;
  for (std::size_t at = 0; at != keys.size(); ++at) {
    atbus::bytes_view value;
    std::cout << keys[at] << ": ";
    if (lengths[at] == cache::not_found) {
      std::cout << "(none)\n";
    } else if (lengths[at] == cache::ask_again) {
      const auto got = co_await cache.get(keys[at]);
      std::cout << atbus::as_text(got.value()) << '\n';
    } else if (cache::take(rest, lengths[at], value)) {
      std::cout << atbus::as_text(value) << '\n';
    }
  }
}

atbus::task<> run(atbus::node& node, std::vector<std::string> words) {
  cache::cache_client cache{node, atbus::bus_id{}, 5s};
  const std::string_view verb = words[0];
  if (verb == "get" && words.size() == 2) {
    const auto got = co_await cache.get(words[1]);
    if (!got.how())
      fail(got.answer);
    else if (got.found)
      std::cout << atbus::as_text(got.value()) << '\n';
    exit_code = got.found ? 0 : 1;
  } else if (verb == "get" && words.size() > 2) {
    co_await get_many(cache, {words.begin() + 1, words.end()});
  } else if (verb == "set" && (words.size() == 3 || words.size() == 4)) {
    const std::chrono::milliseconds time{words.size() == 4 ? std::atoll(words[3].c_str()) : 0};
    const auto r = co_await cache.set(words[1], atbus::as_bytes(words[2]), time);
    if (!r)
      fail(r);
    exit_code = r ? 0 : 1;
  } else if (verb == "erase" && words.size() == 2) {
    const auto r = co_await cache.erase(words[1]);
    atbus::bytes_view rest = r.bytes();
    cache::answer_head head;
    if (!r)
      fail(r);
    exit_code = r && cache::take(rest, head) && head.found == 1 ? 0 : 1;
  } else if (verb == "stats" && words.size() == 1) {
    const auto r = co_await cache.stats();
    if (!r)
      fail(r);
    std::cout << (r ? r.text() : std::string_view{});
    exit_code = r ? 0 : 1;
  } else {
    exit_code = usage();
  }
  node.stop();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3)
    return usage();
  atbus::node node{0, atbus::node_options{}.message_limit((std::size_t{8} << 20) + 4096)};
  if (auto s = node.connect(0, argv[1]); !s)
    return s.print(), 1;
  node.spawn(run(node, {argv + 2, argv + argc}));
  if (auto s = node.run(); !s)
    return s.print(), 1;
  return exit_code;
}
