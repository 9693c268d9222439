// What a harness does, for any system. An adapter is a struct with two classes:
//
//   struct some_system {
//     static constexpr bool has_threads;      // of its own: a poll loop must let them run
//     class inbox {
//      public:
//       explicit inbox(const options& run, const std::string& address);   // binds
//       // Hands on what is there: handler(std::span<const std::byte>), valid during the call. When
//       // nothing is, sleeps for at most `patience`; 0: returns.
//       template <class Handler> void poll(Handler&& handler, std::chrono::milliseconds patience);
//     };
//     class outlet {
//      public:
//       explicit outlet(const options& run, const std::string& address);  // connects
//       // compose(std::byte*) writes the message. False: refused, nothing has happened.
//       template <class Compose> bool send(std::size_t length, Compose&& compose);
//       void publish();        // the sender has nothing more to send now
//       void wait_for_room();  // after a refusal
//       void finish();         // what was accepted has left this process when it returns
//     };
//   };
//
// Errors are exceptions; they end the process with a sentence and code 1.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "atbus/bench/clock.h"
#include "harness/account.h"
#include "harness/machine.h"
#include "harness/options.h"
#include "harness/output.h"

namespace atbus::compare {

inline constexpr std::chrono::milliseconds sleep_at_most{50};
inline constexpr std::chrono::seconds connect_within{10};

// Calls `connect` until it returns something true. Throws when that takes too long.
template <class Connect>
auto retry(Connect&& connect) {
  const auto deadline = std::chrono::steady_clock::now() + connect_within;
  for (;;) {
    if (auto connected = connect()) {
      return connected;
    }
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("could not connect");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

// Between two looks at the same thing. Whoever else needs this core gets it.
template <class System>
void rest(const options& run) noexcept {
  if (System::has_threads || run.senders > 1) {
    std::this_thread::yield();
  }
}

template <class System>
account receive_all(const options& run, typename System::inbox& inbox) {
  account received{run};
  const auto patience = run.blocking ? sleep_at_most : std::chrono::milliseconds{0};
  const auto lost_after_ns = static_cast<std::int64_t>(run.patience * 1e9);
  const auto handler = [&received](std::span<const std::byte> message) { received.take(message); };
  while (!received.complete() && !terminated()) {
    const std::uint64_t before = received.arrived();
    inbox.poll(handler, patience);
    if (received.arrived() != before) {
      continue;
    }
    received.rest();
    if (before != 0 && bench::now_ns() - received.last_ns() > lost_after_ns) {
      break;
    }
    rest<System>(run);
  }
  return received;
}

// One sender's messages, one after the other.
template <class Outlet>
class message_source {
 public:
  message_source(const options& run, Outlet& out) : run_{run}, out_{out}, lengths_{run.lengths()} {}

  bool send() {
    const std::uint64_t word = bench::first_word(run_.sender, totals.accepted);
    const std::size_t length = lengths_.of(word);
    const bool sent = out_.send(length, [&](std::byte* at) { bench::fill(word, at, length); });
    count(sent, length);
    return sent;
  }

  // Returns the time after it. It leaves with the next publish_due(), or before.
  std::int64_t send_due(std::int64_t intended_ns, std::int64_t now_ns) {
    const std::uint64_t word = bench::first_word(run_.sender, totals.accepted);
    const std::size_t length = run_.bytes_max;
    const bool sent = out_.send(length, [&](std::byte* at) {
      bench::fill(word, at, length);
      std::memcpy(at + sizeof word, &intended_ns, sizeof intended_ns);
    });
    is_due_ = is_due_ || sent;
    const std::int64_t after_ns = bench::now_ns();
    totals.longest_call_ns = std::max(totals.longest_call_ns, after_ns - now_ns);
    count(sent, length);
    if (sent) {
      return after_ns;
    }
    out_.wait_for_room();
    return bench::now_ns();
  }

  // What a sender that was late has caught up with leaves together.
  void publish_due() {
    if (std::exchange(is_due_, false)) {
      out_.publish();
    }
  }

  void send_marker() {
    const std::uint64_t words[2]{marker_word(run_.sender), totals.accepted};
    static_assert(sizeof words == marker_bytes);
    while (!out_.send(marker_bytes, [&](std::byte* at) { std::memcpy(at, words, sizeof words); })) {
      out_.wait_for_room();
    }
  }

  send_totals totals;

 private:
  void count(bool sent, std::size_t length) noexcept {
    if (sent) [[likely]] {
      ++totals.accepted;
      totals.bytes += length;
      tried_ = false;
    } else if (!tried_) {
      ++totals.refused;
      tried_ = true;
    }
  }

  const options& run_;
  Outlet& out_;
  bench::message_lengths lengths_;
  bool is_due_ = false;  // something was sent and not published
  bool tried_ = false;   // the next message has been refused already
};

template <class Outlet>
void send_freely(message_source<Outlet>& source, Outlet& out, std::int64_t end_ns) {
  std::uint64_t messages_since = 0;
  std::uint64_t bytes_looked_at = 0;
  for (;;) {
    if (!source.send()) [[unlikely]] {
      out.wait_for_room();
    } else if (++messages_since < look_messages &&
               source.totals.bytes - bytes_looked_at < look_bytes) {
      continue;
    }
    messages_since = 0;
    bytes_looked_at = source.totals.bytes;
    if (bench::now_ns() >= end_ns) {
      return;
    }
  }
}

template <class System>
void send_paced(message_source<typename System::outlet>& source, const options& run,
                std::int64_t start_ns, std::int64_t end_ns) {
  constexpr std::int64_t worth_sleeping_ns = 200'000;
  constexpr std::int64_t wake_up_early_ns = 100'000;
  const double interval_ns = 1e9 / run.rate;
  std::int64_t now = start_ns;
  while (now < end_ns) {
    const std::int64_t intended_ns =
        start_ns +
        static_cast<std::int64_t>(static_cast<double>(source.totals.accepted) * interval_ns);
    if (intended_ns >= end_ns) {
      return;
    }
    if (now >= intended_ns) {
      now = source.send_due(intended_ns, now);
      continue;
    }
    source.publish_due();
    if (run.blocking) {
      bench::sleep_ns(intended_ns - now);  // a little late, but without a processor
    } else if (intended_ns - now > worth_sleeping_ns) {
      bench::sleep_ns(intended_ns - now - wake_up_early_ns);
    } else {
      rest<System>(run);
    }
    now = bench::now_ns();
  }
}

template <class System>
send_totals send_all(const options& run, typename System::outlet& out) {
  message_source<typename System::outlet> source{run, out};
  const std::int64_t cpu_start_ns = cpu_time_ns();
  const std::int64_t start_ns = bench::now_ns();
  const std::int64_t end_ns = start_ns + static_cast<std::int64_t>(run.seconds * 1e9);
  if (run.rate > 0) {
    send_paced<System>(source, run, start_ns, end_ns);
  } else {
    send_freely(source, out, end_ns);
  }
  source.totals.duration_ns = bench::now_ns() - start_ns;
  source.totals.cpu_ns = cpu_time_ns() - cpu_start_ns;
  source.send_marker();
  out.finish();
  return source.totals;
}

template <class Outlet>
void send_word(Outlet& out, std::uint64_t word, std::size_t length) {
  while (!out.send(length, [&](std::byte* at) { bench::fill(word, at, length); })) {
    out.wait_for_room();
  }
  out.publish();
}

template <class System>
ping_totals ping(const options& run, typename System::inbox& inbox, typename System::outlet& out) {
  ping_totals totals;
  const std::size_t length = run.bytes_max;
  const auto patience = run.blocking ? sleep_at_most : std::chrono::milliseconds{0};
  const std::int64_t start_ns = bench::now_ns();
  const std::int64_t end_ns = start_ns + static_cast<std::int64_t>(run.seconds * 1e9);
  const std::int64_t warm_ns = start_ns + (end_ns - start_ns) / 10;
  std::int64_t before = start_ns;
  for (std::uint64_t number = 0; before < end_ns && !terminated(); ++number) {
    send_word(out, number, length);
    bool answered = false;
    while (!answered && !terminated()) {
      inbox.poll(
          [&](std::span<const std::byte> message) {
            answered = true;
            const bool whole =
                message.size() == length && bench::intact(number, message.data(), length);
            totals.corrupt += whole ? 0 : 1;
          },
          patience);
      if (!answered) {
        rest<System>(run);
      }
    }
    const std::int64_t now = bench::now_ns();
    if (answered && before >= warm_ns) {
      totals.latency.record(static_cast<std::uint64_t>(now - before));
      ++totals.round_trips;
    }
    before = now;
  }
  totals.cpu_ns = cpu_time_ns();
  return totals;
}

template <class System>
void pong(const options& run, typename System::inbox& inbox, typename System::outlet& out) {
  const auto patience = run.blocking ? sleep_at_most : std::chrono::milliseconds{0};
  while (!terminated()) {
    bool asked = false;
    inbox.poll(
        [&](std::span<const std::byte> message) {
          asked = true;
          while (!out.send(message.size(), [&](std::byte* at) {
            std::memcpy(at, message.data(), message.size());
          })) {
            out.wait_for_room();
          }
          out.publish();
        },
        patience);
    if (!asked) {
      rest<System>(run);
    }
  }
}

// Receives and sends in one process, a thread each.
template <class System>
std::string receive_and_send(const options& run) {
  std::string sent;
  std::exception_ptr problem;
  typename System::inbox inbox{run, run.address};
  std::thread sender{[&]() noexcept {
    try {
      stay_on(core::first);
      typename System::outlet out{run, run.address};
      sent = to_json(send_all<System>(run, out));
    } catch (...) {
      problem = std::current_exception();
    }
  }};
  stay_on(core::last);
  const account received = receive_all<System>(run, inbox);
  sender.join();
  if (problem) {
    std::rethrow_exception(problem);
  }
  return "{\"receive\":" + to_json(received) + ",\"send\":" + sent + "}";
}

template <class System>
std::string play(const options& run) {
  switch (run.what) {
    case role::receive: {
      typename System::inbox inbox{run, run.address};
      say_ready();
      return to_json(receive_all<System>(run, inbox));
    }
    case role::send: {
      typename System::outlet out{run, run.address};
      say_ready();
      wait_for_go();
      return to_json(send_all<System>(run, out));
    }
    case role::pong: {
      typename System::inbox inbox{run, run.address};
      say_ready();
      typename System::outlet out{run, run.reply_address};
      pong<System>(run, inbox, out);
      return "{}";
    }
    case role::ping: {
      typename System::inbox inbox{run, run.reply_address};
      typename System::outlet out{run, run.address};
      say_ready();
      wait_for_go();
      return to_json(ping<System>(run, inbox, out));
    }
    case role::hold: {
      std::vector<std::unique_ptr<typename System::outlet>> idle;
      for (std::uint64_t i = 0; i != run.senders; ++i) {
        idle.push_back(std::make_unique<typename System::outlet>(run, run.address));
      }
      say_ready();
      wait_for_go();
      return "{}";
    }
    case role::serve:
    case role::ask:
      throw std::runtime_error("--role: this harness has no requests");
    case role::both:
      say_ready();
      return receive_and_send<System>(run);
  }
  return {};
}

template <class System>
int run(int argc, char** argv) {
  try {
    watch_for_termination();
    std::puts(play<System>(parse_options(argc, argv)).c_str());
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s: %s\n", argv[0], problem.what());
    return 1;
  }
}

}  // namespace atbus::compare
