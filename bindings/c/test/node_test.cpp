// Nodes in C.
#include <array>
#include <cstring>
#include <utility>

#include "c_fixture.h"

namespace atbus_c_test {
namespace {

TEST_F(CApi, CarriesMessages) {
  node one{1};
  node two{2};
  connect(one, two);
  EXPECT_EQ(atbus_node_id(two.self), 2U);
  EXPECT_NE(atbus_node_incarnation(one.self), atbus_node_incarnation(two.self));
  EXPECT_EQ(atbus_node_address(two.self, 1), nullptr);
  EXPECT_EQ(atbus_node_send(one.self, 2, 7, "sent", 4), ATBUS_OK);
  EXPECT_EQ(atbus_node_send(one.self, 2, 7, nullptr, 0), ATBUS_OK);
  EXPECT_EQ(atbus_node_send_required(one.self, 2, 7, "required", 8), ATBUS_OK);
  atbus_code code = ATBUS_CLOSED;
  void* const at = atbus_node_claim(one.self, 2, 8, 100, &code);
  ASSERT_NE(at, nullptr);
  EXPECT_EQ(code, ATBUS_OK);
  std::memcpy(at, "claimed", 7);
  EXPECT_EQ(atbus_node_commit(one.self, 101), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(atbus_node_commit(one.self, 7), ATBUS_OK);
  EXPECT_EQ(atbus_node_commit(one.self, 7), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(atbus_node_broadcast(one.self, 0, 0, 9, "all", 3), ATBUS_OK);
  ASSERT_TRUE(until({&one, &two}, [&] { return two.got.size() == 5; }));
  EXPECT_EQ(two.got, (std::vector<std::string>{"sent", "", "required", "claimed", "all"}));
  EXPECT_EQ(two.last.source, 1U);
  EXPECT_EQ(two.last.destination, 2U);
  EXPECT_EQ(two.last.type, 9U);
}

TEST_F(CApi, SaysWhyItDoesNotSend) {
  node one{1};
  EXPECT_EQ(atbus_node_send(one.self, 3, 0, "no", 2), ATBUS_NO_ROUTE);
  EXPECT_NE(std::string{atbus_last_error()}, "");
  atbus_code code = ATBUS_OK;
  EXPECT_EQ(atbus_node_claim(one.self, 3, 0, 2, &code), nullptr);
  EXPECT_EQ(code, ATBUS_NO_ROUTE);
  EXPECT_EQ(atbus_node_claim(one.self, 3, 0, 2, nullptr), nullptr);
  ASSERT_EQ(atbus_node_connect(one.self, 2, new_address().c_str()), ATBUS_OK);
  const std::string large(70'000, 'x');
  EXPECT_EQ(atbus_node_send(one.self, 2, 0, large.data(), large.size()), ATBUS_MESSAGE_TOO_LARGE);
  EXPECT_EQ(atbus_node_set_policy(one.self, 2, ATBUS_OVERFLOW_WOULD_BLOCK, 1'000'000), ATBUS_OK);
  EXPECT_EQ(atbus_node_send(one.self, 2, 0, "late", 4), ATBUS_OK);
  ASSERT_TRUE(until({&one}, [&] { return !one.reasons.empty(); }));
  EXPECT_EQ(one.reasons[0], ATBUS_TIMED_OUT);
  EXPECT_EQ(atbus_node_disconnect(one.self, 9), ATBUS_NOT_FOUND);
}

TEST_F(CApi, TellsWhatHappens) {
  node one{1};
  node two{2};
  std::string log;
  atbus_node_on_log(
      one.self,
      [](void* user, const char* line, std::size_t size) {
        static_cast<std::string*>(user)->append(line, size);
      },
      &log);
  atbus_code ready = ATBUS_CLOSED;
  const auto keep = [](void* user, atbus_code code) { *static_cast<atbus_code*>(user) = code; };
  ASSERT_EQ(atbus_node_on_ready(one.self, 2, 20 * second, keep, &ready), ATBUS_OK);
  connect(one, two);
  EXPECT_EQ(ready, ATBUS_OK);
  std::vector<std::uint64_t> reached;
  ASSERT_EQ(atbus_node_broadcast_confirmed(
                one.self, 0, 0, 1, "all", 3, second / 10,
                [](void* user, const std::uint64_t* ids, std::size_t count) {
                  static_cast<std::vector<std::uint64_t>*>(user)->assign(ids, ids + count);
                },
                &reached),
            ATBUS_OK);
  ASSERT_TRUE(until({&one, &two}, [&] { return !reached.empty(); }));
  EXPECT_EQ(reached, std::vector<std::uint64_t>{2});
  int seen = 0;
  EXPECT_EQ(atbus_node_endpoints(
                one.self,
                [](void* user, const atbus_endpoint* of, atbus_endpoint_event) {
                  EXPECT_EQ(of->id, 2U);
                  EXPECT_EQ(of->connected, 1);
                  EXPECT_NE(std::string{of->address}, "");
                  ++*static_cast<int*>(user);
                },
                &seen),
            ATBUS_OK);
  EXPECT_EQ(seen, 1);
  atbus_node_stats stats{};
  stats.size = sizeof stats;
  ASSERT_EQ(atbus_node_get_stats(one.self, &stats), ATBUS_OK);
  EXPECT_EQ(stats.registrations, 1U);
  // A program of an earlier version knows fewer of them.
  std::array<std::uint64_t, 4> few{3 * sizeof(std::uint64_t), 7, 7, 7};
  ASSERT_EQ(atbus_node_get_stats(one.self, reinterpret_cast<atbus_node_stats*>(few.data())),
            ATBUS_OK);
  EXPECT_EQ(few[1], stats.accepted);
  EXPECT_EQ(few[3], 7U);
}

TEST_F(CApi, SaysThatAClaimWasGivenUp) {
  node one{1};
  ASSERT_NE(atbus_node_claim(one.self, 1, 0, 10, nullptr), nullptr);
  ASSERT_EQ(atbus_node_send(one.self, 1, 0, "sent", 4), ATBUS_OK);
  EXPECT_EQ(atbus_node_commit(one.self, 10), ATBUS_INVALID_ARGUMENT);
  EXPECT_TRUE(until({&one}, [&] { return one.got.size() == 1; }));
  ASSERT_NE(atbus_node_claim(one.self, 1, 0, 10, nullptr), nullptr);
  EXPECT_EQ(atbus_node_poll(one.self, 0, 0, nullptr), ATBUS_OK);
  EXPECT_EQ(atbus_node_commit(one.self, 10), ATBUS_INVALID_ARGUMENT);
  node two{2};
  connect(one, two);
  for (int i = 0; i != 100; ++i)
    ASSERT_EQ(atbus_node_send(one.self, 2, 0, "sent", 4), ATBUS_OK);
  ASSERT_NE(atbus_node_claim(one.self, 2, 0, 10, nullptr), nullptr);
  ASSERT_EQ(atbus_node_send(one.self, 2, 0, "sent", 4), ATBUS_OK);
  EXPECT_EQ(atbus_node_commit(one.self, 10), ATBUS_INVALID_ARGUMENT);
  EXPECT_TRUE(until({&one, &two}, [&] { return two.got.size() == 101; }));
}

TEST_F(CApi, RunsUntilItIsStopped) {
  node one{1};
  atbus_node_on_message(
      one.self,
      [](void* user, const atbus_message*) { atbus_node_stop(static_cast<node*>(user)->self); },
      &one);
  ASSERT_EQ(atbus_node_send(one.self, 1, 0, "stop", 4), ATBUS_OK);
  EXPECT_EQ(atbus_node_run(one.self), ATBUS_OK);
  EXPECT_EQ(atbus_node_wait(one.self, 0), ATBUS_TIMED_OUT);
  EXPECT_GE(atbus_node_descriptor(one.self), 0);
  EXPECT_EQ(atbus_node_prepare_sleep(one.self), 1);
  EXPECT_EQ(atbus_node_finish_sleep(one.self), ATBUS_OK);
  EXPECT_EQ(atbus_node_flush(one.self), ATBUS_OK);
  EXPECT_EQ(atbus_node_shutdown(one.self, second), ATBUS_OK);
  EXPECT_EQ(atbus_node_is_open(one.self), 0);
}

TEST_F(CApi, TellsWhetherAllMessagesHaveAnOutcome) {
  node one{1};
  node two{2};
  connect(one, two);
  ASSERT_TRUE(until({&one, &two}, [&] { return atbus_node_is_settled(one.self) != 0; }));
  ASSERT_EQ(atbus_node_send(one.self, 2, 0, "x", 1), ATBUS_OK);
  EXPECT_EQ(atbus_node_is_settled(one.self), 0);
  EXPECT_EQ(atbus_node_poll(one.self, 0, 0, nullptr), ATBUS_OK);
  EXPECT_EQ(atbus_node_is_settled(one.self), 0);
  EXPECT_TRUE(until({&one, &two}, [&] { return atbus_node_is_settled(one.self) != 0; }));
  EXPECT_EQ(two.got.size(), 1U);
  ASSERT_EQ(atbus_node_send(one.self, 2, 0, "x", 1), ATBUS_OK);
  EXPECT_EQ(atbus_node_close(one.self), ATBUS_OK);
  EXPECT_EQ(atbus_node_is_settled(one.self), 1);
}

TEST_F(CApi, MayBeFreedInItsOwnCallback) {
  const auto run = [](atbus_node* self) { return atbus_node_run(self); };
  const auto poll = [](atbus_node* self) { return atbus_node_poll(self, 0, 0, nullptr); };
  const auto receive = [](atbus_node* self) {
    const atbus_message* all = nullptr;
    const void* bytes = nullptr;
    std::size_t count = 0;
    std::size_t size = 0;
    return atbus_node_receive(self, 0, &all, &count, &bytes, &size);
  };
  for (atbus_code (*const turn)(atbus_node*) : {+run, +poll, +receive}) {
    node one{1};
    const auto free_it = [](void* user, atbus_request*) {
      atbus_node_free(std::exchange(static_cast<node*>(user)->self, nullptr));
    };
    outcome asked;
    atbus_node_on_any_request(one.self, free_it, &one);
    ASSERT_EQ(atbus_node_request(one.self, 1, 0, "free", 4, second, outcome::of_response, &asked,
                                 nullptr),
              ATBUS_OK);
    const atbus_code how = turn(one.self);
    EXPECT_TRUE(how == ATBUS_OK || how == ATBUS_CLOSED);
    EXPECT_EQ(one.self, nullptr);
    EXPECT_EQ(asked.code, ATBUS_CLOSED);
  }
  node one{1};
  atbus_node_on_message(
      one.self,
      [](void* user, const atbus_message*) {
        atbus_node_free(std::exchange(static_cast<node*>(user)->self, nullptr));
      },
      &one);
  ASSERT_EQ(atbus_node_send(one.self, 1, 0, "free", 4), ATBUS_OK);
  EXPECT_EQ(atbus_node_poll(one.self, 0, 0, nullptr), ATBUS_OK);
  EXPECT_EQ(one.self, nullptr);
}

// All of them belong to the node, and the first that fails frees it.
TEST_F(CApi, IsFreedOnceHoweverManyOfItsCallbacksFreeIt) {
  static int calls;
  const auto free_it = [](void* user, const atbus_response*) {
    ++calls;
    atbus_node_free(static_cast<atbus_node*>(user));
  };
  for (const bool from_poll : {true, false}) {
    calls = 0;
    atbus_node* made = nullptr;
    ASSERT_EQ(atbus_node_new(1, nullptr, &made), ATBUS_OK);
    ASSERT_EQ(atbus_node_connect(made, 2, new_address().c_str()), ATBUS_OK);
    for (const std::int64_t timeout : {std::int64_t{1}, 60 * second, 60 * second})
      ASSERT_EQ(atbus_node_request(made, 2, 0, "", 0, timeout, free_it, made, nullptr), ATBUS_OK);
    if (!from_poll)
      atbus_node_free(made);
    while (calls == 0)
      ASSERT_EQ(atbus_node_poll(made, 0, 0, nullptr), ATBUS_OK);
    EXPECT_EQ(calls, 3);
  }
}

TEST_F(CApi, ReturnsClosedOnceItIsClosed) {
  node one{1};
  outcome asked;
  ASSERT_EQ(atbus_node_connect(one.self, 2, new_address().c_str()), ATBUS_OK);
  ASSERT_EQ(
      atbus_node_request(one.self, 2, 0, nullptr, 0, second, outcome::of_response, &asked, nullptr),
      ATBUS_OK);
  ASSERT_NE(atbus_node_claim(one.self, 2, 0, 10, nullptr), nullptr);
  EXPECT_EQ(atbus_node_close(one.self), ATBUS_OK);
  EXPECT_EQ(asked.code, ATBUS_CLOSED);
  EXPECT_EQ(atbus_node_close(one.self), ATBUS_OK);
  EXPECT_EQ(atbus_node_commit(one.self, 1), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(atbus_node_send(one.self, 2, 0, "no", 2), ATBUS_CLOSED);
  EXPECT_EQ(atbus_node_poll(one.self, 0, 0, nullptr), ATBUS_CLOSED);
  EXPECT_EQ(atbus_node_wait(one.self, 0), ATBUS_CLOSED);
  EXPECT_EQ(atbus_node_run(one.self), ATBUS_CLOSED);
  EXPECT_EQ(atbus_node_on_message(one.self, nullptr, nullptr), ATBUS_CLOSED);
  EXPECT_EQ(atbus_node_listen(one.self, new_address().c_str()), ATBUS_CLOSED);
  EXPECT_EQ(atbus_node_descriptor(one.self), -1);
  EXPECT_EQ(atbus_node_claim(one.self, 2, 0, 1, nullptr), nullptr);
}

}  // namespace
}  // namespace atbus_c_test
