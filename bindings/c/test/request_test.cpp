// Requests and commands in C.
#include <array>
#include <thread>
#include <utility>

#include "c_fixture.h"
#include "counting_allocator.h"
#include "sanitizer.h"

namespace atbus_c_test {
namespace {

// Keeps what comes.
void keep_request(void* user, atbus_request* r) {
  *static_cast<atbus_request**>(user) = atbus_request_detach(r);
}

TEST_F(CApi, WhatAnotherThreadFreesFailsAtTheNextPoll) {
  node one{1};
  node two{2};
  atbus_request* kept = nullptr;
  atbus_command* kept_command = nullptr;
  atbus_node_on_any_request(two.self, keep_request, &kept);
  atbus_node_on_command(
      two.self, nullptr,
      [](void* user, atbus_command* c) {
        *static_cast<atbus_command**>(user) = atbus_command_detach(c);
      },
      &kept_command);
  connect(one, two);
  outcome asked;
  outcome ordered;
  ASSERT_EQ(atbus_node_request(one.self, 2, 1, "this", 4, 60 * second, outcome::of_response, &asked,
                               nullptr),
            ATBUS_OK);
  const char* const words[] = {"order"};
  ASSERT_EQ(atbus_node_command(one.self, 2, words, 1, 60 * second, outcome::of_reply, &ordered),
            ATBUS_OK);
  ASSERT_TRUE(until({&one, &two}, [&] { return kept != nullptr && kept_command != nullptr; }));
  std::thread{[&] {
    atbus_request_free(kept);
    atbus_command_free(kept_command);
  }}.join();
  ASSERT_TRUE(until({&one, &two}, [&] { return asked.calls == 1 && ordered.calls == 1; }));
  EXPECT_EQ(asked.code, ATBUS_REQUEST_FAILED);
  EXPECT_EQ(ordered.code, ATBUS_COMMAND_FAILED);
}

TEST_F(CApi, WhatAnotherThreadFreesFailsAlsoWhileItsNodeRuns) {
  node only{1};
  struct {
    atbus_node* self;
    atbus_request* kept;
    atbus_code how;
  } seen{only.self, nullptr, ATBUS_OK};
  atbus_node_on_any_request(only.self, keep_request, &seen.kept);
  atbus_node_on_message(
      only.self,
      [](void* user, const atbus_message*) {
        auto& of = *static_cast<decltype(seen)*>(user);
        if (of.kept != nullptr)
          std::thread{[&] { atbus_request_free(std::exchange(of.kept, nullptr)); }}.join();
        else
          EXPECT_EQ(atbus_node_send(of.self, 1, 0, "again", 5), ATBUS_OK);
      },
      &seen);
  ASSERT_EQ(atbus_node_request(
                only.self, 1, 0, "this", 4, 2 * second,
                [](void* user, const atbus_response* r) {
                  auto& of = *static_cast<decltype(seen)*>(user);
                  of.how = r->code;
                  EXPECT_EQ(atbus_node_stop(of.self), ATBUS_OK);
                },
                &seen, nullptr),
            ATBUS_OK);
  ASSERT_EQ(atbus_node_send(only.self, 1, 0, "free it", 7), ATBUS_OK);
  EXPECT_EQ(atbus_node_run(only.self), ATBUS_OK);
  EXPECT_EQ(seen.how, ATBUS_REQUEST_FAILED);
}

// AddressSanitizer sees what is lost.
TEST_F(CApi, AnotherThreadMayFreeARequestAroundTheEndOfItsNode) {
  for (const bool before : {true, false}) {
    atbus_request* kept = nullptr;
    {
      node only{1};
      outcome asked;
      atbus_node_on_any_request(only.self, keep_request, &kept);
      ASSERT_EQ(atbus_node_request(only.self, 1, 1, "this", 4, 60 * second, outcome::of_response,
                                   &asked, nullptr),
                ATBUS_OK);
      ASSERT_TRUE(until({&only}, [&] { return kept != nullptr; }));
      if (before)
        std::thread{[&] { atbus_request_free(kept); }}.join();
      EXPECT_EQ(atbus_node_close(only.self), ATBUS_OK);
      EXPECT_EQ(asked.calls, 1);
    }
    if (!before)
      std::thread{[&] { atbus_request_free(kept); }}.join();
  }
}

TEST_F(CApi, AsksAndAnswers) {
  node one{1};
  node two{2};
  atbus_request* later = nullptr;
  atbus_node_on_request(
      two.self, 1,
      [](void*, atbus_request* r) {
        std::size_t size = 0;
        const auto* const bytes = static_cast<const char*>(atbus_request_bytes(r, &size));
        const std::string answer = "got " + std::string{bytes, size};
        EXPECT_EQ(atbus_request_source(r), 1U);
        EXPECT_EQ(atbus_request_type(r), 1U);
        EXPECT_EQ(atbus_request_redelivered(r), 0);
        EXPECT_EQ(atbus_request_reply(r, answer.data(), answer.size()), ATBUS_OK);
        EXPECT_EQ(atbus_request_reply(r, nullptr, 0), ATBUS_INVALID_ARGUMENT);
      },
      nullptr);
  atbus_node_on_any_request(
      two.self,
      [](void* user, atbus_request* r) {
        if (atbus_request_type(r) == 2)
          *static_cast<atbus_request**>(user) = atbus_request_detach(r);
        else
          atbus_request_fail(r, "why not", 7);
      },
      &later);
  connect(one, two);
  std::array<outcome, 4> asked;
  atbus_request_handle handle{};
  for (std::uint32_t type = 1; type != 4; ++type) {
    ASSERT_EQ(atbus_node_request(one.self, 2, type, "this", 4, 10 * second, outcome::of_response,
                                 &asked[type - 1], type == 2 ? &handle : nullptr),
              ATBUS_OK);
  }
  ASSERT_TRUE(until({&one, &two}, [&] {
    return asked[0].calls == 1 && asked[2].calls == 1 && later != nullptr;
  }));
  EXPECT_EQ(asked[0].text, "got this");
  EXPECT_EQ(asked[2].code, ATBUS_REQUEST_FAILED);
  EXPECT_EQ(asked[2].text, "why not");
  EXPECT_EQ(asked[1].calls, 0);
  EXPECT_EQ(atbus_request_is_wanted(later), 1);
  EXPECT_EQ(atbus_node_cancel(one.self, &handle), ATBUS_OK);
  EXPECT_EQ(atbus_node_cancel(one.self, &handle), ATBUS_NOT_FOUND);
  ASSERT_TRUE(until({&one, &two}, [&] { return atbus_request_is_wanted(later) == 0; }));
  EXPECT_EQ(asked[1].code, ATBUS_CANCELLED);
  EXPECT_NE(atbus_request_reply(later, "late", 4), ATBUS_OUT_OF_MEMORY);
  atbus_request_free(later);
  // One that is detached, and freed without an answer, fails.
  ASSERT_EQ(atbus_node_request(one.self, 2, 2, nullptr, 0, 10 * second, outcome::of_response,
                               &asked[3], nullptr),
            ATBUS_OK);
  later = nullptr;
  ASSERT_TRUE(until({&one, &two}, [&] { return later != nullptr; }));
  atbus_request_free(later);
  ASSERT_TRUE(until({&one, &two}, [&] { return asked[3].calls == 1; }));
  EXPECT_EQ(asked[3].code, ATBUS_REQUEST_FAILED);
}

TEST_F(CApi, GathersAnswersOfMany) {
  node one{1};
  node two{2};
  atbus_node_on_any_request(
      two.self, [](void*, atbus_request* r) { atbus_request_reply(r, "yes", 3); }, nullptr);
  connect(one, two);
  const std::uint64_t ids[] = {2, 99};
  std::vector<atbus_code> codes;
  ASSERT_EQ(atbus_node_gather(
                one.self, ids, 2, 1, "all", 3, 2, 10 * second,
                [](void* user, const atbus_response* all, std::size_t count) {
                  for (std::size_t i = 0; i != count; ++i)
                    static_cast<std::vector<atbus_code>*>(user)->push_back(all[i].code);
                },
                &codes),
            ATBUS_OK);
  ASSERT_TRUE(until({&one, &two}, [&] { return !codes.empty(); }));
  EXPECT_EQ(codes, (std::vector{ATBUS_OK, ATBUS_NO_ROUTE}));
}

TEST_F(CApi, SendsCommands) {
  node one{1};
  node two{2};
  atbus_command* later = nullptr;
  atbus_node_on_command(
      two.self, "add",
      [](void*, atbus_command* c) {
        EXPECT_EQ(atbus_command_source(c), 1U);
        EXPECT_STREQ(atbus_command_word(c, 0), "add");
        EXPECT_STREQ(atbus_command_word(c, 2), "3");
        EXPECT_EQ(atbus_command_word(c, 3), nullptr);
        const char* const values[] = {"5", "sum"};
        EXPECT_EQ(atbus_command_reply(c, values, 2), ATBUS_OK);
      },
      nullptr);
  atbus_node_on_command(
      two.self, nullptr,
      [](void* user, atbus_command* c) {
        *static_cast<atbus_command**>(user) = atbus_command_detach(c);
      },
      &later);
  connect(one, two);
  outcome sum;
  outcome other;
  const char* const add[] = {"add", "2", "3"};
  const char* const stop[] = {"stop"};
  ASSERT_EQ(atbus_node_command(one.self, 2, add, 3, second, outcome::of_reply, &sum), ATBUS_OK);
  ASSERT_EQ(atbus_node_command(one.self, 2, stop, 1, 10 * second, outcome::of_reply, &other),
            ATBUS_OK);
  ASSERT_TRUE(until({&one, &two}, [&] { return sum.calls == 1 && later != nullptr; }));
  EXPECT_EQ(sum.text, "5;sum;");
  const char* const why[] = {"not now"};
  EXPECT_EQ(atbus_command_fail(later, why, 1), ATBUS_OK);
  atbus_command_free(later);
  ASSERT_TRUE(until({&one, &two}, [&] { return other.calls == 1; }));
  EXPECT_EQ(other.code, ATBUS_COMMAND_FAILED);
  EXPECT_EQ(other.text, "not now;");
  const char* const hole[] = {"add", nullptr};
  EXPECT_EQ(atbus_node_command(one.self, 2, hole, 2, second, outcome::of_reply, &sum),
            ATBUS_INVALID_ARGUMENT);
  EXPECT_STREQ(atbus_last_error(), "word 1 is NULL");
}

// Polls until a callback was called, and one allocation of these polls fails: another one in each round.
class OneFailedAllocation : public CApi {
 protected:
  template <class Begin>
  static void every(node& of, const int& calls, Begin&& begin) {
    for (std::uint64_t good = 0; good != 40; ++good) {
      const int before = calls;
      ASSERT_EQ(begin(), ATBUS_OK);
      {
        const atbus::test::allocation_failure fails{good, 1};
        for (int polls = 0; polls != 100 && calls == before; ++polls)
          (void)atbus_node_poll(of.self, 0, 0, nullptr);
      }
      ASSERT_TRUE(until({&of}, [&] { return calls != before; })) << good;
      EXPECT_EQ(calls, before + 1) << good;
    }
  }
  void SetUp() override {
    if (!atbus::test::can_fail_allocations())
      GTEST_SKIP() << "allocations can't fail in this build";
  }
};

TEST_F(OneFailedAllocation, LosesNoCallbackOfACommand) {
  node one{1};
  atbus_node_on_command(
      one.self, "list",
      [](void*, atbus_command* asked) {
        const char* const values[] = {"one", "two"};
        (void)atbus_command_reply(asked, values, 2);
      },
      nullptr);
  outcome told;
  every(one, told.calls, [&] {
    const char* const words[] = {"list"};
    return atbus_node_command(one.self, 1, words, 1, second / 10, outcome::of_reply, &told);
  });
}

TEST_F(OneFailedAllocation, LosesNoCallbackOfAGather) {
  node one{1};
  atbus_node_on_request(
      one.self, 3,
      [](void*, atbus_request* asked) { (void)atbus_request_reply(asked, nullptr, 0); }, nullptr);
  int calls = 0;
  every(one, calls, [&] {
    const std::uint64_t ids[] = {1, 1};
    return atbus_node_gather(
        one.self, ids, 2, 3, nullptr, 0, 2, second / 10,
        [](void* user, const atbus_response*, std::size_t) { ++*static_cast<int*>(user); }, &calls);
  });
}

TEST_F(CApi, HandsRequestsOverWithTheirNode) {
  node one{1};
  struct {
    atbus_request* request = nullptr;
    atbus_command* command = nullptr;
  } kept;
  const auto keep_request = [](void* to, atbus_request* asked) {
    static_cast<decltype(kept)*>(to)->request = atbus_request_detach(asked);
  };
  const auto keep_command = [](void* to, atbus_command* asked) {
    static_cast<decltype(kept)*>(to)->command = atbus_command_detach(asked);
  };
  atbus_node_on_request(one.self, 3, keep_request, &kept);
  atbus_node_on_command(one.self, "do", keep_command, &kept);
  outcome told;
  const char* const words[] = {"do"};
  ASSERT_EQ(atbus_node_request(one.self, 1, 3, nullptr, 0, 10 * second, outcome::of_response, &told,
                               nullptr),
            ATBUS_OK);
  ASSERT_EQ(atbus_node_command(one.self, 1, words, 1, 10 * second, outcome::of_reply, &told),
            ATBUS_OK);
  ASSERT_TRUE(until({&one}, [&] { return kept.request != nullptr && kept.command != nullptr; }));
  std::thread other{[&] {
    EXPECT_EQ(atbus_request_reply(kept.request, "no", 2), ATBUS_INVALID_ARGUMENT);
    EXPECT_EQ(atbus_node_adopt(one.self), ATBUS_OK);
    EXPECT_EQ(atbus_request_reply(kept.request, "yes", 3), ATBUS_OK) << atbus_last_error();
    EXPECT_EQ(atbus_command_reply(kept.command, nullptr, 0), ATBUS_OK) << atbus_last_error();
    EXPECT_TRUE(until({&one}, [&] { return told.calls == 2; }));
  }};
  other.join();
  EXPECT_EQ(atbus_request_fail(kept.request, "late", 4), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(atbus_node_adopt(one.self), ATBUS_OK);
  atbus_request_free(kept.request);
  atbus_command_free(kept.command);
}

}  // namespace
}  // namespace atbus_c_test
