// Requests and replies, for any system: a client that keeps so many in flight, and a service that
// replies with what it was asked, at once or after a fan-out. An adapter is a struct with
//
//   class client {
//    public:
//     explicit client(const options& run);         // connects
//     bool ask(std::span<const std::byte> body);   // false: refused, nothing has happened
//     // Sends what is asked, hands on replies: handler(std::span<const std::byte>). When there is
//     // none, sleeps for at most `patience`.
//     template <class Handler> void poll(Handler&& handler, std::chrono::milliseconds patience);
//   };
//
// and, unless another program is the service, either `static void serve(const options& run)`, which
// says that it is ready and returns once terminated(), or
//
//   class service {
//    public:
//     using caller = ...;                          // to whom a reply goes; can be moved
//     explicit service(const options& run);        // binds
//     // As a client's: handler(caller, std::span<const std::byte>).
//     template <class Handler> void poll(Handler&& handler, std::chrono::milliseconds patience);
//     void reply(caller& to, std::span<const std::byte> body);
//   };
#pragma once

#include <charconv>
#include <optional>
#include <span>
#include <string_view>

#include "atbus/bench/request_body.h"
#include "harness/fan_out.h"
#include "harness/roles.h"

namespace atbus::compare {

inline std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The bodies of the requests of a run, each with a number: JSON if the service is to fan out.
class numbered_bodies {
 public:
  explicit numbered_bodies(const options& run)
      : is_json_{run.fan_out != 0},
        json_{std::max<std::size_t>(run.bytes_max, bench::request_body::shortest)},
        bytes_(run.bytes_max) {}

  std::span<const std::byte> of(std::uint64_t number) noexcept {
    if (is_json_) {
      return bytes_of(json_.of(number));
    }
    bench::fill(number, bytes_.data(), bytes_.size());
    return bytes_;
  }

  // Empty: it is none of them, or damaged.
  std::optional<std::uint64_t> number_of(std::span<const std::byte> body) noexcept {
    if (body.size() != bytes_.size()) {
      return std::nullopt;
    }
    if (!is_json_) {
      const std::uint64_t number = bench::load_word(body.data());
      return bench::intact(number, body.data(), body.size()) ? std::optional{number} : std::nullopt;
    }
    std::uint64_t number = 0;
    const char* const at = text_of(body).data() + bench::request_body::number_at;
    const char* const end = at + bench::request_body::number_digits;
    const auto [stop, code] = std::from_chars(at, end, number, 16);
    return code == std::errc{} && stop == end && text_of(body) == json_.of(number)
               ? std::optional{number}
               : std::nullopt;
  }

 private:
  bool is_json_;
  bench::request_body json_;
  std::vector<std::byte> bytes_;
};

// What is in flight, and what came of it.
class asked_requests {
 public:
  explicit asked_requests(const options& run)
      : bodies_{run}, since_ns_(run.in_flight), rounds_(run.in_flight) {
    for (std::uint64_t slot = run.in_flight; slot-- != 0;) {
      free_.push_back(slot);
    }
  }

  template <class Client>
  void ask_all(Client& through) {
    while (!free_.empty()) {
      const std::uint64_t slot = free_.back();
      const std::int64_t now = bench::now_ns();
      if (!through.ask(bodies_.of(rounds_[slot] * since_ns_.size() + slot))) {
        return;
      }
      since_ns_[slot] = now;
      free_.pop_back();
    }
  }

  void take(std::span<const std::byte> reply, std::int64_t start_ns) {
    const auto number = bodies_.number_of(reply);
    const std::uint64_t slot = number.value_or(0) % since_ns_.size();
    if (!number || *number / since_ns_.size() != rounds_[slot]) {
      ++totals.corrupt;
      return;
    }
    const std::int64_t now = bench::now_ns();
    totals.latency.record(static_cast<std::uint64_t>(now - since_ns_[slot]));
    ++rounds_[slot];
    free_.push_back(slot);
    if (is_over) {
      return;
    }
    ++totals.answered;
    const auto slice = static_cast<std::size_t>((now - start_ns) / slice_ns);
    totals.slices.resize(std::max(totals.slices.size(), slice + 1));
    ++totals.slices[slice];
  }

