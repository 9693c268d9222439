// A process with channels on a libuv loop that forks: they are the parent's alone.
#include <optional>
#include <thread>

#include "child_process.h"
#include "loop_fixture.h"
#include "unit/channel/connection/connection_fixture.h"

namespace atbus {
namespace {

// What a child does with what it has inherited. In each case the parent must go on.
struct child_deed {
  const char* name;
  void (*before_its_copies_end)(uv_loop_t& loop);
};
constexpr child_deed child_deeds[] = {
    {"EndsItsCopies", [](uv_loop_t&) {}},
    {"RunsTheLoop", [](uv_loop_t& loop) { uv_run(&loop, UV_RUN_NOWAIT); }},
    {"TakesTheLoopOver",
     [](uv_loop_t& loop) {
       test::require(uv_loop_fork(&loop) == 0, "the child can't take the loop over");
       uv_run(&loop, UV_RUN_DEFAULT);  // nothing keeps it running
     }},
};

class LoopFork : public Loop {
 protected:
  template <class... Bindings>
  void fork_child(const child_deed& deed, std::optional<Bindings>&... bindings) {
    settle();
    test::child_process child{[&] {
      deed.before_its_copies_end(loop);
      (bindings.reset(), ...);
      return 0;
    }};
    EXPECT_EQ(child.wait_end(), "exit 0") << deed.name;
  }
};

INSTANTIATE_TEST_SUITE_P(Channel, LoopFork, ::testing::Values("mem://", "shm://"), scheme_name);

TEST_P(LoopFork, LeavesTheParentsReceiverAwake) {
  int got = 0;
  std::optional inbox{bind_receiver([&](bytes_view) { ++got; })};
  auto out = open_sender();
  for (const child_deed& deed : child_deeds) {
    fork_child(deed, inbox);
    const int before = got;
    ASSERT_TRUE(out.send(as_bytes("x")));
    ASSERT_TRUE(run_until([&] { return got == before + 1; })) << deed.name;
  }
}

TEST_P(LoopFork, LeavesTheParentsSenderAwake) {
  auto inbox = open_receiver({.lanes = 1, .lane_size = 4096, .message_limit = 1024});
  auto attached = loop_sender::attach(&loop, open_sender());
  ASSERT_TRUE(attached) << attached.error().text();
  std::optional out{*std::move(attached)};
  int calls = 0;
  (*out)->on_writable([&] { ++calls; });
  for (const child_deed& deed : child_deeds) {
    while ((*out)->send(as_bytes("a message of some length"))) {
    }
    fork_child(deed, out);
    const int before = calls;
    std::thread reader{[&] { EXPECT_GT(inbox.poll([](bytes_view) {}), 0U); }};
    const bool is_called = run_until([&] { return calls != before; });
    reader.join();
    ASSERT_TRUE(is_called) << deed.name;
  }
  inbox.close();
}

class LoopForkConnections : public LoopFork {
 protected:
  LoopForkConnections() { address.clear(); }  // no receiver to remove at the end
};

INSTANTIATE_TEST_SUITE_P(Socket, LoopForkConnections, ::testing::Values("unix://@"), scheme_name);

TEST_P(LoopForkConnections, LeavesTheParentsSetAwake) {
  recorded_set a;
  recorded_set b;
  const std::string where = a.listen(fresh_unix_address());
  auto at_a = loop_connections::attach(&loop, std::move(*a.set));
  ASSERT_TRUE(at_a) << at_a.error().text();
  std::optional on_a{*std::move(at_a)};
  const connection out = b.connect(where);
  for (const auto end = now() + 30s; b.opens == 0 && now() < end;) {
    uv_run(&loop, UV_RUN_NOWAIT);
    b.set->poll();
  }
  ASSERT_EQ(b.opens, 1);
  for (const child_deed& deed : child_deeds) {
    fork_child(deed, on_a);
    const std::size_t before = a.messages.size();
    ASSERT_TRUE(out.send(as_bytes("x")));
    ASSERT_TRUE(out.flush());
    ASSERT_TRUE(run_until([&] { return a.messages.size() == before + 1; })) << deed.name;
  }
}

}  // namespace
}  // namespace atbus
