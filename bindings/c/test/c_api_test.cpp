// The functions of C, from outside: what this program links shows nothing else.
#include <atbus/atbus.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "counting_allocator.h"
#include "sanitizer.h"

namespace {

using namespace std::chrono_literals;
constexpr std::int64_t second = 1'000'000'000;

std::string new_address() {
  static int count = 0;
  return "unix://@atbus-c-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

// A node that writes down what it is told.
class node {
 public:
  explicit node(std::uint64_t id, const atbus_node_options* options = nullptr) {
    EXPECT_EQ(atbus_node_new(id, options, &self), ATBUS_OK) << atbus_last_error();
    atbus_node_on_message(
        self,
        [](void* user, const atbus_message* m) {
          auto& of = *static_cast<node*>(user);
          of.got.emplace_back(static_cast<const char*>(m->bytes), m->size);
          of.last = *m;
        },
        this);
    atbus_node_on_undelivered(
        self,
        [](void* user, const atbus_undelivered* what) {
          static_cast<node*>(user)->reasons.push_back(what->reason);
        },
        this);
    atbus_node_on_endpoint(
        self,
        [](void* user, const atbus_endpoint*, atbus_endpoint_event event) {
          static_cast<node*>(user)->events.push_back(event);
        },
        this);
  }
  node(const node&) = delete;
  node& operator=(const node&) = delete;
  ~node() { atbus_node_free(self); }

  [[nodiscard]] bool is_connected() const {
    return !events.empty() && events.back() == ATBUS_ENDPOINT_CONNECTED;
  }

  atbus_node* self = nullptr;
  std::vector<std::string> got;
  atbus_message last{};
  std::vector<atbus_code> reasons;
  std::vector<atbus_endpoint_event> events;
};

class CApi : public ::testing::Test {
 protected:
  static bool until(std::initializer_list<node*> all, const std::function<bool()>& done) {
    for (const auto end = std::chrono::steady_clock::now() + 20s;
         std::chrono::steady_clock::now() < end;) {
      for (node* one : all) {
        EXPECT_EQ(atbus_node_poll(one->self, 0, 0, nullptr), ATBUS_OK);
      }
      if (done())
        return true;
    }
    return false;
  }
  static void connect(node& one, node& two) {
    ASSERT_EQ(atbus_node_listen(two.self, new_address().c_str()), ATBUS_OK) << atbus_last_error();
    ASSERT_EQ(
        atbus_node_connect(one.self, atbus_node_id(two.self), atbus_node_address(two.self, 0)),
        ATBUS_OK)
        << atbus_last_error();
    ASSERT_TRUE(until({&one, &two}, [&] { return one.is_connected() && two.is_connected(); }));
  }
};

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

struct outcome {
  int calls = 0;
  atbus_code code = ATBUS_OK;
  std::string text;

  static void of_response(void* user, const atbus_response* r) {
    auto& self = *static_cast<outcome*>(user);
    ++self.calls;
    self.code = r->code;
    self.text.assign(static_cast<const char*>(r->bytes), r->size);
  }
  static void of_reply(void* user, atbus_code code, const char* const* values, std::size_t count) {
    auto& self = *static_cast<outcome*>(user);
    ++self.calls;
    self.code = code;
    for (std::size_t i = 0; i != count; ++i)
      self.text.append(values[i]).append(";");
  }
};

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

TEST_F(CApi, SaysThatAClaimOfAChannelWasGivenUp) {
  const std::string address = new_address();
  atbus_receiver* in = nullptr;
  atbus_sender* out = nullptr;
  ASSERT_EQ(atbus_receiver_open(address.c_str(), nullptr, &in), ATBUS_OK) << atbus_last_error();
  ASSERT_EQ(atbus_sender_open(address.c_str(), nullptr, &out), ATBUS_OK) << atbus_last_error();
  ASSERT_NE(atbus_sender_claim(out, 10, nullptr), nullptr);
  ASSERT_EQ(atbus_sender_send(out, "sent", 4), ATBUS_OK);
  EXPECT_EQ(atbus_sender_commit(out, 10), ATBUS_INVALID_ARGUMENT);
  ASSERT_NE(atbus_sender_claim(out, 10, nullptr), nullptr);
  EXPECT_EQ(atbus_sender_commit(out, 10), ATBUS_OK);
  atbus_sender_free(out);
  atbus_receiver_free(in);
}

// How often a text is on the heap. `mixed` is that text with each byte changed by 0x5a: not to find itself.
std::size_t count_on_heap(const std::string& mixed) {
  std::ifstream maps{"/proc/self/maps"};
  std::string line;
  while (std::getline(maps, line) && line.find("[heap]") == std::string::npos) {
  }
  const auto* const begin = reinterpret_cast<const char*>(std::stoull(line, nullptr, 16));
  const auto* const end =
      reinterpret_cast<const char*>(std::stoull(line.substr(line.find('-') + 1), nullptr, 16));
  std::size_t found = 0;
  for (const char* at = begin; at + mixed.size() <= end; ++at) {
    found += std::equal(mixed.begin(), mixed.end(), at,
                        [](char one, char other) { return one == static_cast<char>(other ^ 0x5a); })
                 ? 1U
                 : 0U;
  }
  return found;
}

TEST_F(CApi, LeavesNoTokenInMemory) {
#if defined(ATBUS_TEST_SANITIZER)
  GTEST_SKIP() << "a sanitizer has a heap of its own";
#endif
  // free() writes over the beginning of what it gets.
  constexpr std::size_t hidden_from = 24;
  std::array<char, 65> token{};
  std::string mixed;
  for (std::size_t i = 0; i != token.size() - 1; ++i) {
    token[i] = static_cast<char>('a' + i * 7 % 26);
    if (i >= hidden_from)
      mixed += static_cast<char>(token[i] ^ 0x5a);
  }
  const char* const tokens[] = {token.data(), token.data(), token.data(), nullptr};
  atbus_node_options options;
  atbus_node_options_init(&options);
  options.tokens = tokens;
  options.circuit_secret = token.data();
  node one{1, &options};
  EXPECT_EQ(count_on_heap(mixed), 0U);
  EXPECT_EQ(atbus_node_set_tokens(one.self, tokens), ATBUS_OK) << atbus_last_error();
  EXPECT_EQ(count_on_heap(mixed), 0U);
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

TEST_F(CApi, RefusesOtherThreads) {
  node one{1};
  std::thread other{[&] {
    EXPECT_STREQ(atbus_last_error(), "");
    EXPECT_EQ(atbus_node_send(one.self, 1, 0, "no", 2), ATBUS_INVALID_ARGUMENT);
    EXPECT_NE(std::string{atbus_last_error()}.find("another thread"), std::string::npos);
    EXPECT_EQ(atbus_node_poll(one.self, 0, 0, nullptr), ATBUS_INVALID_ARGUMENT);
    atbus_node_free(one.self);
    EXPECT_EQ(atbus_node_adopt(one.self), ATBUS_OK);
    EXPECT_EQ(atbus_node_send(one.self, 1, 0, "yes", 3), ATBUS_OK);
  }};
  other.join();
  EXPECT_EQ(atbus_node_poll(one.self, 0, 0, nullptr), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(atbus_node_adopt(one.self), ATBUS_OK);
  EXPECT_EQ(atbus_node_poll(one.self, 0, 0, nullptr), ATBUS_OK);
  EXPECT_EQ(one.got, std::vector<std::string>{"yes"});
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

TEST_F(CApi, SendsFromOtherThreads) {
  node one{1};
  atbus_thread_sender* sender = nullptr;
  ASSERT_EQ(atbus_thread_sender_new(one.self, &sender), ATBUS_OK) << atbus_last_error();
  std::thread other{[&] {
    for (int i = 0; i != 1000; ++i) {
      while (atbus_thread_sender_send(sender, 1, 0, &i, sizeof i) == ATBUS_WOULD_BLOCK)
        (void)atbus_thread_sender_wait(sender, second);
    }
  }};
  EXPECT_TRUE(until({&one}, [&] { return one.got.size() == 1000; }));
  other.join();
  EXPECT_EQ(atbus_thread_sender_send(sender, 1, 0, "no", 2), ATBUS_INVALID_ARGUMENT);
  atbus_thread_sender_free(sender);
}

TEST_F(CApi, IsNotUsableInAForkedChild) {
  node one{1};
  node two{2};
  connect(one, two);
  const pid_t child = fork();
  if (child == 0) {
    const atbus_code sent = atbus_node_send(one.self, 2, 0, "no", 2);
    std::size_t delivered = 0;
    (void)atbus_node_poll(two.self, 0, 0, &delivered);
    _exit(sent == ATBUS_OK || delivered != 0 ? 1 : 0);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_EQ(WEXITSTATUS(how), 0);
  EXPECT_EQ(atbus_node_send(one.self, 2, 0, "yes", 3), ATBUS_OK);
  EXPECT_TRUE(until({&one, &two}, [&] { return two.got.size() == 1; }));
}

TEST_F(CApi, ReadsItsOptions) {
  const auto made_with = [](const auto& set) {
    atbus_node_options options;
    atbus_node_options_init(&options);
    set(options);
    atbus_node* made = nullptr;
    const atbus_code how = atbus_node_new(1, &options, &made);
    EXPECT_EQ(made != nullptr, how == ATBUS_OK);
    atbus_node_free(made);
    return how;
  };
  using options = atbus_node_options;
  const char* const short_token[] = {"short", nullptr};
  const char* const tokens[] = {"a token of this test, first", "a token of this test, second",
                                nullptr};
  EXPECT_EQ(made_with([](options&) {}), ATBUS_OK);
  EXPECT_EQ(made_with([&](options& o) { o.tokens = tokens; }), ATBUS_OK);
  EXPECT_EQ(made_with([&](options& o) { o.tokens = short_token; }), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(made_with([](options& o) { o.access = "/nowhere/access.toml"; }), ATBUS_NOT_FOUND);
  EXPECT_EQ(made_with([](options& o) { o.directory = "/nowhere/nodes.toml"; }), ATBUS_OK);
  EXPECT_EQ(made_with([](options& o) { o.certificate_chain = "/nowhere/chain.pem"; }),
            ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(made_with([](options& o) { o.children = "no range"; }), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(made_with([](options& o) { o.ping_interval_ns = -1; }), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(made_with([](options& o) { o.message_limit = std::uint64_t{1} << 40; }),
            ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(made_with([](options& o) { o.overflow = 9; }), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(made_with([](options& o) { o.strangers_bytes = ATBUS_NONE; }), ATBUS_OK);
  EXPECT_EQ(made_with([](options& o) { o.size = 0; }), ATBUS_INVALID_ARGUMENT);
  EXPECT_NE(std::string{atbus_last_error()}.find("options_init"), std::string::npos);
  // Of an earlier library: fewer members. Of a later one: more.
  EXPECT_EQ(made_with([&](options& o) {
              o.size = offsetof(options, circuit_secret);
              o.circuit_secret = "short";  // it does not know this one
            }),
            ATBUS_OK);
  struct {
    atbus_node_options known;
    std::uint64_t unknown = 0;
  } later;
  atbus_node_options_init(&later.known);
  later.known.size = sizeof later;
  atbus_node* made = nullptr;
  EXPECT_EQ(atbus_node_new(1, &later.known, &made), ATBUS_OK);
  atbus_node_free(made);
  later.unknown = 1;
  EXPECT_EQ(atbus_node_new(1, &later.known, &made), ATBUS_NOT_SUPPORTED);
}

void append(void* user, const void* bytes, std::size_t size) {
  static_cast<std::string*>(user)->append(static_cast<const char*>(bytes), size);
}

TEST_F(CApi, CarriesMessagesOfChannels) {
  const std::string address = "shm://atbus-c-" + std::to_string(getpid());
  atbus_receiver* in = nullptr;
  atbus_sender* out = nullptr;
  atbus_channel_options options;
  atbus_channel_options_init(&options);
  options.message_limit = 1000;
  EXPECT_EQ(atbus_sender_open(address.c_str(), nullptr, &out), ATBUS_NOT_FOUND);
  EXPECT_EQ(out, nullptr);
  ASSERT_EQ(atbus_receiver_open(address.c_str(), &options, &in), ATBUS_OK) << atbus_last_error();
  EXPECT_NE(std::string{atbus_receiver_address(in)}.find(address), std::string::npos);
  EXPECT_EQ(atbus_receiver_wait(in, 0), ATBUS_TIMED_OUT);
  ASSERT_EQ(atbus_sender_open(address.c_str(), nullptr, &out), ATBUS_OK) << atbus_last_error();
  EXPECT_EQ(atbus_sender_send(out, "sent", 4), ATBUS_OK);
  atbus_code code = ATBUS_CLOSED;
  std::memcpy(atbus_sender_claim(out, 20, &code), "claimed", 7);
  EXPECT_EQ(code, ATBUS_OK);
  EXPECT_EQ(atbus_sender_commit(out, 21), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(atbus_sender_commit(out, 7), ATBUS_OK);
  EXPECT_EQ(atbus_sender_claim(out, 1001, &code), nullptr);
  EXPECT_EQ(code, ATBUS_MESSAGE_TOO_LARGE);
  EXPECT_EQ(atbus_sender_wait_writable(out, 0), ATBUS_OK);
  EXPECT_EQ(atbus_receiver_wait(in, second), ATBUS_OK);
  std::string got;
  std::size_t delivered = 0;
  EXPECT_EQ(atbus_receiver_poll(in, 0, append, &got, &delivered), ATBUS_OK);
  EXPECT_EQ(delivered, 2U);
  EXPECT_EQ(got, "sentclaimed");
  EXPECT_GE(atbus_receiver_descriptor(in), 0);
  EXPECT_EQ(atbus_receiver_prepare_sleep(in), 1);
  EXPECT_EQ(atbus_receiver_finish_sleep(in), ATBUS_OK);
  atbus_sender_free(out);
  EXPECT_EQ(atbus_receiver_remove(in), ATBUS_OK) << atbus_last_error();
}

TEST_F(CApi, EncryptsChannelsWithASecret) {
  atbus_channel_options options;
  atbus_channel_options_init(&options);
  options.secret = "a secret that both ends have";
  atbus_receiver* in = nullptr;
  ASSERT_EQ(atbus_receiver_open("ipv4://127.0.0.1:0", &options, &in), ATBUS_OK)
      << atbus_last_error();
  options.secret = "short";
  atbus_sender* out = nullptr;
  EXPECT_EQ(atbus_sender_open(atbus_receiver_address(in), &options, &out), ATBUS_INVALID_ARGUMENT);
  options.secret = "a secret that both ends have";
  options.reconnect_min_ns = 1'000'000;  // it does not wait for the connection
  ASSERT_EQ(atbus_sender_open(atbus_receiver_address(in), &options, &out), ATBUS_OK)
      << atbus_last_error();
  EXPECT_EQ(atbus_sender_send(out, "secret", 6), ATBUS_OK);
  std::string got;
  for (int i = 0; i != 1000 && got.empty(); ++i) {
    (void)atbus_sender_flush(out, 0);
    (void)atbus_receiver_wait(in, second / 100);
    EXPECT_EQ(atbus_receiver_poll(in, 0, append, &got, nullptr), ATBUS_OK);
  }
  EXPECT_EQ(got, "secret");
  atbus_sender_free(out);
  atbus_receiver_free(in);
}

TEST_F(CApi, TakesNoNull) {
  const std::initializer_list<atbus_code> codes = {
      atbus_node_new(1, nullptr, nullptr),
      atbus_node_adopt(nullptr),
      atbus_node_close(nullptr),
      atbus_node_listen(nullptr, "x"),
      atbus_node_connect(nullptr, 1, "x"),
      atbus_node_disconnect(nullptr, 1),
      atbus_node_set_policy(nullptr, 1, ATBUS_OVERFLOW_WOULD_BLOCK, 0),
      atbus_node_set_tokens(nullptr, nullptr),
      atbus_node_send(nullptr, 1, 0, nullptr, 0),
      atbus_node_send_required(nullptr, 1, 0, nullptr, 0),
      atbus_node_commit(nullptr, 0),
      atbus_node_broadcast(nullptr, 0, 0, 0, nullptr, 0),
      atbus_node_broadcast_confirmed(nullptr, 0, 0, 0, nullptr, 0, 0, nullptr, nullptr),
      atbus_node_request(nullptr, 1, 0, nullptr, 0, 0, nullptr, nullptr, nullptr),
      atbus_node_cancel(nullptr, nullptr),
      atbus_node_gather(nullptr, nullptr, 0, 0, nullptr, 0, 0, 0, nullptr, nullptr),
      atbus_node_command(nullptr, 1, nullptr, 0, 0, nullptr, nullptr),
      atbus_node_on_message(nullptr, nullptr, nullptr),
      atbus_node_on_request(nullptr, 0, nullptr, nullptr),
      atbus_node_on_any_request(nullptr, nullptr, nullptr),
      atbus_node_on_command(nullptr, nullptr, nullptr, nullptr),
      atbus_node_on_undelivered(nullptr, nullptr, nullptr),
      atbus_node_on_endpoint(nullptr, nullptr, nullptr),
      atbus_node_on_writable(nullptr, nullptr, nullptr),
      atbus_node_on_log(nullptr, nullptr, nullptr),
      atbus_node_on_ready(nullptr, 0, 0, nullptr, nullptr),
      atbus_node_poll(nullptr, 0, 0, nullptr),
      atbus_node_receive(nullptr, 0, nullptr, nullptr, nullptr, nullptr),
      atbus_node_wait(nullptr, 0),
      atbus_node_run(nullptr),
      atbus_node_stop(nullptr),
      atbus_node_shutdown(nullptr, 0),
      atbus_node_flush(nullptr),
      atbus_node_finish_sleep(nullptr),
      atbus_node_get_stats(nullptr, nullptr),
      atbus_node_endpoints(nullptr, nullptr, nullptr),
      atbus_request_reply(nullptr, nullptr, 0),
      atbus_request_fail(nullptr, nullptr, 0),
      atbus_command_reply(nullptr, nullptr, 0),
      atbus_command_fail(nullptr, nullptr, 0),
      atbus_thread_sender_new(nullptr, nullptr),
      atbus_thread_sender_send(nullptr, 0, 0, nullptr, 0),
      atbus_thread_sender_wait(nullptr, 0),
      atbus_sender_open(nullptr, nullptr, nullptr),
      atbus_sender_send(nullptr, nullptr, 0),
      atbus_sender_commit(nullptr, 0),
      atbus_sender_flush(nullptr, 0),
      atbus_sender_wait_writable(nullptr, 0),
      atbus_receiver_open(nullptr, nullptr, nullptr),
      atbus_receiver_poll(nullptr, 0, nullptr, nullptr, nullptr),
      atbus_receiver_wait(nullptr, 0),
      atbus_receiver_finish_sleep(nullptr),
      atbus_receiver_remove(nullptr),
      atbus_parse_id(nullptr, nullptr)};
  for (const atbus_code code : codes)
    EXPECT_EQ(code, ATBUS_INVALID_ARGUMENT);
  atbus_node_free(nullptr);
  atbus_request_free(nullptr);
  atbus_command_free(nullptr);
  atbus_thread_sender_free(nullptr);
  atbus_sender_free(nullptr);
  atbus_receiver_free(nullptr);
  EXPECT_EQ(atbus_node_id(nullptr) + atbus_node_incarnation(nullptr) + atbus_node_parent(nullptr),
            0U);
  EXPECT_EQ(atbus_node_is_open(nullptr) + atbus_node_prepare_sleep(nullptr), 0);
  EXPECT_EQ(atbus_node_descriptor(nullptr), -1);
  EXPECT_EQ(atbus_node_address(nullptr, 0), nullptr);
  EXPECT_EQ(atbus_node_claim(nullptr, 0, 0, 0, nullptr), nullptr);
  EXPECT_EQ(atbus_request_detach(nullptr), nullptr);
  EXPECT_EQ(atbus_request_bytes(nullptr, nullptr), nullptr);
  EXPECT_EQ(atbus_command_word(nullptr, 0), nullptr);
  EXPECT_EQ(atbus_receiver_address(nullptr), nullptr);
  node one{1};
  EXPECT_EQ(atbus_node_send(one.self, 1, 0, nullptr, 1), ATBUS_INVALID_ARGUMENT);
  EXPECT_NE(std::string{atbus_last_error()}.find("NULL"), std::string::npos);
  EXPECT_EQ(atbus_node_listen(one.self, nullptr), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(atbus_node_request(one.self, 1, 0, nullptr, 0, 0, nullptr, nullptr, nullptr),
            ATBUS_INVALID_ARGUMENT);
}

TEST_F(CApi, NamesEachCode) {
  for (int code = 0; code <= ATBUS_MALFORMED; ++code) {
    EXPECT_STRNE(atbus_code_name(code), "unknown");
    EXPECT_STRNE(atbus_code_text(code), "");
  }
  EXPECT_STREQ(atbus_code_name(ATBUS_WOULD_BLOCK), "would_block");
  EXPECT_STREQ(atbus_code_name(-1), "unknown");
  EXPECT_STREQ(atbus_code_name(1000), "unknown");
  std::uint64_t id = 0;
  EXPECT_EQ(atbus_parse_id("0x12", &id), ATBUS_OK);
  EXPECT_EQ(id, 0x12U);
  EXPECT_NE(atbus_parse_id("twelve", &id), ATBUS_OK);
  EXPECT_NE(std::string{atbus_last_error()}.find("twelve"), std::string::npos);
  EXPECT_NE(std::string{atbus_version()}.find('.'), std::string::npos);
}

}  // namespace
