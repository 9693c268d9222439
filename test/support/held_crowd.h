// Many connections that are held for as long as the test likes, from a process of their own, and the rate that
// another peer keeps beside them.
#pragma once

#include <malloc.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "child_process.h"
#include "from_environment.h"
#include "plain_socket.h"
#include "sanitizer.h"
#include "shared_memory.h"
#include "stranger_crowd.h"
#include "stream_bytes.h"
#include "test.h"

namespace atbus::test {

// Each says the next byte of `words` once a second, and nothing once it has said all. All stay until the crowd is
// destroyed. From 127.0.0.3 to 127.0.0.6.
class held_crowd {
 public:
  held_crowd(std::string address, std::size_t count, std::string words)
      : address_(std::move(address)), count_(count), words_(std::move(words)), process_([this] {
          come();
          for (;;)
            stay();
          return 0;
        }) {}
  held_crowd(const held_crowd&) = delete;
  held_crowd& operator=(const held_crowd&) = delete;

  [[nodiscard]] std::size_t came() const noexcept { return seen_->came.get(); }
  // Connections that the other end has closed.
  [[nodiscard]] std::size_t lost() const noexcept { return seen_->lost.get(); }
  [[nodiscard]] std::size_t bytes_said() const noexcept { return seen_->bytes.get(); }

 private:
  struct counters {
    shared_counter came;
    shared_counter lost;
    shared_counter bytes;
  };
  struct member {
    plain_socket socket;
    std::size_t said = 0;
  };

