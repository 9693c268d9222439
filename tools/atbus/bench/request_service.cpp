// The service of `bench request`: a node that replies at once, or from a coroutine that decodes JSON,
// waits for many tasks and encodes it again.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <deque>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "atbus/bench/memory_gate.h"
#include "atbus/bench/memory_reserve.h"
#include "atbus/bench/node_open.h"
#include "atbus/bench/request_tally.h"
#include "atbus/bench/request_type.h"
#include "atbus/bench/resource_usage.h"
#include "atbus/bench/round_trip.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

// What RLIMIT_DATA counts of this process, and its stack: the sixth field of proc_pid_statm(5).
class data_of_process {
 public:
  data_of_process() : descriptor_{open("/proc/self/statm", O_RDONLY | O_CLOEXEC)} {
    if (descriptor_ < 0) {
      throw std::runtime_error("/proc/self/statm can't be read; --memory needs it");
    }
  }
  ~data_of_process() { close(descriptor_); }
  data_of_process(const data_of_process&) = delete;
  data_of_process& operator=(const data_of_process&) = delete;

  [[nodiscard]] std::uint64_t bytes() const noexcept {
    char text[128];
    const ssize_t length = pread(descriptor_, text, sizeof text - 1, 0);
    if (length <= 0) {
      return 0;
    }
    text[length] = '\0';
    std::uint64_t pages = 0;
    std::sscanf(text, "%*u %*u %*u %*u %*u %" SCNu64, &pages);
    return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }

 private:
  int descriptor_;
};

// Vigna's xorshift64*, as in pool_task.cpp.
class random_delays {
 public:
  explicit random_delays(const request_workload& of) noexcept
      : min_ns_{of.delay_min_ns},
        width_ns_{static_cast<std::uint64_t>(of.delay_max_ns - of.delay_min_ns) + 1} {}

  std::chrono::nanoseconds next() noexcept {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const std::uint64_t drawn = state_ * 0x2545f4914f6cdd1dULL;
    return std::chrono::nanoseconds{min_ns_ + static_cast<std::int64_t>(drawn % width_ns_)};
  }

 private:
  std::int64_t min_ns_;
  std::uint64_t width_ns_;
  std::uint64_t state_ = 0x9e3779b97f4a7c15ULL;
};

class request_service {
 public:
  explicit request_service(worker& self)
      : self_{self},
        work_{self.work().requests},
        tally_{tally_of_service(self.block())},
        gate_{work_.memory_bytes},
        reserve_{gate_.is_bounded() ? work_.memory_bytes / 10 : 0},
        delays_{work_},
        at_{open_node(self, self.index())} {
    at_.on_request(type_of_requests, [this](request& asked) { take(asked); });
    listen(self, at_, self.work().address.data());
    poll_until_ready(self, at_);
  }

  // From here on an allocation beyond the limit fails.
  void limit_memory() {
    if (!gate_.is_bounded()) {
      return;
    }
    const std::uint64_t used = data_.bytes();
    if (used >= work_.memory_bytes / 5 * 3) {
      throw std::runtime_error("the service has " + std::to_string(used >> 10) +
                               " KiB before its first request: too much for --memory");
    }
    const rlimit limit{work_.memory_bytes, work_.memory_bytes};
    if (setrlimit(RLIMIT_DATA, &limit) != 0) {
      throw std::runtime_error("setrlimit: RLIMIT_DATA can't be set");
    }
  }

  void run() {
    const std::int64_t cpu_before_ns = process_usage().cpu_ns;
    while (!senders_have_reached(self_, worker_state::finished)) {
      if (self_.stopped() && tally_.elapsed_ns == 0) {
        tally_.elapsed_ns = now_ns() - self_.start_ns();
        tally_.cpu_ns = process_usage().cpu_ns - cpu_before_ns;
      }
      const std::uint64_t before = taken_;
      poll();
      answer_late();
      begin_held();
      measure();
      self_.progress(taken_);
      if (room() == 0) {
        sleep_ns(pause_when_full_ns);  // `wait` would return at once: requests are there
      } else if (taken_ == before) {
        wait_a_moment(self_, at_);
      }
    }
    tally_.in_hand_limit = gate_.has_closed() ? gate_.most() : 0;
    self_.finish({.messages = taken_, .corrupt = corrupt_});
  }

 private:
  // Requests that are kept and not begun: those which end are followed at once, and a poll that has
  // to take one has to refuse none for half a second.
  static constexpr std::uint64_t held_max = 1024;
  static constexpr std::uint64_t messages_a_poll_max = 256;
  static constexpr std::int64_t pause_when_full_ns = 500'000;

  // Of its memory: measured again after it may have grown by so much, and for requests that are held.
  static constexpr std::uint64_t step_part = 64;
  static constexpr std::uint64_t held_part = 32;

  struct held_request {
    request asked;
    std::string text;
  };

  // A reply that found no room.
  struct late_reply {
    request asked;
    std::uint64_t word;
  };

  struct in_hand_guard {
    explicit in_hand_guard(request_service& service) noexcept : of{service} {
      of.tally_.in_hand_max = std::max(of.tally_.in_hand_max, ++of.in_hand_);
    }
    ~in_hand_guard() { --of.in_hand_; }
    in_hand_guard(const in_hand_guard&) = delete;
    in_hand_guard& operator=(const in_hand_guard&) = delete;
    request_service& of;
  };

  [[nodiscard]] std::uint64_t room() const noexcept {
    if (!gate_.has_closed()) {
      return messages_a_poll_max;
    }
    if (held_bytes_ > work_.memory_bytes / held_part / 2) {
      return 0;
    }
    const std::uint64_t most = gate_.most() + held_max;
    return most - std::min(most, in_hand_ + held_.size());
  }

