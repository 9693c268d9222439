// Nodes of one process that meet through NATS.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/atbus.hpp"
#include "atbus/nats.hpp"
#include "nats/nats_line.h"
#include "nats_server.h"
#include "test.h"

namespace atbus::test {

inline constexpr std::string_view nats_secret =
    "the secret of these nodes, which NATS does not know";

inline std::shared_ptr<carrier> make_carrier(const nats_options& options = {}) {
  auto made = nats_carrier(options);
  EXPECT_TRUE(made) << made.error().text();
  return made ? *made : nullptr;
}
inline node_options with_carrier(std::shared_ptr<carrier> by) {
  return node_options{}
      .token(nats_secret)
      .retry(50ms, 500ms)
      .report_directory("")
      .carrier(std::move(by));
}

// Until no carrier has a thread any more: what one frees at its end would be a leak.
inline void wait_until_carriers_end() {
  for (const auto limit = now() + 30s; detail::line_threads::running() != 0 && now() < limit;)
    std::this_thread::sleep_for(5ms);
  EXPECT_EQ(detail::line_threads::running(), 0);
}

struct nats_side {
  nats_side(bus_id id, const node_options& options) : self{id, options} {
    self.on_log([this](std::string_view line) { log.append(line).append("\n"); });
    self.on_message([this](const message& m) {
      marked += m.redelivered() ? 1 : 0;
      received.emplace_back(m.text());
    });
    self.on_undelivered([this](const undelivered&) { ++undelivered_count; });
  }
  std::string log;
  std::vector<std::string> received;
  std::size_t marked = 0;
  std::size_t undelivered_count = 0;
  node self;
};

class NatsNodes : public ::testing::Test {
 protected:
  void TearDown() override { wait_until_carriers_end(); }

  template <class Done>
  static bool until(std::initializer_list<nats_side*> ends, const Done& done,
                    std::chrono::nanoseconds longest = 30s) {
    bool is_done = false;
    for (const auto limit = now() + longest; !(is_done = done()) && now() < limit;) {
      std::size_t handled = 0;
      for (nats_side* const one : ends)
        handled += one->self.poll();
      if (handled == 0)
        std::this_thread::sleep_for(200us);
    }
    if (!is_done) {
      for (nats_side* const one : ends)
        ADD_FAILURE() << "still waiting:\n" << one->log;
    }
    return is_done;
  }
  // `from` sends, until `to` has one more message than before.
  static bool reaches(nats_side& from, nats_side& to, std::string_view text) {
    const std::size_t before = to.received.size();
    EXPECT_TRUE(from.self.send(to.self.id(), 1, text));
    return until({&from, &to}, [&] { return to.received.size() > before; }) &&
           to.received.back() == text;
  }
};

}  // namespace atbus::test
