// How often a get finds its key, per policy and workload: the table of README.md. Every miss is
// followed by a set. The store has all of its overhead in the memory that it is given.
//
//     sample_cache_hit_rate               prints the table, in about two minutes
//     sample_cache_hit_rate zipf_0.9      only that workload
#include <atbus/bytes.hpp>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>

#include "cache_store.h"
#include "policies.h"

namespace {

struct request {
  std::uint64_t key;
  std::size_t bytes;
};

struct workload {
  std::string name;
  std::vector<request> requests;
  std::size_t memory = 0;
  std::size_t items = 0;  // that it has room for, about
};

class store_policy final : public policies::policy {
 public:
  explicit store_policy(std::size_t memory) {
    auto made = cache::cache_store::open({.memory_bytes = memory});
    if (!made) {
      made.error().print();
      std::exit(1);
    }
    store_ = std::move(*made);
  }
  bool get(std::uint64_t key, std::size_t bytes) override {
    const atbus::bytes_view name = std::as_bytes(std::span{&key, 1});
    if (store_->get(name))
      return true;
    value_.resize(std::max(value_.size(), bytes));
    const atbus::bytes_view value{value_.data(), bytes - name.size()};
    if (const auto done = store_->set(name, std::array{value}); !done)
      done.print();
    return false;
  }

 private:
  std::unique_ptr<cache::cache_store> store_;
  std::vector<std::byte> value_;
};

// Numbers from 0, the first the most frequent: P(i) ~ 1 / (i + 1) ^ exponent.
class zipf {
 public:
  zipf(std::size_t count, double exponent) : sums_(count) {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i)
      sums_[i] = sum += std::pow(static_cast<double>(i + 1), -exponent);
  }
  std::size_t operator()(double uniform) const {
    const auto found = std::lower_bound(sums_.begin(), sums_.end(), uniform * sums_.back());
    return static_cast<std::size_t>(found - sums_.begin());
  }

 private:
  std::vector<double> sums_;
};

struct plan {
  std::string name;
  double exponent = 0.9;
  // Sizes are least * ratio ^ uniform.
  double least = 1024;
  double ratio = 1;
  bool scans = false;   // one in five requests is of keys that come once
  bool shifts = false;  // half way all keys become other ones
};

constexpr std::size_t keys = 200'000;
constexpr std::size_t requests = 2'000'000;

std::size_t size_of(const plan& chosen, std::uint64_t key) {
  const double uniform = static_cast<double>(policies::mixed(key) >> 11) * 0x1p-53;
  return static_cast<std::size_t>(chosen.least * std::pow(chosen.ratio, uniform));
}

// Memory for a tenth of the keys.
workload make(const plan& chosen) {
  workload made{chosen.name, {}, 0, keys / 10};
  for (std::size_t key = 0; key < keys; ++key)
    made.memory += (size_of(chosen, key) + policies::overhead_bytes) / 10;
  std::mt19937_64 engine{1};
  std::uniform_real_distribution<double> uniform;
  const zipf ranks{keys, chosen.exponent};
  std::uint64_t once = std::uint64_t{1} << 40;
  std::size_t scanned = 0;
  for (std::size_t i = 0; i < requests; ++i) {
    std::uint64_t key = ranks(uniform(engine));
    if (chosen.shifts && i >= requests / 2)
      key = (key + keys / 2) % keys;
    if (chosen.scans && scanned == 0 && uniform(engine) * 4 < 1.0 / static_cast<double>(made.items))
      scanned = made.items;
    if (scanned > 0) {
      --scanned;
      key = once++;
    }
    made.requests.push_back({key, size_of(chosen, key)});
  }
  return made;
}

// Four of five gets go to a fifth of the keys; few gets for each key, so that first misses weigh.
workload make_hot_fifth() {
  constexpr std::size_t cases = 2044;
  constexpr std::size_t bytes = 525'312 + 8;
  workload made{"hot_20_80", {}, std::size_t{256} << 20, 511};
  std::mt19937_64 engine{1};
  std::uniform_real_distribution<double> uniform;
  for (std::size_t i = 0; i < 4 * cases; ++i) {
    constexpr std::size_t hot = cases / 5;
    const bool is_hot = uniform(engine) < 0.8;
    const std::uint64_t key = is_hot ? engine() % hot : hot + engine() % (cases - hot);
    made.requests.push_back({key, bytes});
  }
  return made;
}

double percent_of_hits(policies::policy& tried, const workload& load) {
  std::size_t hits = 0;
  for (const request& each : load.requests)
    hits += tried.get(each.key, each.bytes) ? 1 : 0;
  return 100.0 * static_cast<double>(hits) / static_cast<double>(load.requests.size());
}

void print_row(const workload& load) {
  policies::lru lru{load.memory};
  policies::sieve sieve{load.memory};
  policies::s3_fifo s3_fifo{load.memory};
  policies::w_tiny_lfu w_tiny_lfu{load.memory, load.items};
  store_policy store{load.memory};
  std::printf("| %-12s |", load.name.c_str());
  for (policies::policy* const each :
       std::initializer_list<policies::policy*>{&lru, &sieve, &s3_fifo, &w_tiny_lfu, &store})
    std::printf(" %9.2f |", percent_of_hits(*each, load));
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view only = count > 1 ? arguments[1] : "";
  std::printf(
      "| hits in %%    |       LRU |     SIEVE |   S3-FIFO | W-TinyLFU |     store |\n"
      "| ------------ | --------: | --------: | --------: | --------: | --------: |\n");
  const plan plans[] = {
      {.name = "zipf_0.7", .exponent = 0.7},
      {.name = "zipf_0.9", .exponent = 0.9},
      {.name = "zipf_1.0", .exponent = 1.0},
      {.name = "zipf_1.2", .exponent = 1.2},
      {.name = "scans_0.9", .scans = true},
      {.name = "shift_0.9", .shifts = true},
      {.name = "web_0.7", .exponent = 0.7, .least = 100, .ratio = 40.96},
      {.name = "web_0.9", .exponent = 0.9, .least = 100, .ratio = 40.96},
      {.name = "web_1.0", .exponent = 1.0, .least = 100, .ratio = 40.96},
      {.name = "web_scans", .least = 100, .ratio = 40.96, .scans = true},
      {.name = "tiny_0.9", .exponent = 0.9, .least = 20, .ratio = 10},
      {.name = "1K_to_64K", .exponent = 0.9, .least = 1024, .ratio = 64},
  };
  for (const plan& each : plans) {
    if (!only.empty() && only != each.name)
      continue;
    print_row(make(each));
  }
  if (only.empty() || only == "hot_20_80")
    print_row(make_hot_fifth());
}
