// The counters of nodes beside what their programs saw, in random runs with faults.
#include "atbus/testing.hpp"
#include "test.h"

namespace atbus::testing {
namespace {

// Of one incarnation of a process.
struct record {
  std::uint64_t accepted = 0;
  std::uint64_t accepted_bytes = 0;
  std::uint64_t would_block = 0;
  std::uint64_t delivered = 0;
  std::uint64_t delivered_bytes = 0;
  std::uint64_t redelivered = 0;
  std::uint64_t not_delivered = 0;
  std::uint64_t outcome_unknown = 0;
  std::uint64_t overflow_drops = 0;
  std::uint64_t deadline_drops = 0;
};

std::string text_of(const record& of) {
  return std::to_string(of.accepted) + " accepted (" + std::to_string(of.accepted_bytes) + " B), " +
         std::to_string(of.would_block) + " would_block, " + std::to_string(of.delivered) +
         " delivered (" + std::to_string(of.delivered_bytes) + " B), " +
         std::to_string(of.redelivered) + " marked, " + std::to_string(of.not_delivered) +
         " not delivered, " + std::to_string(of.outcome_unknown) + " unknown, " +
         std::to_string(of.overflow_drops) + " overflow, " + std::to_string(of.deadline_drops) +
         " deadline";
}

record counted(const node_stats& by) {
  return {.accepted = by.accepted,
          .accepted_bytes = by.accepted_bytes,
          .would_block = by.would_block,
          .delivered = by.delivered,
          .delivered_bytes = by.delivered_bytes,
          .redelivered = by.redelivered,
          .not_delivered = by.not_delivered,
          .outcome_unknown = by.outcome_unknown,
          .overflow_drops = by.overflow_drops,
          .deadline_drops = by.deadline_drops};
}

class run {
 public:
  explicit run(simulation& of) : sim_(of) {
    sim_.conditions().queue_size = 4000;
    for (std::uint64_t id = 1; id <= 3; ++id) {
      process_options options;
      options.host = static_cast<unsigned>(1 + sim_.draw(2));
      options.node.send_buffer_size(4000).overflow(static_cast<overflow_policy>(sim_.draw(3)));
      if (sim_.draw(2) == 0)
        options.node.message_deadline(200ms);
      sim_.start(
          id, [this, id](node& at) { begin(id, at); }, options);
    }
  }

  bool counts_are_right() {
    sim_.disturb(20s);
    for (int turn = 0; turn != 400; ++turn) {
      const std::uint64_t from = 1 + sim_.draw(3);
      const std::uint64_t to = 1 + (from + sim_.draw(2)) % 3;
      for (std::uint64_t left = sim_.draw(12); left != 0; --left)
        send(from, to);
      sim_.run_for(std::chrono::milliseconds{sim_.draw(100)});
      if (!agree(false))
        return false;
    }
    return sim_.run_until_idle(5min) && agree(true) && some_were_sent();
  }

 private:
  static std::string address_of(std::uint64_t id) {
    return "ipv4://10.0.0." + std::to_string(id) + ":7000";
  }
  void begin(std::uint64_t id, node& at) {
    record& mine = seen_[id];
    mine = {};
    at.on_message([&mine](const message& m) {
      ++mine.delivered;
      mine.delivered_bytes += m.bytes().size();
      mine.redelivered += m.redelivered() ? 1 : 0;
    });
    at.on_undelivered([&mine](const undelivered& u) {
      ++(u.outcome() == errc::not_delivered ? mine.not_delivered : mine.outcome_unknown);
      mine.overflow_drops += u.reason() == errc::would_block ? 1 : 0;
      mine.deadline_drops += u.reason() == errc::timed_out ? 1 : 0;
    });
    (void)at.listen(address_of(id));
    for (std::uint64_t to = 1; to <= 3; ++to) {
      if (to != id)
        (void)at.connect(to, address_of(to));
    }
  }
  void send(std::uint64_t from, std::uint64_t to) {
    if (!sim_.is_running(from))
      return;
    const std::string text(sim_.draw(500), 'x');
    const status how = sim_.node(from).send(to, 0, text);
    record& mine = seen_[from];
    if (how) {
      ++mine.accepted;
      mine.accepted_bytes += text.size();
    } else {
      ++mine.would_block;
      if (how != errc::would_block)
        ADD_FAILURE() << how.text();
    }
  }
  // A report is counted when it is due, and told by the next poll.
  bool agree(bool all_is_told) {
    for (std::uint64_t id = 1; id <= 3; ++id) {
      if (!sim_.is_running(id))
        continue;
      record told = seen_[id];
      const record counts = counted(sim_.node(id).stats());
      if (!all_is_told) {
        if (told.not_delivered > counts.not_delivered)
          return false;
        told.not_delivered = counts.not_delivered;
        told.outcome_unknown = counts.outcome_unknown;
        told.overflow_drops = counts.overflow_drops;
        told.deadline_drops = counts.deadline_drops;
      }
      EXPECT_EQ(text_of(counts), text_of(told)) << "node " << id;
      if (text_of(counts) != text_of(told))
        return false;
    }
    return true;
  }
  bool some_were_sent() {
    std::uint64_t all = 0;
    for (const auto& [id, one] : seen_)
      all += one.accepted;
    return all != 0;
  }

  simulation& sim_;
  std::map<std::uint64_t, record> seen_;
};

TEST(NodeCounters, AreWhatTheProgramSawInRandomRuns) {
  EXPECT_EQ(first_failing_seed(60, [](simulation& sim) { return run{sim}.counts_are_right(); }),
            std::nullopt);
}

}  // namespace
}  // namespace atbus::testing
