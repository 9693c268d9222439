// Channels on a real libuv loop, for the tests of both ends.
#pragma once

#include <unistd.h>
#include <uv.h>

#include <ctime>

#include "atbus/loop.hpp"
#include "test.h"

namespace atbus {

inline std::chrono::nanoseconds thread_cpu_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
}

// A loop that counts its turns, and must be closeable at the end of each test.
class Loop : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_EQ(uv_loop_init(&loop), 0);
    uv_prepare_init(&loop, &counter_);
    counter_.data = this;
    uv_prepare_start(&counter_, [](uv_prepare_t* h) { ++static_cast<Loop*>(h->data)->turns; });
    uv_unref(reinterpret_cast<uv_handle_t*>(&counter_));
    uv_timer_init(&loop, &timer_);
    timer_.data = this;
  }
  void TearDown() override {
    if (auto last = receiver::open(address))
      (void)last->remove();
    uv_close(reinterpret_cast<uv_handle_t*>(&counter_), nullptr);
    uv_close(reinterpret_cast<uv_handle_t*>(&timer_), nullptr);
    uv_run(&loop, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop), 0);
  }

  static std::string fresh_address() {
    static int count = 0;
    if (std::string{GetParam()}.starts_with("ip"))
      return std::string{GetParam()} + "0";
    return std::string{GetParam()} + "loop-" + std::to_string(getpid()) + "-" +
           std::to_string(++count);
  }

  // Turns the loop until `done`, thirty seconds at most. True: done.
  bool run_until(const std::function<bool()>& done) {
    late_ = false;
    uv_timer_start(
        &timer_, [](uv_timer_t* h) { static_cast<Loop*>(h->data)->late_ = true; }, 30'000, 0);
    while (!done() && !late_)
      uv_run(&loop, UV_RUN_ONCE);
    uv_timer_stop(&timer_);
    return done();
  }
  void run_for(std::chrono::milliseconds time) {
    uv_timer_start(
        &timer_, [](uv_timer_t* h) { uv_stop(h->loop); }, static_cast<std::uint64_t>(time.count()),
        0);
    uv_run(&loop, UV_RUN_DEFAULT);
  }
  // Whether the loop comes to sleep, within thirty seconds, through two windows of `window` in a row:
  // two turns at most in each, and no CPU time to speak of. Two, because a machine busy elsewhere
  // can keep the loop from turning all through one of them.
  bool sleeps_through(std::chrono::milliseconds window) {
    const auto deadline = now() + 30s;
    for (int quiet = 0; quiet < 2;) {
      if (now() > deadline)
        return false;
      turns = 0;
      const auto before = thread_cpu_time();
      run_for(window);
      quiet = turns <= 2 && thread_cpu_time() - before < 5ms ? quiet + 1 : 0;
    }
    return true;
  }
  // Until the channels on the loop have nothing more to do and sleep.
  void settle() { EXPECT_TRUE(sleeps_through(20ms)); }

  receiver open_receiver(const receiver_options& options = {}) {
    auto opened = receiver::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    address = opened->address();
    return std::move(opened).value();
  }
  sender open_sender(const sender_options& options = {}) {
    auto opened = sender::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  template <class Handler>
  loop_receiver bind_receiver(Handler handler,
                              const poll_limits& per_turn = loop_receiver::default_per_turn) {
    auto bound = loop_receiver::attach(&loop, open_receiver(), std::move(handler), per_turn);
    EXPECT_TRUE(bound) << bound.error().text();
    return std::move(bound).value();
  }
  static std::size_t fill(sender& out) {
    std::size_t sent = 0;
    while (out.send(as_bytes("fill")))
      ++sent;
    return sent;
  }

  uv_loop_t loop{};
  int turns = 0;
  std::string address = fresh_address();

 private:
  uv_prepare_t counter_{};
  uv_timer_t timer_{};
  bool late_ = false;
};

inline std::string scheme_name(const ::testing::TestParamInfo<const char*>& tested) {
  const std::string scheme{tested.param};
  return scheme.substr(0, scheme.find(':'));
}

}  // namespace atbus
