// Which cores the workers run on.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace atbus::bench {

// The cores this process may use, in ascending order; never empty.
std::vector<int> allowed_cpus();

// Reads "0,2-5". Throws std::invalid_argument with a sentence that names what is wrong, also for a
// core that this process may not use.
std::vector<int> parse_cpus(const std::string& text);

// Core of worker `index` where worker 0 is the receiver: it gets the first of `cpus`, the others
// take turns on the rest (on the first too if it is alone).
int cpu_of_worker(const std::vector<int>& cpus, std::size_t index);

// Binds the calling thread to a core; a core that can't be had is ignored.
void run_on_cpu(int cpu) noexcept;

}  // namespace atbus::bench
