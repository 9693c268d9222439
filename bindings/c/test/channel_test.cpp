// Channels in C.
#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "c_fixture.h"

namespace atbus_c_test {
namespace {

void append(void* user, const void* bytes, std::size_t size) {
  static_cast<std::string*>(user)->append(static_cast<const char*>(bytes), size);
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

TEST_F(CApi, ReceivesWithSeveralThreads) {
  const std::string address = "shm://atbus-c-shards-" + std::to_string(getpid());
  EXPECT_EQ(atbus_receiver_open_shards(address.c_str(), 2, nullptr, nullptr),
            ATBUS_INVALID_ARGUMENT);
  std::array<atbus_receiver*, 2> shards{};
  EXPECT_EQ(atbus_receiver_open_shards(address.c_str(), 0, nullptr, shards.data()),
            ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(shards[0], nullptr);
  atbus_receiver* in = nullptr;
  ASSERT_EQ(atbus_receiver_open(address.c_str(), nullptr, &in), ATBUS_OK) << atbus_last_error();
  shards = {in, in};
  EXPECT_EQ(atbus_receiver_open_shards(address.c_str(), 2, nullptr, shards.data()),
            ATBUS_RECEIVER_EXISTS);
  EXPECT_EQ(shards, (std::array<atbus_receiver*, 2>{})) << "nothing to free";
  atbus_receiver_free(in);
  ASSERT_EQ(atbus_receiver_open_shards(address.c_str(), 2, nullptr, shards.data()), ATBUS_OK)
      << atbus_last_error();
  // Who asks for the address does not take the shard, nor who watches it.
  EXPECT_EQ(atbus_receiver_address(shards[0]), address);
  EXPECT_GE(atbus_receiver_descriptor(shards[0]), 0);
  std::array<atbus_sender*, 2> outs{};
  for (atbus_sender*& out : outs) {
    ASSERT_EQ(atbus_sender_open(address.c_str(), nullptr, &out), ATBUS_OK) << atbus_last_error();
  }
  EXPECT_EQ(atbus_sender_send(outs[0], "first", 5), ATBUS_OK);
  EXPECT_EQ(atbus_sender_send(outs[1], "second", 6), ATBUS_OK);
  std::array<std::string, 2> got;
  std::array<atbus_code, 2> removed{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i != shards.size(); ++i) {
    threads.emplace_back([&, i] {
      EXPECT_EQ(atbus_receiver_wait(shards[i], second), ATBUS_OK);
      EXPECT_EQ(atbus_receiver_poll(shards[i], 0, append, &got[i], nullptr), ATBUS_OK);
      removed[i] = atbus_receiver_remove(shards[i]);
    });
  }
  for (std::thread& each : threads)
    each.join();
  EXPECT_EQ(got, (std::array<std::string, 2>{"first", "second"}));
  EXPECT_EQ(removed, (std::array<atbus_code, 2>{ATBUS_OK, ATBUS_OK}));
  EXPECT_EQ(atbus_sender_send(outs[0], "x", 1), ATBUS_OK);
  EXPECT_EQ(atbus_sender_send(outs[0], "x", 1), ATBUS_RETIRED);
  for (atbus_sender* const out : outs)
    atbus_sender_free(out);
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

}  // namespace
}  // namespace atbus_c_test
