// The receiver's account of what arrived: everything, in order, untouched, or how much of it not.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "atbus/bench/message.h"

namespace atbus::bench {

struct verdict {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t lost = 0;
  std::uint64_t corrupt = 0;
  std::uint64_t reordered = 0;
};

// One thread. Messages of one sender must arrive in the order of their numbers.
class ledger {
 public:
  ledger(message_lengths lengths, std::size_t senders) : lengths_{lengths}, next_(senders) {
    for (std::size_t sender = 0; sender != senders; ++sender) {
      next_[sender] = first_word(sender, 0);
    }
  }

  template <check_kind Check>
  void take(std::span<const std::byte> message) noexcept {
    ++messages_;
    bytes_ += message.size();
    if constexpr (Check == check_kind::none) {
      return;
    }
    const std::uint64_t word =
        message.size() >= sizeof(std::uint64_t) ? load_word(message.data()) : ~std::uint64_t{0};
    const std::uint64_t sender = word >> number_bits;
    if (sender >= next_.size() || message.size() != lengths_.of(word) ||
        (Check == check_kind::full && !intact(word, message.data(), message.size()))) [[unlikely]] {
      take_corrupt();
      return;
    }
    std::uint64_t& next = next_[sender];
    if (word != next) [[unlikely]] {
      take_out_of_order(word, next);
      return;
    }
    ++next;
  }

  std::uint64_t messages() const noexcept { return messages_; }

  // Adds what another thread has received. A sender's messages came to one of the two.
  void add(const ledger& other) noexcept {
    for (std::size_t sender = 0; sender != next_.size(); ++sender) {
      next_[sender] = std::max(next_[sender], other.next_[sender]);
    }
    messages_ += other.messages_;
    bytes_ += other.bytes_;
    missing_ += other.missing_;
    corrupt_ += other.corrupt_;
    reordered_ += other.reordered_;
  }

  // `sent` holds how many messages each sender says it sent.
  verdict close(check_kind check, std::span<const std::uint64_t> sent) const noexcept {
    std::uint64_t all_sent = 0;
    std::uint64_t missing = missing_;
    for (std::size_t sender = 0; sender != sent.size(); ++sender) {
      const std::uint64_t seen = next_[sender] & number_mask;
      all_sent += sent[sender];
      missing += sent[sender] > seen ? sent[sender] - seen : 0;
    }
    if (check == check_kind::none) {
      missing = all_sent > messages_ ? all_sent - messages_ : 0;
    } else {
      // A corrupt message leaves a gap where it belonged; it did arrive.
      missing -= std::min(missing, corrupt_);
    }
    return {messages_, bytes_, missing, corrupt_, reordered_};
  }

 private:
  [[gnu::noinline, gnu::cold]] void take_corrupt() noexcept { ++corrupt_; }

  [[gnu::noinline, gnu::cold]] void take_out_of_order(std::uint64_t word,
                                                      std::uint64_t& next) noexcept {
    if (word > next) {
      missing_ += word - next;
      next = word + 1;
      return;
    }
    // Late, or a second time; the first fills a gap that was counted.
    ++reordered_;
    missing_ -= std::min<std::uint64_t>(missing_, 1);
  }

  message_lengths lengths_;
  std::vector<std::uint64_t> next_;  // by sender: the first word expected next
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t missing_ = 0;
  std::uint64_t corrupt_ = 0;
  std::uint64_t reordered_ = 0;
};

}  // namespace atbus::bench
