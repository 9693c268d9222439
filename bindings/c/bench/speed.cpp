// Messages per second of the functions of C beside those of C++, in turns: one sender, one receiver, each a process, over
// shared memory.
//
// usage: c_speed [ROUNDS [MESSAGES]]
#include <atbus/atbus.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atbus/node.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

std::size_t size_of(std::size_t i) {
  return 8 + i * 37 % 121;  // 8 to 128
}

constexpr std::size_t largest = 128;
const std::string text(largest, 'x');

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The receiver is the same for all: in C++.
void receive(const std::string& address, std::size_t count) {
  atbus::node node{2};
  std::size_t got = 0;
  node.on_message([&](const atbus::message&) { ++got; });
  if (!node.listen(address))
    std::exit(1);
  while (got < count)
    node.poll();
  node.send(1, 0, "done");
  node.shutdown(std::chrono::seconds{1});
  std::exit(0);
}

double send_in_cpp(const std::string& address, std::size_t count, bool claims) {
  atbus::node node{1};
  bool connected = false;
  bool done = false;
  node.on_endpoint([&](const atbus::endpoint&, atbus::endpoint_event) { connected = true; });
  node.on_message([&](const atbus::message&) { done = true; });
  if (!node.connect(2, address))
    std::exit(1);
  while (!connected)
    node.poll();
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i != count;) {
    const std::size_t size = size_of(i);
    if (claims) {
      if (atbus::node_slot slot = node.claim(2, 0, size)) {
        std::memcpy(slot.bytes().data(), text.data(), size);
        slot.commit();
        ++i;
        continue;
      }
    } else if (node.send(2, 0, std::string_view{text}.substr(0, size))) {
      ++i;
      continue;
    }
    node.poll();
  }
  while (!done)
    node.poll();
  return static_cast<double>(count) / seconds_since(start);
}

double send_in_c(const std::string& address, std::size_t count, bool claims) {
  atbus_node* node = nullptr;
  if (atbus_node_new(1, nullptr, &node) != ATBUS_OK ||
      atbus_node_connect(node, 2, address.c_str()) != ATBUS_OK)
    std::exit(1);
  const auto set = [](void* flag) { *static_cast<bool*>(flag) = true; };
  static const auto set_flag = set;
  bool connected = false;
  bool done = false;
  atbus_node_on_endpoint(
      node, [](void* flag, const atbus_endpoint*, atbus_endpoint_event) { set_flag(flag); },
      &connected);
  atbus_node_on_message(
      node, [](void* flag, const atbus_message*) { set_flag(flag); }, &done);
  while (!connected)
    atbus_node_poll(node, 0, 0, nullptr);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i != count;) {
    const std::size_t size = size_of(i);
    if (claims) {
      if (void* const at = atbus_node_claim(node, 2, 0, size, nullptr)) {
        std::memcpy(at, text.data(), size);
        atbus_node_commit(node, size);
        ++i;
        continue;
      }
    } else if (atbus_node_send(node, 2, 0, text.data(), size) == ATBUS_OK) {
      ++i;
      continue;
    }
    atbus_node_poll(node, 0, 0, nullptr);
  }
  while (!done)
    atbus_node_poll(node, 0, 0, nullptr);
  const double rate = static_cast<double>(count) / seconds_since(start);
  atbus_node_free(node);
  return rate;
}

double measure(bool in_c, bool claims, std::size_t count) {
  static int runs = 0;
  const std::string name =
      "atbus-c-speed-" + std::to_string(getpid()) + "-" + std::to_string(++runs);
  std::fflush(stdout);
  const pid_t receiver = fork();
  if (receiver == 0)
    receive("shm://" + name, count);
  const double rate = in_c ? send_in_c("shm://" + name, count, claims)
                           : send_in_cpp("shm://" + name, count, claims);
  waitpid(receiver, nullptr, 0);
  for (const char* const kind : {"segment.", "bell."})
    unlink(("/dev/shm/atbus-" + (kind + name)).c_str());
  return rate;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  const std::size_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 5'000'000;
  for (const bool claims : {false, true}) {
    std::vector<double> cpp;
    std::vector<double> c;
    std::vector<double> ratios;
    for (int i = 0; i < rounds; ++i) {
      const bool c_first = i % 2 == 1;
      const double first = measure(c_first, claims, count);
      const double second = measure(!c_first, claims, count);
      cpp.push_back(c_first ? second : first);
      c.push_back(c_first ? first : second);
      ratios.push_back(c.back() / cpp.back());
    }
    const auto [lowest, highest] = std::ranges::minmax(ratios);
    std::printf("%-5s  C++ %5.1f M/s, C %5.1f M/s, C / C++ %.2f (%.2f to %.2f)\n",
                claims ? "claim" : "send", median(cpp) / 1e6, median(c) / 1e6, median(ratios),
                lowest, highest);
  }
  return 0;
}
