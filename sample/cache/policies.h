// Eviction policies to compare the store with: each as its paper has it, with capacity in bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

namespace policies {

inline std::uint64_t mixed(std::uint64_t number) {  // splitmix64
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

class policy {
 public:
  policy() = default;
  policy(const policy&) = delete;
  policy& operator=(const policy&) = delete;
  virtual ~policy() = default;
  // Whether the key is there; if not, it is set. `bytes` are those of key and value.
  virtual bool get(std::uint64_t key, std::size_t bytes) = 0;
};

// What an item costs besides key and value, in every policy but the store: a header, links and the
// entry of a hash table, about as memcached has them.
inline constexpr std::size_t overhead_bytes = 48;

struct entry {
  std::uint64_t key;
  std::size_t bytes;
  int count = 0;  // accesses, or whether there was one
  int queue = 0;
};
using queue = std::list<entry>;  // the newest first
using positions = std::unordered_map<std::uint64_t, queue::iterator>;

class lru final : public policy {
 public:
  explicit lru(std::size_t memory) : free_{memory} {}
  bool get(std::uint64_t key, std::size_t bytes) override {
    if (const auto found = at_.find(key); found != at_.end()) {
      items_.splice(items_.begin(), items_, found->second);
      return true;
    }
    bytes += overhead_bytes;
    while (free_ < bytes) {
      free_ += items_.back().bytes;
      at_.erase(items_.back().key);
      items_.pop_back();
    }
    free_ -= bytes;
    items_.push_front({key, bytes});
    at_[key] = items_.begin();
    return false;
  }

 private:
  std::size_t free_;
  queue items_;
  positions at_;
};

// Zhang et al., "SIEVE is simpler than LRU", NSDI 2024.
class sieve final : public policy {
 public:
  explicit sieve(std::size_t memory) : free_{memory} {}
  bool get(std::uint64_t key, std::size_t bytes) override {
    if (const auto found = at_.find(key); found != at_.end()) {
      found->second->count = 1;
      return true;
    }
    bytes += overhead_bytes;
    while (free_ < bytes)
      evict();
    free_ -= bytes;
    items_.push_front({key, bytes});
    at_[key] = items_.begin();
    return false;
  }

 private:
  void evict() {
    const auto towards_newer = [this](queue::iterator from) {
      return from == items_.begin() ? std::prev(items_.end()) : std::prev(from);
    };
    if (hand_ == items_.end())
      hand_ = std::prev(items_.end());
    for (; hand_->count != 0; hand_ = towards_newer(hand_))
      hand_->count = 0;
    const auto victim = hand_;
    hand_ = victim == items_.begin() ? items_.end() : std::prev(victim);
    free_ += victim->bytes;
    at_.erase(victim->key);
    items_.erase(victim);
  }

  std::size_t free_;
  queue items_;
  positions at_;
  queue::iterator hand_ = items_.end();
};

// Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023: a small queue of a
// tenth, a main queue, and as many ghosts as the main queue has items.
class s3_fifo final : public policy {
 public:
  explicit s3_fifo(std::size_t memory) : memory_{memory} {}
  bool get(std::uint64_t key, std::size_t bytes) override {
    if (const auto found = at_.find(key); found != at_.end()) {
      found->second->count = std::min(found->second->count + 1, 3);
      return true;
    }
    bytes += overhead_bytes;
    while (small_bytes_ + main_bytes_ + bytes > memory_) {
      if (small_.empty() || (small_bytes_ * 10 < memory_ && !main_.empty()))
        evict_main();
      else
        evict_small();
    }
    const bool returns = ghosts_.erase(key) != 0;
    (returns ? main_bytes_ : small_bytes_) += bytes;
    queue& to = returns ? main_ : small_;
    to.push_front({key, bytes});
    at_[key] = to.begin();
    return false;
  }

 private:
  void evict_small() {
    const auto oldest = std::prev(small_.end());
    small_bytes_ -= oldest->bytes;
    if (oldest->count > 1) {
      main_bytes_ += oldest->bytes;
      oldest->count = 0;
      main_.splice(main_.begin(), small_, oldest);
      return;
    }
    ghosts_[oldest->key] = ++evicted_;
    ghost_order_.emplace_back(oldest->key, evicted_);
    while (ghosts_.size() > std::max<std::size_t>(main_.size(), 1)) {
      const auto [key, number] = ghost_order_.front();
      ghost_order_.pop_front();
      if (const auto found = ghosts_.find(key); found != ghosts_.end() && found->second == number)
        ghosts_.erase(found);
    }
    at_.erase(oldest->key);
    small_.erase(oldest);
  }
  void evict_main() {
    while (main_.back().count > 0) {
      --main_.back().count;
      main_.splice(main_.begin(), main_, std::prev(main_.end()));
    }
    main_bytes_ -= main_.back().bytes;
    at_.erase(main_.back().key);
    main_.pop_back();
  }

  std::size_t memory_;
  std::size_t small_bytes_ = 0;
  std::size_t main_bytes_ = 0;
  queue small_;
  queue main_;
  positions at_;
  std::unordered_map<std::uint64_t, std::uint64_t> ghosts_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> ghost_order_;
  std::uint64_t evicted_ = 0;
};

// Einziger, Friedman, Manes, "TinyLFU: a highly efficient cache admission policy", ACM ToS 2017: a
// window of a hundredth, a segmented LRU, and a count-min sketch of 4-bit counters that ages.
class w_tiny_lfu final : public policy {
 public:
  w_tiny_lfu(std::size_t memory, std::size_t items)
      : window_max_{memory / 100},
        main_max_{memory - window_max_},
        protected_max_{main_max_ / 5 * 4},
        sample_{items * 10} {
    std::size_t size = 1;
    while (size < items * 8)
      size *= 2;
    counters_.resize(size);
  }
  bool get(std::uint64_t key, std::size_t bytes) override {
    count(key);
    if (const auto found = at_.find(key); found != at_.end()) {
      promote(found->second);
      return true;
    }
    bytes += overhead_bytes;
    add(window, {key, bytes});
    while (bytes_[window] > window_max_)
      leave_window(std::prev(queues_[window].end()));
    return false;
  }

 private:
  enum part { window, probation, protect };

  [[nodiscard]] std::uint8_t& counter(std::uint64_t key, unsigned row) {
    return counters_[mixed(key + row * 0x632be59bd9b4e019U) & (counters_.size() - 1)];
  }
  [[nodiscard]] int frequency(std::uint64_t key) {
    int least = 15;
    for (unsigned row = 0; row < 4; ++row)
      least = std::min<int>(least, counter(key, row));
    return least;
  }
  void count(std::uint64_t key) {
    const int old = frequency(key);
    for (unsigned row = 0; row < 4 && old < 15; ++row) {
      if (counter(key, row) == old)
        ++counter(key, row);
    }
    if (++counted_ < sample_)
      return;
    counted_ /= 2;
    for (std::uint8_t& each : counters_)
      each /= 2;
  }
  void add(part to, const entry& item) {
    queues_[to].push_front(item);
    queues_[to].front().queue = to;
    bytes_[to] += item.bytes;
    at_[item.key] = queues_[to].begin();
  }
  void move(part to, queue::iterator item) {
    bytes_.at(static_cast<std::size_t>(item->queue)) -= item->bytes;
    bytes_[to] += item->bytes;
    queues_[to].splice(queues_[to].begin(), queues_.at(static_cast<std::size_t>(item->queue)),
                       item);
    item->queue = to;
  }
  void drop(queue::iterator item) {
    const auto from = static_cast<std::size_t>(item->queue);
    bytes_[from] -= item->bytes;
    at_.erase(item->key);
    queues_[from].erase(item);
  }
  void promote(queue::iterator item) {
    move(item->queue == window ? window : protect, item);
    while (bytes_[protect] > protected_max_)
      move(probation, std::prev(queues_[protect].end()));
  }
  void leave_window(queue::iterator candidate) {
    const int wanted = frequency(candidate->key);
    while (bytes_[probation] + bytes_[protect] + candidate->bytes > main_max_) {
      queue& from = queues_[probation].empty() ? queues_[protect] : queues_[probation];
      if (from.empty() || frequency(from.back().key) >= wanted)
        return drop(candidate);
      drop(std::prev(from.end()));
    }
    move(probation, candidate);
  }

  std::size_t window_max_;
  std::size_t main_max_;
  std::size_t protected_max_;
  std::size_t sample_;
  std::size_t counted_ = 0;
  std::vector<std::uint8_t> counters_;
  std::array<queue, 3> queues_;
  std::array<std::size_t, 3> bytes_{};
  positions at_;
};

}  // namespace policies