  void come() {
    watch_ = plain_socket{::epoll_create1(EPOLL_CLOEXEC)};
    for (std::size_t i = 0; i != count_; ++i) {
      const std::string from = "ipv4://127.0.0." + std::to_string(3 + i % 4) + ":0";
      members_.push_back({plain_socket::connect(address_, from)});
      epoll_event interest{.events = EPOLLRDHUP | EPOLLONESHOT, .data = {}};
      (void)::epoll_ctl(watch_.fd(), EPOLL_CTL_ADD, members_.back().socket.fd(), &interest);
      seen_->came.add();
    }
    began_ = std::chrono::steady_clock::now();
  }
  // For 10 ms at most.
  void stay() {
    std::array<epoll_event, 64> ended{};
    const int n = ::epoll_wait(watch_.fd(), ended.data(), static_cast<int>(ended.size()),
                               words_.empty() ? 10 : 1);
    seen_->lost.add(static_cast<std::uint32_t>(std::max(n, 0)));
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - began_;
    const auto due = static_cast<std::size_t>(since.count() * static_cast<double>(count_));
    for (; turns_ < due; ++turns_)
      speak(members_[turns_ % count_]);
  }
  void speak(member& of) {
    if (of.said == words_.size())
      return;
    if (::send(of.socket.fd(), words_.data() + of.said++, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
      seen_->bytes.add();
  }

  const std::string address_;
  const std::size_t count_;
  const std::string words_;
  shared<counters> seen_;
  // Of the crowd's process.
  plain_socket watch_;
  std::vector<member> members_;
  std::chrono::steady_clock::time_point began_;
  std::size_t turns_ = 0;
  child_process process_;
};

// What an honest peer says first, without its end: the frame of a hello, or the record of a client's hello.
inline std::string begun_hello(bool encrypted) {
  if (!encrypted)
    return std::string{as_text(detail::opened_stream(true))}.substr(0, 39);
  return std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(300, 'x');
}

// Measures the rate of a peer that sends as fast as it can, without and beside a crowd, in turns.
class good_peer_rounds {
 public:
  // `turn`: receives what is there. `heard`: messages of the good peer so far.
  good_peer_rounds(std::function<void()> turn, std::function<std::uint64_t()> heard)
      : turn_(std::move(turn)), heard_(std::move(heard)) {}

  // ATBUS_HOSTILE_SECONDS: of each measurement; 0, the default: 200 ms, too little for a claim.
  [[nodiscard]] static std::uint64_t seconds() {
    return from_environment("ATBUS_HOSTILE_SECONDS", 0);
  }

  // One crowd comes, stays for one measurement and leaves. `held`: how many the tested side has.
  void round(const std::string& address, std::size_t count, const std::string& words,
             const std::function<std::size_t()>& held) {
    if (quiet_.empty())
      quiet_.push_back(measure());
    const std::size_t before = given_back();
    {
      const held_crowd crowd{address, count, words};
      EXPECT_TRUE(until([&] { return held() == count; })) << held() << " of " << count;
      beside_.push_back(measure());
      most_ = std::max(most_, resident_bytes() - std::min(before, resident_bytes()));
      EXPECT_EQ(held(), count);
      EXPECT_EQ(crowd.lost(), 0U);
      if (!words.empty() && seconds() != 0) {
        EXPECT_GE(crowd.bytes_said(), count * seconds() / 2);
      }
    }
    EXPECT_TRUE(until([&] { return held() == 0; })) << held() << " are still there";
    quiet_.push_back(measure());
    const std::size_t after = given_back();
    kept_ = std::max(kept_, after - std::min(before, after));
  }
  // Of the rate without a crowd, the one before and the one after it taken together.
  [[nodiscard]] std::vector<double> shares() const { return shares_of(&figures::rate); }
  // The same of messages per second of this process's CPU time.
  [[nodiscard]] std::vector<double> cpu_shares() const {
    return shares_of(&figures::per_cpu_second);
  }
  [[nodiscard]] double quiet_rate() const { return quiet_.front().rate; }
  [[nodiscard]] std::size_t most_memory() const noexcept { return most_; }
  [[nodiscard]] std::size_t kept_memory() const noexcept { return kept_; }

 private:
  struct figures {
    double rate = 0;
    double per_cpu_second = 0;
  };
  using clock = std::chrono::steady_clock;

  template <class Done>
  [[nodiscard]] bool until(Done&& done) {
    // To look may take as long as many turns.
    for (const auto end = clock::now() + std::chrono::seconds{120}; !done();) {
      if (clock::now() > end)
        return false;
      for (const auto next = clock::now() + std::chrono::milliseconds{200}; clock::now() < next;)
        turn_();
    }
    return true;
  }
  [[nodiscard]] static double cpu_seconds() {
    rusage used{};
    (void)getrusage(RUSAGE_SELF, &used);
    const auto seconds_of = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  }
  [[nodiscard]] figures measure() {
    const auto begin = clock::now();
    const auto end = begin + (seconds() == 0 ? std::chrono::milliseconds{200}
                                             : std::chrono::milliseconds{1000 * seconds()});
    const double cpu = cpu_seconds();
    const std::uint64_t before = heard_();
    while (clock::now() < end)
      turn_();
    const auto messages = static_cast<double>(heard_() - before);
    const std::chrono::duration<double> took = clock::now() - begin;
    return {messages / took.count(), messages / (cpu_seconds() - cpu)};
  }
  [[nodiscard]] static std::size_t given_back() {
    malloc_trim(0);
    return resident_bytes();
  }
  [[nodiscard]] std::vector<double> shares_of(double figures::*which) const {
    std::vector<double> all;
    for (std::size_t i = 0; i != beside_.size(); ++i)
      all.push_back(2 * beside_[i].*which / (quiet_[i].*which + quiet_[i + 1].*which));
    std::sort(all.begin(), all.end());
    return all;
  }

  const std::function<void()> turn_;
  const std::function<std::uint64_t()> heard_;
  std::vector<figures> quiet_;  // one more than of beside_
  std::vector<figures> beside_;
  std::size_t most_ = 0;
  std::size_t kept_ = 0;
};

// What a crowd of `count` may cost and take away.
inline void expect_weathered(const good_peer_rounds& of, const char* name, std::size_t count) {
  const std::vector<double> shares = of.shares();
  const std::vector<double> cpu = of.cpu_shares();
  std::printf(
      "%s, %zu held: %.0f msg/s without; beside %.0f %% of that (%.0f to %.0f), per CPU second "
      "%.0f %% "
      "(%.0f to %.0f); memory %.1f KiB each, kept %zu KiB\n",
      name, count, of.quiet_rate(), 100 * shares[shares.size() / 2], 100 * shares.front(),
      100 * shares.back(), 100 * cpu[cpu.size() / 2], 100 * cpu.front(), 100 * cpu.back(),
      static_cast<double>(of.most_memory()) / 1024 / static_cast<double>(count),
      of.kept_memory() >> 10);
  if (good_peer_rounds::seconds() != 0) {
    EXPECT_GE(shares[shares.size() / 2], 0.8);
  }
  if (!has_sanitizer) {  // which keeps memory that was given back
    constexpr std::size_t noise = std::size_t{24} << 20;
    EXPECT_LE(of.most_memory(), count * 64 * 1024 + noise);
    EXPECT_LE(of.kept_memory(), noise);
  }
}

}  // namespace atbus::test
