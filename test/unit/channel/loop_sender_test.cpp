// Senders on a libuv loop: told when there is room.
#include <stdexcept>

#include "loop_fixture.h"

namespace atbus {
namespace {

class FullLane : public Loop {
 protected:
  void TearDown() override {
    inbox.close();
    Loop::TearDown();
  }

  receiver inbox = open_receiver({.lanes = 1, .lane_size = 4096, .message_limit = 1024});
};

INSTANTIATE_TEST_SUITE_P(Channel, FullLane, ::testing::Values("mem://", "shm://"), scheme_name);

TEST_P(FullLane, SenderIsCalledWhenThereIsRoom) {
  constexpr std::size_t count = 20'000;
  auto out = loop_sender::attach(&loop, open_sender());
  ASSERT_TRUE(out);
  std::size_t sent = 0;
  int calls = 0;
  const auto go_on = [&] {
    ++calls;
    while (sent < count && (*out)->send(as_bytes("a message of some length")))
      ++sent;
  };
  (*out)->on_writable(go_on);
  go_on();
  std::thread reader{[&] {
    std::size_t got = 0;
    const auto deadline = now() + 30s;
    while (got < count && now() < deadline) {
      got += inbox.poll([](bytes_view) {}, {.messages = 50});
      (void)inbox.wait(10ms);
    }
    EXPECT_EQ(got, count);
  }};
  EXPECT_TRUE(run_until([&] { return sent == count; }));
  reader.join();
  EXPECT_GT(calls, 1);
}

TEST_P(FullLane, SenderSleepsUntilThereIsRoom) {
  auto out = loop_sender::attach(&loop, open_sender());
  ASSERT_TRUE(out);
  bool called = false;
  (*out)->on_writable([&] { called = true; });
  fill(**out);
  EXPECT_TRUE(sleeps_through(200ms));
  EXPECT_FALSE(called);
  while (inbox.poll([](bytes_view) {}) != 0) {
  }
  EXPECT_TRUE(run_until([&] { return called; }));
}

TEST_P(FullLane, SenderIsServedByASuccessor) {
  auto out = loop_sender::attach(&loop, open_sender());
  ASSERT_TRUE(out);
  bool called = false;
  (*out)->on_writable([&] { called = true; });
  fill(**out);
  settle();
  inbox.close();
  settle();
  std::thread successor{[&] {
    auto second = open_receiver();
    const auto deadline = now() + 30s;
    while (second.poll([](bytes_view) {}) != 0 || (second.wait(100ms) && now() < deadline)) {
    }
    second.close();
  }};
  EXPECT_TRUE(run_until([&] { return called; }));
  successor.join();
}

TEST_P(FullLane, SenderIsToldThatTheSegmentWasRemoved) {
  auto out = loop_sender::attach(&loop, open_sender());
  ASSERT_TRUE(out);
  status next;
  (*out)->on_writable([&] { next = (*out)->send(as_bytes("x")); });
  fill(**out);
  settle();
  ASSERT_TRUE(inbox.remove());
  EXPECT_TRUE(run_until([&] { return next == errc::retired; }));
}

TEST_P(FullLane, SenderMayBeDestroyedInsideItsHandler) {
  std::optional<loop_sender> out;
  auto opened = loop_sender::attach(&loop, open_sender());
  ASSERT_TRUE(opened);
  out.emplace(std::move(*opened));
  bool called = false;
  (*out)->on_writable([&] {
    called = true;
    out.reset();
  });
  fill(**out);
  settle();
  while (inbox.poll([](bytes_view) {}) != 0) {
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_TRUE(called);
}

TEST_P(FullLane, ExceptionOfAnOnWritableHandlerIsKept) {
  auto out = loop_sender::attach(&loop, open_sender());
  ASSERT_TRUE(out);
  (*out)->on_writable([] { throw std::runtime_error{"from the handler"}; });
  fill(**out);
  settle();
  while (inbox.poll([](bytes_view) {}) != 0) {
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_TRUE(out->failed());
  EXPECT_THROW(out->rethrow(), std::runtime_error);
  EXPECT_TRUE((*out)->send(as_bytes("x")));
}

}  // namespace
}  // namespace atbus
