// A client of `bench request`: keeps so many requests in flight, or sends each when it is due.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "atbus/bench/node_open.h"
#include "atbus/bench/pace.h"
#include "atbus/bench/request_body.h"
#include "atbus/bench/request_tally.h"
#include "atbus/bench/request_type.h"
#include "atbus/bench/resource_usage.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

class request_client {
 public:
  explicit request_client(worker& self)
      : self_{self},
        work_{self.work()},
        tally_{tally_of_client(self.block(), self.index())},
        body_{std::max<std::size_t>(work_.size, request_body::shortest)},
        bytes_(work_.size),
        slots_(work_.requests.in_flight),
        free_(work_.requests.in_flight),
        at_{open_node(self, self.index())} {
    std::iota(free_.begin(), free_.end(), std::uint32_t{0});
    at_.on_writable([this](bus_id) { blocked_ = false; });
  }

  // False: the run was stopped first.
  [[nodiscard]] bool connect() { return bench::connect(self_, at_); }

  void run() {
    const std::int64_t cpu_before_ns = process_usage().cpu_ns;
    const pace paced{work_, self_.start_ns()};
    while (!self_.stopped()) {
      const std::uint64_t sent_before = sent_;
      const std::uint64_t told_before = told_;
      send_due(paced);
      at_.poll();
      if (told_ != told_before) {
        self_.progress(tally_.answered);
      } else if (sent_ == sent_before) {
        rest_until_due(paced);
      }
    }
    is_over_ = true;
    tally_.elapsed_ns = now_ns() - self_.start_ns();
    tally_.cpu_ns = process_usage().cpu_ns - cpu_before_ns;
    tally_.unsent = count_unsent();
    wait_for_the_last();
    static_cast<void>(at_.shutdown(std::chrono::seconds{1}));
    self_.finish({.messages = tally_.answered, .corrupt = tally_.corrupt});
  }

 private:
  static constexpr std::uint32_t sent_a_poll = 64;
  static constexpr std::uint64_t many = 64;
  static constexpr std::int64_t untimed = 0;
  static constexpr std::int64_t pause_after_refusal_ns = 1'000'000;
  static constexpr std::int64_t longest_rest_ns = 50'000'000;
  static constexpr std::int64_t retry_ns = 1'000'000;  // after would_block, if nothing comes

  struct slot {
    std::int64_t since_ns;  // when it was sent, or was meant to be
    std::uint64_t number;
  };

  void send_due(const pace& paced) {
    const std::uint64_t who = self_.index() - 1;
    for (std::uint32_t i = 0; i != sent_a_poll && !blocked_ && !free_.empty(); ++i) {
      // With many in flight each eighth is timed: a reading of the clock costs a tenth of a request.
      const bool is_timed = paced.limited() || work_.requests.in_flight < many || sent_ % 8 == 0;
      std::int64_t since_ns = is_timed ? recent_ns_ = now_ns() : untimed;
      if (recent_ns_ < pause_until_ns_) {
        recent_ns_ = now_ns();
        return;
      }
      if (paced.limited()) {
        const std::int64_t intended_ns = paced.intended_ns(who, sent_);
        if (intended_ns > since_ns) {
          return;
        }
        since_ns = intended_ns;
      }
      send(first_word(who, sent_), since_ns);
    }
  }

  void send(std::uint64_t word, std::int64_t since_ns) {
    const std::uint32_t index = free_.back();
    const request_handle sent =
        at_.request(node_of_worker(work_, 0), type_of_requests, body(word),
                    std::chrono::nanoseconds{work_.requests.timeout_ns},
                    [this, index](const response& outcome) { tell(index, outcome); });
    if (!sent) {
      require_full(sent.why());
      ++tally_.blocked;
      blocked_ = true;
      return;
    }
    free_.pop_back();
    slots_[index] = {since_ns, word};
    ++sent_;
  }

  bytes_view body(std::uint64_t word) noexcept {
    if (work_.requests.fan_out != 0) {
      return as_bytes(body_.of(word));
    }
    fill(word, bytes_.data(), bytes_.size());
    return bytes_;
  }

