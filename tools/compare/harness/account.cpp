#include "harness/account.h"

#include <algorithm>

#include "harness/machine.h"

namespace atbus::compare {
namespace {

std::int64_t nanoseconds(double seconds) noexcept {
  return static_cast<std::int64_t>(seconds * 1e9);
}

}  // namespace

account::account(const options& run)
    : ledger_{run.lengths(), run.senders},
      paced_{run.paced},
      pause_after_ns_{run.pause_after < 0 ? -1 : nanoseconds(run.pause_after)},
      pause_for_ns_{nanoseconds(run.pause_for)},
      sent_(run.senders),
      marked_(run.senders),
      latency_max_(run.senders) {}

void account::take_marker(std::span<const std::byte> message) {
  const std::uint64_t sender = bench::load_word(message.data()) >> bench::number_bits;
  if (sender >= sent_.size() || marked_[sender]) {
    return;
  }
  sent_[sender] = bench::load_word(message.data() + sizeof(std::uint64_t));
  marked_[sender] = true;
  ++markers_;
  rest();
  cpu_ns_ = cpu_time_ns() - cpu_start_ns_;
}

void account::take_paced(std::span<const std::byte> message) {
  ledger_.take<bench::check_kind::sequence>(message);
  if (message.size() < paced_header_bytes) {
    return;  // the ledger has counted it as corrupt
  }
  const std::uint64_t word = bench::load_word(message.data());
  const std::uint64_t sender = word >> bench::number_bits;
  if (sender >= sent_.size()) {
    return;
  }
  if (!bench::intact(word + 2 * bench::detail::word_step, message.data() + paced_header_bytes,
                     message.size() - paced_header_bytes)) {
    ++paced_corrupt_;
    return;
  }
  const auto intended_ns =
      static_cast<std::int64_t>(bench::load_word(message.data() + sizeof(std::uint64_t)));
  const auto late =
      static_cast<std::uint64_t>(std::max<std::int64_t>(bench::now_ns() - intended_ns, 0));
  latency_.record(late);
  latency_max_[sender] = std::max(latency_max_[sender], late);
}

void account::rest() {
  if (messages_since_ != 0 && ledger_.messages() != messages_booked_) {
    book(bench::now_ns());
  }
}

void account::look() {
  const std::int64_t now = bench::now_ns();
  if (first_ns_ == 0) {
    first_ns_ = now;
    cpu_start_ns_ = cpu_time_ns();
  }
  book(now);
  if (pause_after_ns_ >= 0 && now - first_ns_ >= pause_after_ns_) {
    pause_after_ns_ = -1;
    bench::sleep_ns(pause_for_ns_);
  }
}

void account::book(std::int64_t now_ns) {
  last_ns_ = now_ns;
  const auto slice = static_cast<std::size_t>((now_ns - first_ns_) / slice_ns);
  if (slice >= slices_.size()) {
    slices_.resize(slice + 1);
    slice_bytes_.resize(slice + 1);
    cpu_ns_ = cpu_time_ns() - cpu_start_ns_;  // seldom: it is a system call
  }
  slices_[slice] += ledger_.messages() - messages_booked_;
  slice_bytes_[slice] += bytes_since_;
  messages_booked_ = ledger_.messages();
  messages_since_ = 0;
  bytes_since_ = 0;
}

bench::verdict account::close() const noexcept {
  bench::verdict found = ledger_.close(bench::check_kind::full, sent_);
  found.corrupt += paced_corrupt_;
  return found;
}

}  // namespace atbus::compare
