// The shards of one address, each polled by a thread of its own, and what came to which of them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "atbus/receiver.hpp"
#include "numbered_message.h"
#include "shared_memory.h"

namespace atbus::test {

class shard_crew {
 public:
  // Called in the thread of a shard for each message.
  using witness = std::function<void(std::size_t shard, const message_stamp&)>;

  // `sleep`: how long a shard may wait at a time; negative: until something comes.
  explicit shard_crew(std::vector<receiver> shards, witness seen = {},
                      std::chrono::nanoseconds sleep = std::chrono::milliseconds{10})
      : shards_(std::move(shards)), seen_(std::move(seen)), logs_(shards_.size()) {
    threads_.reserve(shards_.size());
    for (std::size_t i = 0; i < shards_.size(); ++i)
      threads_.emplace_back([this, i, sleep] { run(i, sleep); });
  }
  shard_crew(const shard_crew&) = delete;
  shard_crew& operator=(const shard_crew&) = delete;
  ~shard_crew() { (void)end(); }

  // Messages of all shards so far.
  [[nodiscard]] shared_counter& arrived() noexcept { return arrived_; }
  // The shards are to end at their next message, or when their wait is over.
  void ask_to_end() noexcept { ends_ = true; }
  // Ends the threads and returns the shards.
  std::vector<receiver>& end() {
    ask_to_end();
    for (std::thread& each : threads_)
      each.join();
    threads_.clear();
    return shards_;
  }

  // After end(): what is wrong with what came of `senders` senders, 1 to n, of `each` messages; "" if nothing is.
  [[nodiscard]] std::string account(std::uint32_t senders, std::uint64_t each) const {
    std::string wrong;
    std::map<std::uint32_t, std::set<std::size_t>> shards_of;
    std::map<std::uint32_t, std::uint64_t> last;
    for (std::size_t shard = 0; shard < logs_.size(); ++shard) {
      wrong += logs_[shard].corrupt == 0 ? "" : "a broken message; ";
      for (const auto& [who, number] : logs_[shard].messages) {
        shards_of[who].insert(shard);
        if (number != ++last[who])
          wrong += std::to_string(who) + " skips or repeats " + std::to_string(number) + "; ";
      }
    }
    for (std::uint32_t who = 1; who <= senders; ++who) {
      if (last[who] != each)
        wrong += std::to_string(who) + " has " + std::to_string(last[who]) + " messages; ";
      if (shards_of[who].size() > 1)
        wrong += std::to_string(who) + " came to several shards; ";
    }
    return wrong.substr(0, 500);
  }
  // After end(): how many senders each shard had.
  [[nodiscard]] std::vector<std::size_t> senders_of() const {
    std::vector<std::size_t> counts;
    for (const log& of : logs_) {
      std::set<std::uint32_t> senders;
      for (const auto& one : of.messages)
        senders.insert(one.first);
      counts.push_back(senders.size());
    }
    return counts;
  }

 private:
  struct alignas(128) log {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> messages;
    std::size_t corrupt = 0;
  };

  void run(std::size_t i, std::chrono::nanoseconds sleep) {
    const auto take = [&](bytes_view message) {
      message_stamp stamp;
      if (!read_message(message, stamp)) {
        ++logs_[i].corrupt;
        return;
      }
      logs_[i].messages.emplace_back(stamp.sender, stamp.number);
      if (seen_)
        seen_(i, stamp);
      arrived_.add();
    };
    while (!ends_) {
      if (shards_[i].poll(take) == 0)
        (void)shards_[i].wait(sleep);
    }
  }

  std::vector<receiver> shards_;
  witness seen_;
  std::vector<log> logs_;
  shared_counter arrived_;
  std::atomic<bool> ends_{false};
  std::vector<std::thread> threads_;
};

}  // namespace atbus::test
