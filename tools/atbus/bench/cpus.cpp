#include "atbus/bench/cpus.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace atbus::bench {
namespace {

int parse_number(std::string_view text, const std::string& whole) {
  int number = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc{} || end != text.data() + text.size() || number < 0) {
    throw std::invalid_argument("\"" + whole + "\" is no list of cores such as 0,2-5");
  }
  return number;
}

}  // namespace

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu != CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) {
        cpus.push_back(cpu);
      }
    }
  }
  if (cpus.empty()) {
    cpus.push_back(0);
  }
  return cpus;
}

std::vector<int> parse_cpus(const std::string& text) {
  const std::vector<int> allowed = allowed_cpus();
  std::vector<int> cpus;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item{text.data() + begin, end - begin};
    const std::size_t dash = item.find('-');
    const int first = parse_number(item.substr(0, dash), text);
    const int last =
        dash == std::string_view::npos ? first : parse_number(item.substr(dash + 1), text);
    if (last < first) {
      throw std::invalid_argument("\"" + text + "\" counts backwards");
    }
    for (int cpu = first; cpu <= last; ++cpu) {
      if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end()) {
        throw std::invalid_argument("core " + std::to_string(cpu) +
                                    " does not exist or is not ours to use");
      }
      cpus.push_back(cpu);
    }
    begin = end + 1;
  }
  return cpus;
}

int cpu_of_worker(const std::vector<int>& cpus, std::size_t index) {
  if (index == 0 || cpus.size() == 1) {
    return cpus.front();
  }
  return cpus[1 + (index - 1) % (cpus.size() - 1)];
}

void run_on_cpu(int cpu) noexcept {
  if (cpu < 0 || cpu >= CPU_SETSIZE) {
    return;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace atbus::bench
