// Messages that come in batches in C.
#include <sys/wait.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

// Of a node that is closed: what has come before.
std::vector<std::string> receive_rest(atbus_node* from) {
  std::vector<std::string> got;
  const atbus_message* all = nullptr;
  const void* bytes = nullptr;
  std::size_t count = 0;
  std::size_t size = 0;
  while (atbus_node_receive(from, 0, &all, &count, &bytes, &size) == ATBUS_OK) {
    for (std::size_t i = 0; i != count; ++i)
      got.emplace_back(static_cast<const char*>(all[i].bytes), all[i].size);
  }
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

// Sends messages of 60,000 bytes with a number at their begin to node 1, until it is over.
class flood {
 public:
  explicit flood(std::string address) : address_(std::move(address)), peer_([this] { run(); }) {}
  ~flood() {
    is_over_ = true;
    peer_.join();
  }
  flood(const flood&) = delete;
  flood& operator=(const flood&) = delete;
  // The link, and what it keeps of its own, has no room for another one.
  [[nodiscard]] bool is_full() const { return is_full_; }

 private:
  void run() {
    node two{2};
    EXPECT_EQ(atbus_node_connect(two.self, 1, address_.c_str()), ATBUS_OK);
    std::vector<char> bytes(60'000);
    for (std::uint64_t next = 0; !is_over_; atbus_node_poll(two.self, 0, 0, nullptr)) {
      std::memcpy(bytes.data(), &next, sizeof next);
      if (atbus_node_send(two.self, 1, 0, bytes.data(), bytes.size()) == ATBUS_OK)
        ++next;
      else
        is_full_ = true;
    }
  }

  const std::string address_;
  std::atomic<bool> is_over_ = false;
  std::atomic<bool> is_full_ = false;
  std::thread peer_;
};

// A peer sends without end while an outcome is waited for that never comes.
TEST_F(CApi, TakesNoMoreDuringAShutdownThanThereIsRoomFor) {
  const std::string address = new_address();
  node one{1};
  ASSERT_EQ(atbus_node_listen(one.self, address.c_str()), ATBUS_OK);
  EXPECT_TRUE(receive(one.self).empty());
  std::optional<flood> peer{address};
  std::vector<std::string> got;
  EXPECT_TRUE(until({}, [&] {
    got = receive(one.self);
    return !got.empty();
  }));
  EXPECT_EQ(atbus_node_connect(one.self, 3, new_address().c_str()), ATBUS_OK);
  EXPECT_EQ(atbus_node_send_required(one.self, 3, 0, "never", 5), ATBUS_OK);
  EXPECT_EQ(atbus_node_shutdown(one.self, second), ATBUS_TIMED_OUT);
  peer.reset();
  const std::vector<std::string> rest = receive_rest(one.self);
  EXPECT_GT(rest.size(), 0U);
  EXPECT_LT(rest.size(), 100U);  // of 60,000 bytes
  got.insert(got.end(), rest.begin(), rest.end());
  for (std::uint64_t i = 0; i != got.size(); ++i)
    EXPECT_EQ(std::memcmp(got[i].data(), &i, sizeof i), 0) << i;
}

TEST_F(CApi, EndsAShutdownWithoutMoreRoomWellWhereNothingIsOwed) {
  const std::string address = new_address();
  node one{1};
  ASSERT_EQ(atbus_node_listen(one.self, address.c_str()), ATBUS_OK);
  EXPECT_TRUE(receive(one.self).empty());
  const flood peer{address};
  EXPECT_TRUE(until({}, [&] { return !receive(one.self).empty(); }));
  EXPECT_TRUE(until({}, [&] { return peer.is_full(); }));
  EXPECT_EQ(atbus_node_shutdown(one.self, 20 * second), ATBUS_OK);
}

// What is in the link to a node that does not answer.
TEST_F(CApi, ReportsAllAfterAShutdownWithoutMoreRoom) {
  const std::string address = new_address();
  node three{3};
  node one{1};
  connect(one, three);
  ASSERT_EQ(atbus_node_listen(one.self, address.c_str()), ATBUS_OK);
  EXPECT_TRUE(receive(one.self).empty());
  const flood peer{address};
  EXPECT_TRUE(until({}, [&] { return !receive(one.self).empty(); }));
  EXPECT_EQ(atbus_node_send(one.self, 3, 0, "unread", 6), ATBUS_OK);
  EXPECT_EQ(atbus_node_shutdown(one.self, 20 * second), ATBUS_TIMED_OUT);
  EXPECT_EQ(one.reasons, std::vector<atbus_code>{ATBUS_CLOSED});
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
