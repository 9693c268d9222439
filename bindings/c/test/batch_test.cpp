// Messages that come in batches in C.
#include <sys/wait.h>
#include <algorithm>
#include <array>
#include <string>

#include "c_fixture.h"

namespace atbus_c_test {
namespace {

// What has come, as atbus_node_receive gives it.
std::vector<std::string> receive(atbus_node* from, std::size_t most = 0,
                                 atbus_code expected = ATBUS_OK) {
  const atbus_message* all = nullptr;
  const void* bytes = nullptr;
  std::size_t count = 0;
  std::size_t size = 0;
  EXPECT_EQ(atbus_node_receive(from, most, &all, &count, &bytes, &size), expected);
  const auto* at = static_cast<const char*>(bytes);
  std::vector<std::string> got;
  for (std::size_t i = 0; i != count; ++i) {
    EXPECT_EQ(all[i].bytes, at);
    got.emplace_back(at, all[i].size);
    at += all[i].size;
  }
  EXPECT_EQ(at, static_cast<const char*>(bytes) + size);
  return got;
}

TEST_F(CApi, TakesAnyNumberForTheMostOfABatch) {
  node own{1};
  for (const std::size_t most :
       {std::size_t{1}, std::size_t{1} << 31, static_cast<std::size_t>(-1)}) {
    ASSERT_EQ(atbus_node_send(own.self, 1, 0, "x", 1), ATBUS_OK);
    EXPECT_EQ(receive(own.self, most), std::vector<std::string>{"x"});
  }
}

// To the node itself: four megabytes, more than one batch holds.
std::vector<std::string> send_much(atbus_node* to) {
  std::vector<std::string> sent;
  for (std::size_t i = 0; i != 64; ++i) {
    sent.emplace_back(64 * 1024, static_cast<char>('a' + i % 26));
    EXPECT_EQ(atbus_node_send(to, 1, 0, sent.back().data(), sent.back().size()), ATBUS_OK);
  }
  return sent;
}

atbus_node_options with_much_room() {
  atbus_node_options options;
  atbus_node_options_init(&options);
  options.send_buffer_size = std::uint64_t{16} << 20;
  return options;
}

TEST_F(CApi, GivesWhatHasComeInBatches) {
  atbus_node_options options;
  atbus_node_options_init(&options);
  options.message_limit = 100'000;
  node one{1, &options};
  node two{2, &options};
  connect(one, two);
  std::vector<std::string> sent;
  std::vector<std::string> got;
  const auto receive = [&] {
    const atbus_message* all = nullptr;
    const void* bytes = nullptr;
    std::size_t count = 0;
    std::size_t size = 0;
    EXPECT_EQ(atbus_node_receive(two.self, 300, &all, &count, &bytes, &size), ATBUS_OK);
    EXPECT_LE(count, 300U);
    const auto* at = static_cast<const char*>(bytes);
    for (std::size_t i = 0; i != count; ++i) {
      EXPECT_EQ(all[i].bytes, at);
      EXPECT_EQ(all[i].source, 1U);
      got.emplace_back(at, all[i].size);
      at += all[i].size;
    }
    EXPECT_EQ(at, static_cast<const char*>(bytes) + size);
    return count;
  };
  EXPECT_EQ(receive(), 0U);
  for (std::size_t i = 0; i != 1000; ++i) {
    sent.emplace_back(i % 50 == 0 ? 100'000 : i, static_cast<char>('a' + i % 26));
    while (atbus_node_send(one.self, 2, 0, sent.back().data(), sent.back().size()) ==
           ATBUS_WOULD_BLOCK) {
      EXPECT_EQ(atbus_node_poll(one.self, 0, 0, nullptr), ATBUS_OK);
      receive();
    }
  }
  ASSERT_TRUE(until({&one}, [&] {
    receive();
    return got.size() >= sent.size();
  }));
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(two.got.empty());
}

TEST_F(CApi, KeepsWhatComesInAnotherFunctionForTheNextBatch) {
  const atbus_node_options options = with_much_room();
  node one{1, &options};
  EXPECT_TRUE(receive(one.self).empty());
  const std::vector<std::string> sent = send_much(one.self);
  EXPECT_EQ(atbus_node_poll(one.self, 0, 0, nullptr), ATBUS_OK);
  EXPECT_EQ(atbus_node_on_message(one.self, nullptr, nullptr), ATBUS_INVALID_ARGUMENT);
  std::vector<std::string> got;
  while (got.size() < sent.size()) {
    const std::vector<std::string> some = receive(one.self, 10);
    ASSERT_FALSE(some.empty());
    EXPECT_LE(some.size(), 10U);
    got.insert(got.end(), some.begin(), some.end());
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(atbus_node_on_message(one.self, nullptr, nullptr), ATBUS_OK);
}

TEST_F(CApi, GivesAlsoWhatCameDuringTheShutdown) {
  const atbus_node_options options = with_much_room();
  node one{1, &options};
  EXPECT_TRUE(receive(one.self).empty());
  const std::vector<std::string> sent = send_much(one.self);
  EXPECT_EQ(atbus_node_shutdown(one.self, second), ATBUS_OK);
  EXPECT_EQ(receive(one.self), sent);
  EXPECT_TRUE(receive(one.self, 0, ATBUS_CLOSED).empty());
}

TEST_F(CApi, LosesNoBatchToCallbacks) {
  node one{1};
  struct tried {
    atbus_node* self;
    std::size_t got = 0;
    atbus_code set = ATBUS_OK;
  } inside{.self = one.self};
  atbus_node_on_request(
      one.self, 3,
      [](void* user, atbus_request* asked) {
        auto& of = *static_cast<tried*>(user);
        of.got += receive(of.self).size();
        of.set = atbus_node_on_message(of.self, nullptr, nullptr);
        EXPECT_EQ(atbus_request_reply(asked, nullptr, 0), ATBUS_OK);
      },
      &inside);
  EXPECT_TRUE(receive(one.self).empty());
  ASSERT_EQ(atbus_node_send(one.self, 1, 0, "before", 6), ATBUS_OK);
  outcome asked;
  ASSERT_EQ(
      atbus_node_request(one.self, 1, 3, nullptr, 0, second, outcome::of_response, &asked, nullptr),
      ATBUS_OK);
  ASSERT_EQ(atbus_node_send(one.self, 1, 0, "after", 5), ATBUS_OK);
  EXPECT_EQ(receive(one.self), (std::vector<std::string>{"before", "after"}));
  EXPECT_EQ(inside.got, 0U);
  EXPECT_EQ(inside.set, ATBUS_INVALID_ARGUMENT);
}

TEST_F(CApi, GivesMessagesToACallbackAgainAlsoWithinACallback) {
  node one{1};
  atbus_node_on_request(
      one.self, 3,
      [](void* user, atbus_request* asked) {
        auto& of = *static_cast<node*>(user);
        EXPECT_EQ(atbus_node_on_message(
                      of.self,
                      [](void* to, const atbus_message* m) {
                        static_cast<node*>(to)->got.emplace_back(static_cast<const char*>(m->bytes),
                                                                 m->size);
                      },
                      &of),
                  ATBUS_OK);
        EXPECT_EQ(atbus_request_reply(asked, nullptr, 0), ATBUS_OK);
      },
      &one);
  EXPECT_TRUE(receive(one.self).empty());
  outcome asked;
  ASSERT_EQ(
      atbus_node_request(one.self, 1, 3, nullptr, 0, second, outcome::of_response, &asked, nullptr),
      ATBUS_OK);
  ASSERT_EQ(atbus_node_send(one.self, 1, 0, "after", 5), ATBUS_OK);
  EXPECT_TRUE(until({&one}, [&] { return asked.calls == 1; }));
  EXPECT_EQ(one.got, std::vector<std::string>{"after"});
  ASSERT_EQ(atbus_node_send(one.self, 1, 0, "batch", 5), ATBUS_OK);
  EXPECT_EQ(receive(one.self), std::vector<std::string>{"batch"});
}

TEST_F(CApi, GivesABatchToTheProcessAloneThatGotIt) {
  node one{1};
  EXPECT_TRUE(receive(one.self).empty());
  ASSERT_EQ(atbus_node_send(one.self, 1, 0, "once", 4), ATBUS_OK);
  EXPECT_EQ(atbus_node_poll(one.self, 0, 0, nullptr), ATBUS_OK);
  const pid_t child = fork();
  if (child == 0)
    _exit(receive(one.self, 0, ATBUS_USED_AFTER_FORK).empty() && !HasFailure() ? 0 : 1);
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_EQ(WEXITSTATUS(how), 0);
  EXPECT_EQ(receive(one.self), std::vector<std::string>{"once"});
}

TEST_F(CApi, FillsABatchWithSmallMessages) {
  node one{1};
  for (int i = 0; i != 500; ++i)
    ASSERT_EQ(atbus_node_send(one.self, 1, 0, "small", 5), ATBUS_OK);
  const atbus_message* all = nullptr;
  const void* bytes = nullptr;
  std::size_t count = 0;
  std::size_t size = 0;
  EXPECT_EQ(atbus_node_receive(one.self, 400, &all, &count, &bytes, &size), ATBUS_OK);
  EXPECT_EQ(count, 400U);
}

}  // namespace
}  // namespace atbus_c_test
