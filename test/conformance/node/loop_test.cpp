// Nodes on a libuv loop of their user's: nobody polls them.
#include <uv.h>

#include <stdexcept>

#include "node_fixture.h"

namespace atbus::test {
namespace {

class NodeOnLoop : public NodeFixture {
 protected:
  void SetUp() override {
    ASSERT_EQ(uv_loop_init(&loop_), 0);
    uv_timer_init(&loop_, &timer_);
    first.emplace(1, options().loop(&loop_));
    second.emplace(2, options().loop(&loop_));
    first_log.listen_to(*first);
    second_log.listen_to(*second);
  }
  void TearDown() override {
    first.reset();
    second.reset();
    uv_close(reinterpret_cast<uv_handle_t*>(&timer_), nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
  }
  void connect_on_loop() {
    ASSERT_TRUE(second->listen(address()));
    ASSERT_TRUE(first->connect(2, second->addresses().at(0)));
    ASSERT_TRUE(run_until([&] {
      return first_log.saw(endpoint_event::connected) && second_log.saw(endpoint_event::connected);
    }));
  }
  // Turns the loop until `done`; false after a time that only a hung program needs.
  bool run_until(const std::function<bool()>& done) {
    bool late = false;
    timer_.data = &late;
    uv_timer_start(
        &timer_, [](uv_timer_t* t) { *static_cast<bool*>(t->data) = true; }, 20'000, 0);
    while (!done() && !late)
      uv_run(&loop_, UV_RUN_ONCE);
    uv_timer_stop(&timer_);
    return done();
  }

 private:
  uv_loop_t loop_;
  uv_timer_t timer_;
};

TEST_P(NodeOnLoop, CarriesMessagesBothWaysInOrder) {
  connect_on_loop();
  std::vector<std::string> wanted;
  for (int i = 0; i < 1000; ++i) {
    wanted.push_back("message " + std::to_string(i));
    ASSERT_TRUE(first->send(2, 0, wanted.back()));
    ASSERT_TRUE(second->send(1, 0, wanted.back()));
  }
  ASSERT_TRUE(run_until(
      [&] { return first_log.messages.size() == 1000 && second_log.messages.size() == 1000; }));
  EXPECT_EQ(first_log.messages, wanted);
  EXPECT_EQ(second_log.messages, wanted);
}

TEST_P(NodeOnLoop, IsTurnedByTheLoopAlone) {
  EXPECT_EQ(first->run(), errc::invalid_argument);
}

TEST_P(NodeOnLoop, KeepsWhatAHandlerThrowsForTheNextVerb) {
  connect_on_loop();
  second->on_message([&](const message& m) {
    second_log.messages.emplace_back(m.text());
    if (m.text() == "bad")
      throw std::runtime_error{"no"};
  });
  ASSERT_TRUE(first->send(2, 0, "bad"));
  ASSERT_TRUE(first->send(2, 0, "bad"));
  ASSERT_TRUE(first->send(2, 0, "good"));
  EXPECT_FALSE(second->failed());
  ASSERT_TRUE(run_until([&] { return second_log.messages.size() == 1; }));
  EXPECT_TRUE(second->failed());
  EXPECT_THROW(second->rethrow(), std::runtime_error);
  EXPECT_FALSE(second->failed());
  ASSERT_TRUE(run_until([&] { return second_log.messages.size() == 2; }));
  EXPECT_THROW((void)second->disconnect(99), std::runtime_error);
  ASSERT_TRUE(run_until([&] { return second_log.messages.size() == 3; }));
  EXPECT_EQ(second_log.messages.back(), "good");
}

TEST_P(NodeOnLoop, MayBeDestroyedWithinItsHandlers) {
  connect_on_loop();
  bool ended = false;
  second->on_message([&](const message& m) {
    second.reset();
    EXPECT_EQ(m.text(), "the end");  // its bytes last until the handler returns
    ended = true;
  });
  ASSERT_TRUE(first->send(2, 0, "the end"));
  EXPECT_TRUE(run_until([&] { return ended; }));
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeOnLoop, ::testing::ValuesIn(node_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
