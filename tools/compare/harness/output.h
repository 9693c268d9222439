// What a harness prints at its end: one line of JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atbus/bench/histogram.h"
#include "harness/account.h"
#include "harness/options.h"

namespace atbus::compare {

struct send_totals {
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;  // at the first try
  std::uint64_t bytes = 0;
  std::int64_t longest_call_ns = 0;  // of a paced run
  std::int64_t duration_ns = 0;
  std::int64_t cpu_ns = 0;
};

struct ping_totals {
  std::uint64_t round_trips = 0;
  std::uint64_t corrupt = 0;
  std::int64_t cpu_ns = 0;
  bench::histogram latency;
};

struct ask_totals {
  std::uint64_t answered = 0;
  std::uint64_t corrupt = 0;
  std::uint64_t unanswered = 0;
  std::int64_t duration_ns = 0;
  std::int64_t cpu_ns = 0;
  std::vector<std::uint64_t> slices;
  bench::histogram latency;
};

std::string to_json(const ask_totals& done);
std::string to_json(const account& received);
std::string to_json(const send_totals& sent);
std::string to_json(const ping_totals& done);

}  // namespace atbus::compare
