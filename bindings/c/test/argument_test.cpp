// What C programs may get wrong: arguments, options, threads, forks.
#include <sys/wait.h>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "c_fixture.h"
#include "counting_allocator.h"
#include "sanitizer.h"

namespace atbus_c_test {
namespace {

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

TEST_F(CApi, LeavesNoShortTokenInMemory) {
#if defined(ATBUS_TEST_SANITIZER)
  GTEST_SKIP() << "a sanitizer has a heap of its own";
#endif
  std::array<char, 16> token{};  // std::string has its bytes in itself
  std::string mixed;
  for (std::size_t i = 0; i != token.size() - 1; ++i) {
    token[i] = static_cast<char>('a' + i * 11 % 26);
    mixed += static_cast<char>(token[i] ^ 0x5a);
  }
  const char* const tokens[] = {token.data(), token.data(), token.data(), nullptr};
  const node one{1};
  EXPECT_EQ(atbus_node_set_tokens(one.self, tokens), ATBUS_INVALID_ARGUMENT);  // it is too short
  EXPECT_EQ(count_on_heap(mixed), 0U);
}

TEST_F(CApi, ReportsUnlessItIsToldNotTo) {
  const std::uint64_t id = 0x7000'0000'0000 + static_cast<std::uint64_t>(getpid());
  const auto reports = [id] {
    std::ostringstream prefix;
    prefix << "atbus-node.0x" << std::hex << id << '-';
    std::size_t found = 0;
    for (const auto& one : std::filesystem::directory_iterator{"/dev/shm"})
      found += one.path().filename().string().starts_with(prefix.str()) ? 1U : 0U;
    return found;
  };
  {
    const node one{id};
    EXPECT_EQ(reports(), 1U);
  }
  atbus_node_options options;
  atbus_node_options_init(&options);
  options.report_directory = "";
  const node one{id, &options};
  EXPECT_EQ(reports(), 0U);
}

TEST_F(CApi, IsUsableInCallbacksUntilItIsFreed) {
  struct ended {
    atbus_node* node;
    atbus_code sent;
  } last{nullptr, ATBUS_OK};
  ASSERT_EQ(atbus_node_new(1, nullptr, &last.node), ATBUS_OK);
  const auto send_more = [](void* user, const atbus_response*) {
    auto& of = *static_cast<ended*>(user);
    of.sent = atbus_node_send(of.node, 1, 0, "more", 4);
    EXPECT_EQ(atbus_node_claim(of.node, 1, 0, 4, nullptr), nullptr);
  };
  ASSERT_EQ(atbus_node_request(last.node, 1, 0, "", 0, second, send_more, &last, nullptr),
            ATBUS_OK);
  atbus_node_free(last.node);
  EXPECT_EQ(last.sent, ATBUS_CLOSED);
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
  EXPECT_EQ(made_with([](options& o) { o.write_delay_ns = 5000; }), ATBUS_OK);
  EXPECT_EQ(made_with([](options& o) { o.write_delay_ns = -1; }), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(made_with([](options& o) { o.write_delay_ns = 10'000'001; }), ATBUS_INVALID_ARGUMENT);
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
  EXPECT_EQ(atbus_node_is_open(nullptr) + atbus_node_is_settled(nullptr) +
                atbus_node_prepare_sleep(nullptr),
            0);
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
}  // namespace atbus_c_test