  void tell(std::uint32_t index, const response& outcome) {
    if (has_given_up_) {
      return;
    }
    ++told_;
    free_.push_back(index);
    const slot& asked = slots_[index];
    const std::int64_t now = asked.since_ns == untimed ? recent_ns_ : recent_ns_ = now_ns();
    if (outcome) {
      if (!is_right(asked.number, outcome.bytes())) {
        ++tally_.corrupt;
        return;
      }
      count_answer(asked, now);
    } else if (outcome.how() == errc::request_failed && outcome.text() == busy_text) {
      ++tally_.refused;
      pause_until_ns_ = now + pause_after_refusal_ns;
    } else {
      ++(outcome.how() == errc::timed_out ? tally_.timed_out : tally_.failed);
    }
  }

  void count_answer(const slot& asked, std::int64_t now) noexcept {
    if (asked.since_ns != untimed) {
      tally_.latency.record(
          static_cast<std::uint64_t>(std::max<std::int64_t>(now - asked.since_ns, 0)));
    }
    if (is_over_) {
      ++tally_.answered_late;
      return;
    }
    ++tally_.answered;
    const std::int64_t part_ns =
        std::max<std::int64_t>(work_.duration_ns / std::int64_t{client_tally::parts}, 1);
    const std::int64_t part = std::max<std::int64_t>(now - self_.start_ns(), 0) / part_ns;
    if (part < std::int64_t{client_tally::parts}) {
      ++tally_.answered_in_part[static_cast<std::size_t>(part)];
    }
  }

  bool is_right(std::uint64_t word, bytes_view reply) noexcept {
    if (work_.requests.fan_out != 0) {
      return as_text(reply) == body_.of(word);
    }
    return reply.size() == work_.requests.reply_size && load_word(reply.data()) == word &&
           intact(word, reply.data(), reply.size());
  }

  void rest_until_due(const pace& paced) {
    std::int64_t rest_ns = blocked_ || pause_until_ns_ > now_ns() ? retry_ns : longest_rest_ns;
    if (paced.limited() && !free_.empty() && !blocked_) {
      rest_ns = std::min(rest_ns, paced.intended_ns(self_.index() - 1, sent_) - now_ns());
    }
    if (work_.sleep && rest_ns > 0) {
      static_cast<void>(at_.wait(std::chrono::nanoseconds{rest_ns}));
    } else if (self_.shares_core()) {
      sched_yield();
    }
    blocked_ = false;
  }

  [[nodiscard]] std::uint64_t count_unsent() const noexcept {
    // Those of the last moment are no omission.
    constexpr std::int64_t moment_ns = 1'000'000;
    const std::int64_t until_ns =
        std::max<std::int64_t>(std::min(tally_.elapsed_ns, work_.duration_ns) - moment_ns, 0);
    const double due =
        static_cast<double>(until_ns) / 1e9 * static_cast<double>(work_.rate) / work_.senders;
    return work_.rate == 0
               ? 0
               : static_cast<std::uint64_t>(due) - std::min(static_cast<std::uint64_t>(due), sent_);
  }

  // Their times count, too: without them, the slowest would be left out.
  void wait_for_the_last() {
    constexpr std::int64_t patience_ns = 4 * ns_per_s;
    const std::int64_t until = now_ns() + std::min(work_.requests.timeout_ns, patience_ns);
    while (free_.size() != slots_.size() && now_ns() < until) {
      at_.poll();
      static_cast<void>(at_.wait(std::chrono::milliseconds{1}));
    }
    tally_.unanswered = slots_.size() - free_.size();
    has_given_up_ = true;
  }

  worker& self_;
  const workload& work_;
  client_tally& tally_;
  request_body body_;
  std::vector<std::byte> bytes_;
  std::vector<slot> slots_;
  std::vector<std::uint32_t> free_;
  std::uint64_t sent_ = 0;
  std::uint64_t told_ = 0;
  std::int64_t pause_until_ns_ = 0;
  std::int64_t recent_ns_ = 0;  // the last reading of the clock
  bool blocked_ = false;
  bool is_over_ = false;
  bool has_given_up_ = false;
  node at_;  // ends first: its calls use the others
};

}  // namespace

void send_requests(worker& self) {
  if (!self.wait_for(0, worker_state::listening)) {
    return;
  }
  request_client client{self};
  if (client.connect() && self.wait_for_start()) {
    client.run();
  }
}

}  // namespace atbus::bench
