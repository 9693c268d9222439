#include <stdexcept>

#include "loop_fixture.h"
#include "unit/channel/connection/connection_fixture.h"

namespace atbus {
namespace {

class LoopConnections : public Loop {
 protected:
  LoopConnections() { address.clear(); }  // no receiver to remove at the end

  // Two sets on one loop, one connection between them.
  void join() {
    const std::string where = a.listen(fresh_unix_address());
    auto at_a = loop_connections::attach(&loop, std::move(*a.set));
    ASSERT_TRUE(at_a) << at_a.error().text();
    on_a = std::make_unique<loop_connections>(std::move(*at_a));
    out = b.connect(where);
    auto at_b = loop_connections::attach(&loop, std::move(*b.set));
    ASSERT_TRUE(at_b) << at_b.error().text();
    on_b = std::make_unique<loop_connections>(std::move(*at_b));
    ASSERT_TRUE(run_until([&] { return a.opens == 1 && b.opens == 1; }));
    in = a.last;
  }

  void TearDown() override {
    on_a.reset();
    on_b.reset();
    Loop::TearDown();
  }

  recorded_set a;
  recorded_set b;
  std::unique_ptr<loop_connections> on_a;
  std::unique_ptr<loop_connections> on_b;
  connection in;
  connection out;
};

INSTANTIATE_TEST_SUITE_P(Socket, LoopConnections, ::testing::Values("unix://@"), scheme_name);

TEST_P(LoopConnections, DeliverBothWays) {
  join();
  a.on_message = [](connection from, bytes_view m) { EXPECT_TRUE(from.send(m)); };
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(out.send(as_bytes(std::to_string(i))));
  EXPECT_TRUE(run_until([&] { return b.messages.size() == 100; }));
  EXPECT_EQ(b.messages.back(), "99");
}

TEST_P(LoopConnections, FlushAtTheEndOfTheTurnWhoeverHasSent) {
  join();
  settle();
  // From code on the loop that is no handler of the set's.
  uv_timer_t timer;
  uv_timer_init(&loop, &timer);
  timer.data = &out;
  uv_timer_start(
      &timer,
      [](uv_timer_t* t) {
        EXPECT_TRUE(static_cast<connection*>(t->data)->send(as_bytes("from a timer")));
      },
      0, 0);
  EXPECT_TRUE(run_until([&] { return a.messages.size() == 1; }));
  uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
  uv_run(&loop, UV_RUN_NOWAIT);
}

TEST_P(LoopConnections, SleepWhileNothingComes) {
  join();
  EXPECT_TRUE(sleeps_through(50ms));
  EXPECT_TRUE(in.pause());
  EXPECT_TRUE(out.send(as_bytes("not read")));
  EXPECT_TRUE(sleeps_through(50ms));
  EXPECT_TRUE(in.resume());
  EXPECT_TRUE(run_until([&] { return a.messages.size() == 1; }));
}

TEST_P(LoopConnections, KeepTheNearestDeadline) {
  join();
  // One far away, then one that is near, set from outside of the set's handlers.
  const connection waits = *(*on_b)->connect(fresh_unix_address(), {.reconnect_min = 1h});
  settle();
  EXPECT_TRUE(in.pause());
  const std::string large(60'000, 'x');
  while (out.send(as_bytes(large)))
    continue;
  EXPECT_TRUE(out.close(10ms));
  EXPECT_TRUE(run_until([&] { return b.closes == 1; }));
  EXPECT_EQ(b.whys.back(), errc::timed_out);
  EXPECT_EQ(waits.state(), connection_state::waiting);
}

TEST_P(LoopConnections, MayBeDestroyedInAHandler) {
  join();
  a.on_message = [&](connection, bytes_view) { on_a.reset(); };
  EXPECT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(run_until([&] { return b.closes == 1; }));
  EXPECT_EQ(in.state(), connection_state::closed);
  EXPECT_EQ(a.messages.size(), 1U);
}

TEST_P(LoopConnections, KeepAnExceptionForWhoAsks) {
  join();
  a.on_message = [&](connection, bytes_view) {
    if (a.messages.size() == 1)
      throw std::runtime_error{"first"};
  };
  EXPECT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(out.send(as_bytes("y")));
  EXPECT_TRUE(run_until([&] { return on_a->failed(); }));
  EXPECT_THROW(on_a->rethrow(), std::runtime_error);
  EXPECT_TRUE(run_until([&] { return a.messages.size() == 2; }));
}

TEST_P(LoopConnections, RefuseWhatCanNotWork) {
  EXPECT_EQ(loop_connections::attach(nullptr, std::move(*a.set)).error(), errc::invalid_argument);
  EXPECT_EQ(loop_connections::attach(&loop, std::move(*b.set), {.messages = 0}).error(),
            errc::invalid_argument);
  auto closed = connection_set::open();
  closed->close();
  EXPECT_EQ(loop_connections::attach(&loop, std::move(*closed)).error(), errc::closed);
}

}  // namespace
}  // namespace atbus