  // What has come so far does not count, but what was damaged.
  void begin_anew() {
    ask_totals fresh;
    fresh.corrupt = totals.corrupt;
    totals = std::move(fresh);
    is_over = false;
  }

  std::uint64_t in_flight() const noexcept { return since_ns_.size() - free_.size(); }

  ask_totals totals;
  bool is_over = false;  // replies are late from now on

 private:
  numbered_bodies bodies_;
  std::vector<std::int64_t> since_ns_;
  std::vector<std::uint64_t> rounds_;
  std::vector<std::uint64_t> free_;
};

// Asks for so long, and hands replies to take(std::span<const std::byte>).
template <class Client, class Take>
void ask_for(double seconds, Client& through, asked_requests& asked, Take& take) {
  const std::int64_t end_ns = bench::now_ns() + static_cast<std::int64_t>(seconds * 1e9);
  while (bench::now_ns() < end_ns && !terminated()) {
    asked.ask_all(through);
    through.poll(take, sleep_at_most);
  }
}

template <class Client, class Take>
void wait_for_the_last(const options& run, Client& through, asked_requests& asked, Take& take) {
  const std::int64_t last_ns =
      bench::now_ns() + static_cast<std::int64_t>(run.patience * 1e9) + run.delay_max_us * 1000;
  asked.is_over = true;
  while (asked.in_flight() != 0 && bench::now_ns() < last_ns) {
    through.poll(take, sleep_at_most);
  }
}

template <class System>
ask_totals ask(const options& run) {
  typename System::client through{run};
  asked_requests asked{run};
  std::int64_t start_ns = 0;
  auto take = [&](std::span<const std::byte> reply) { asked.take(reply, start_ns); };
  if (run.warm_up > 0) {
    asked.is_over = true;
    ask_for(run.warm_up, through, asked, take);
    wait_for_the_last(run, through, asked, take);
    asked.begin_anew();
  }
  say_ready();
  wait_for_go();
  start_ns = bench::now_ns();
  const std::int64_t cpu_before_ns = cpu_time_ns();
  ask_for(run.seconds, through, asked, take);
  asked.totals.duration_ns = bench::now_ns() - start_ns;
  asked.totals.cpu_ns = cpu_time_ns() - cpu_before_ns;
  wait_for_the_last(run, through, asked, take);
  asked.totals.unanswered = asked.in_flight();
  return asked.totals;
}

template <class System>
void serve(const options& run) {
  if constexpr (requires { System::serve(run); }) {
    System::serve(run);
  } else if constexpr (requires { typename System::service; }) {
    typename System::service at{run};
    numbered_bodies bodies{run};
    waiting_requests<typename System::service::caller> waiting{run};
    const auto reply = [&](auto& to, std::span<const std::byte> body) { at.reply(to, body); };
    say_ready();
    while (!terminated()) {
      at.poll(
          [&](typename System::service::caller from, std::span<const std::byte> body) {
            if (run.fan_out != 0) {
              waiting.begin(std::move(from), text_of(body));
            } else if (bodies.number_of(body)) {
              at.reply(from, body);
            } else {
              throw std::runtime_error("a request was damaged");
            }
          },
          waiting.until_due(sleep_at_most));
      waiting.reply_due(reply);
    }
  } else {
    throw std::runtime_error("another program is the service");
  }
}

template <class System>
int run_asking(int argc, char** argv) {
  try {
    watch_for_termination();
    const options run = parse_options(argc, argv);
    if (run.what == role::serve) {
      serve<System>(run);
      std::puts("{}");
    } else if (run.what == role::ask) {
      std::puts(to_json(ask<System>(run)).c_str());
    } else {
      throw std::runtime_error("--role: serve or ask");
    }
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s: %s\n", argv[0], problem.what());
    return 1;
  }
}

}  // namespace atbus::compare
