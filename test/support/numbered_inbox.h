// A receiver of numbered messages, and the loop around it: what came of whom, in which order, and
// whether every byte was right.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "numbered_message.h"
#include "shared_memory.h"

namespace atbus::test {

// Bytes of message `number`: mostly short, sometimes of many pages.
[[nodiscard]] inline std::size_t numbered_size(std::uint64_t number) noexcept {
  return smallest_message + (number % 10 == 9 ? 20'000 + number % 20'000 : number * 37 % 1000);
}

[[nodiscard]] inline status send_number(sender& out, std::uint32_t who, std::uint64_t number,
                                        std::size_t size) {
  auto slot = out.claim(size);
  if (!slot)
    return slot.why();
  write_message(slot.bytes(), who, number);
  slot.commit();
  return {};
}

class numbered_inbox {
 public:
  explicit numbered_inbox(receiver inbox) : inbox_(std::move(inbox)) {
    inbox_.on_problem([this](const error& e) { problems_.push_back(e.text()); });
  }
  numbered_inbox(const numbered_inbox&) = delete;
  numbered_inbox& operator=(const numbered_inbox&) = delete;

  receiver* operator->() noexcept { return &inbox_; }

  // Receives until `done()`, with `turn()` in between; false when the time is up.
  template <class Done, class Turn>
  [[nodiscard]] bool until(Done&& done, Turn&& turn, std::chrono::nanoseconds longest = patience) {
    const auto end = std::chrono::steady_clock::now() + longest;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end)
        return false;
      turn();
      if (inbox_.poll([this](bytes_view m) { take(m); }) == 0)
        (void)inbox_.wait(std::chrono::milliseconds{1});
    }
    return true;
  }
  template <class Done>
  [[nodiscard]] bool until(Done&& done) {
    return until(done, [] {});
  }
  // Sends messages `first` to `last` while it receives; false when the time is up or sending fails.
  [[nodiscard]] bool carry(sender& out, std::uint32_t who, std::uint64_t first,
                           std::uint64_t last) {
    std::uint64_t next = first;
    status sent;
    return until([&] { return next > last || (!sent && sent != errc::would_block); },
                 [&] {
                   sent = send_number(out, who, next, numbered_size(next));
                   next += sent ? 1 : 0;
                   (void)out.flush();
                 }) &&
           next > last;
  }
  // Receives until all up to `last` of this one came.
  [[nodiscard]] bool until_number(sender& out, std::uint32_t who, std::uint64_t last) {
    return until([&] { return !of(who).empty() && of(who).back() >= last; },
                 [&] { (void)out.flush(); });
  }

  // The numbers of its messages, as they came.
  [[nodiscard]] const std::vector<std::uint64_t>& of(std::uint32_t who) { return numbers_[who]; }
  // 1, 2, ... `last`.
  [[nodiscard]] static std::vector<std::uint64_t> all_up_to(std::uint64_t last) {
    std::vector<std::uint64_t> numbers(last);
    std::iota(numbers.begin(), numbers.end(), 1);
    return numbers;
  }
  // Messages that nobody sent like that.
  [[nodiscard]] std::size_t corrupt() const noexcept { return corrupt_; }
  [[nodiscard]] const std::vector<std::string>& problems() const noexcept { return problems_; }

 private:
  void take(bytes_view message) {
    message_stamp stamp;
    if (read_message(message, stamp)) {
      numbers_[stamp.sender].push_back(stamp.number);
    } else {
      ++corrupt_;
    }
  }

  receiver inbox_;
  std::map<std::uint32_t, std::vector<std::uint64_t>> numbers_;
  std::size_t corrupt_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace atbus::test