  // What does not fit stays where it is: in the lane or the socket, and then with the client, which
  // gets would_block. One message a poll is the least with which coroutines wake.
  void poll() {
    try {
      if (gate_.is_bounded() && work_.fan_out != 0) {
        at_.poll(
            {.messages = std::clamp<std::size_t>(room(), std::size_t{1}, messages_a_poll_max)});
      } else {
        at_.poll();
      }
    } catch (const std::bad_alloc&) {
      note_out_of_memory();
    }
  }

  void note_out_of_memory() noexcept {
    ++tally_.out_of_memory;
    gate_.failed(in_hand_);
  }

  void take(request& asked) {
    ++taken_;
    if (work_.fan_out == 0) {
      return reply(asked);
    }
    const std::string_view text = asked.text();  // none after detach
    try {
      if (may_begin()) {
        begin(asked.detach(), text);
      } else if (held_.size() < held_max &&
                 held_bytes_ + text.size() <= work_.memory_bytes / held_part) {
        std::string kept{text};
        held_bytes_ += kept.size();
        held_.push_back({.asked = asked.detach(), .text = std::move(kept)});
      } else {
        ++tally_.refused;
        static_cast<void>(asked.fail(busy_text));
      }
    } catch (const std::bad_alloc&) {  // the request is dropped, which fails it
      note_out_of_memory();
    }
  }

  [[nodiscard]] bool may_begin() noexcept { return in_hand_ < gate_.most() && reserve_.is_full(); }

  void begin(request asked, std::string_view text) {
    constexpr std::uint64_t bytes_of_a_task = 512;  // about, as the next
    constexpr std::uint64_t decoded_bytes_a_byte = 8;
    const std::uint64_t grown =
        text.size() * decoded_bytes_a_byte + work_.fan_out * bytes_of_a_task;
    at_.spawn(answer(std::move(asked), text));
    not_measured_bytes_ += grown;
    if (not_measured_bytes_ > work_.memory_bytes / step_part) {
      measure();
    }
  }

  void begin_held() {
    while (!held_.empty() && may_begin()) {
      held_request next = std::move(held_.front());
      held_.pop_front();
      held_bytes_ -= next.text.size();
      try {
        begin(std::move(next.asked), next.text);
      } catch (const std::bad_alloc&) {
        note_out_of_memory();
      }
    }
  }

  // Without a fan-out: the words of the request continued to the length of a reply.
  void reply(request& asked) {
    const bytes_view bytes = asked.bytes();
    if (bytes.size() != self_.work().size ||
        !intact(load_word(bytes.data()), bytes.data(), bytes.size())) {
      ++corrupt_;
      static_cast<void>(asked.fail("damaged"));
      return;
    }
    const std::uint64_t word = load_word(bytes.data());
    if (!write_reply(asked, word)) {
      late_.push_back({.asked = asked.detach(), .word = word});
    }
  }

  // False: there is no room for it yet.
  bool write_reply(request& to, std::uint64_t word) noexcept {
    response_slot slot = to.claim(work_.reply_size);
    if (!slot) {
      return slot.why() != errc::would_block;
    }
    fill(word, slot.bytes().data(), slot.bytes().size());
    slot.commit();
    return true;
  }

  void answer_late() {
    while (!late_.empty() && write_reply(late_.front().asked, late_.front().word)) {
      late_.pop_front();
    }
  }

  // `text` is valid until this first waits.
  atbus::task<> answer(request asked, std::string_view text) {
    const in_hand_guard guard{*this};
    try {
      const nlohmann::json document = nlohmann::json::parse(text);
      std::vector<atbus::task<>> tasks;
      tasks.reserve(work_.fan_out);
      for (std::uint32_t i = 0; i != work_.fan_out; ++i) {
        tasks.push_back(pause(delays_.next()));
      }
      co_await when_all(std::move(tasks));
      const std::string encoded = document.dump();
      while (asked.reply(encoded) == errc::would_block && asked.is_wanted()) {
        static_cast<void>(co_await at_.sleep(std::chrono::milliseconds{1}));
      }
    } catch (const nlohmann::json::exception&) {
      ++corrupt_;
      static_cast<void>(asked.fail("the body is no JSON"));
    } catch (const std::bad_alloc&) {
      note_out_of_memory();
      static_cast<void>(asked.fail("out of memory"));
    }
  }

  atbus::task<> pause(std::chrono::nanoseconds time) {
    static_cast<void>(co_await at_.sleep(time));
  }

  void measure() noexcept {
    not_measured_bytes_ = 0;
    if (gate_.is_bounded()) {
      if (!reserve_.is_full()) {
        gate_.failed(in_hand_);
      }
      const std::uint64_t bytes = data_.bytes();
      tally_.data_bytes_max = std::max(tally_.data_bytes_max, bytes);
      gate_.measured(bytes, in_hand_);
    }
  }

  worker& self_;
  const request_workload& work_;
  service_tally& tally_;
  data_of_process data_;
  memory_gate gate_;
  memory_reserve reserve_;
  random_delays delays_;
  std::uint64_t taken_ = 0;
  std::uint64_t corrupt_ = 0;
  std::uint64_t in_hand_ = 0;             // begun, without an answer
  std::uint64_t not_measured_bytes_ = 0;  // that may have been allocated since the last measurement
  std::uint64_t held_bytes_ = 0;
  std::deque<held_request> held_;
  std::deque<late_reply> late_;
  node at_;  // ends first: it resumes coroutines that use the others
};

}  // namespace

void serve_requests(worker& self) {
  request_service service{self};
  service.limit_memory();
  if (self.wait_for_start()) {
    service.run();
  }
}

}  // namespace atbus::bench
