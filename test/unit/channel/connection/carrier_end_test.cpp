// A listener whose carrier ends, and one that has no descriptor for what its carrier hands over.
#include <sys/resource.h>
#include <sys/socket.h>

#include "atbus/carrier.hpp"
#include "atbus/clock.hpp"
#include "atbus/connection.hpp"
#include "counting_allocator.h"
#include "system/kernel.h"
#include "system/passed_descriptors.h"
#include "test.h"

namespace atbus {
namespace {

class note final : public carried_link {
 public:
  [[nodiscard]] error why() const override { return why_; }

 private:
  const error why_{errc::timed_out, "a reason with more characters than fit into a short string"};
};

class short_carrier final : public carrier {
 public:
  result<int> listen(const address&) override {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
      return error{errc::system_error, "no socket pair", errno};
    own_ = detail::file{ends[0]};
    return ends[1];
  }
  result<carried_socket> connect(const address&) override {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
      return error{errc::system_error, "no socket pair", errno};
    own_ = detail::file{ends[0]};
    return carried_socket{.descriptor = ends[1], .link = std::make_shared<note>()};
  }
  void end() { own_.reset(); }
  void hand_over() {
    int ends[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    links_.emplace_back(ends[0]);
    const detail::file of_node{ends[1]};
    char nothing = 0;
    iovec piece{.iov_base = &nothing, .iov_len = 1};
    msghdr packet{};
    packet.msg_iov = &piece;
    packet.msg_iovlen = 1;
    detail::passed_descriptors<1> passed;
    passed.attach(packet, {of_node.get()});
    ASSERT_EQ(sendmsg(own_.get(), &packet, MSG_NOSIGNAL), 1);
  }

 private:
  detail::file own_;
  std::vector<detail::file> links_;
};

TEST(CarrierEnd, IsToldOnceAndCostsNoTimeAfterThat) {
  const auto by = std::make_shared<short_carrier>();
  int problems = 0;
  connection_handlers handlers;
  handlers.on_problem = [&](const error&) { ++problems; };
  auto in = connection_set::open(handlers);
  ASSERT_TRUE(in);
  ASSERT_TRUE(
      in->listen("nats://127.0.0.1:4222/subject", {.connection = {.socket = {.carrier = by}}}));
  by->end();
  for (const auto limit = now() + 10s; problems == 0 && now() < limit;)
    (void)in->wait(10ms), in->poll();
  EXPECT_EQ(problems, 1);
  // Without a limit: nothing is to come. A listener that rests for a while only would name its end.
  ASSERT_TRUE(in->prepare_sleep());
  EXPECT_LT(in->longest_sleep(), 0ns);
  in->finish_sleep();
  in->poll();
  EXPECT_EQ(problems, 1);
}

TEST(CarrierEnd, IsNotWhatAListenerWithoutDescriptorsTells) {
  const auto by = std::make_shared<short_carrier>();
  std::vector<error> problems;
  connection_handlers handlers;
  handlers.on_problem = [&](const error& what) { problems.push_back(what); };
  auto in = connection_set::open(handlers);
  ASSERT_TRUE(in);
  ASSERT_TRUE(
      in->listen("nats://127.0.0.1:4222/subject", {.connection = {.socket = {.carrier = by}}}));
  by->hand_over();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (const auto limit = now() + 10s; problems.empty() && now() < limit;)
    (void)in->wait(10ms), in->poll();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems.front(), errc::system_error);
  EXPECT_EQ(problems.front().system_code(), EMFILE);
  EXPECT_NE(problems.front().text().find("ulimit"), std::string::npos) << problems.front().text();
  // After a rest it takes the next one.
  EXPECT_EQ(in->size(), 0U);
  by->hand_over();
  for (const auto limit = now() + 10s; in->size() == 0 && now() < limit;)
    (void)in->wait(10ms), in->poll();
  EXPECT_EQ(in->size(), 1U);
}

TEST(CarrierEnd, OfALinkIsToldWithoutMemoryForItsReason) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  const auto by = std::make_shared<short_carrier>();
  bool failed = true;
  for (std::uint64_t good = 0; failed; ++good) {
    SCOPED_TRACE(good);
    ASSERT_LT(good, 100U);
    int ended = 0;
    error reason;
    connection_handlers handlers;
    handlers.on_close = [&](connection, const error& why) {
      ++ended;
      reason = why;
    };
    auto out = connection_set::open(handlers);
    ASSERT_TRUE(out);
    auto link = out->connect("nats://127.0.0.1:4222/subject",
                             {.connection = {.socket = {.carrier = by}}, .reconnect_min = 0ns});
    ASSERT_TRUE(link);
    out->poll();
    by->end();
    {
      const test::allocation_failure none{good};
      (void)out->wait(100ms);
      out->poll();
      failed = test::allocation_failure::happened();
    }
    for (const auto limit = now() + 10s; ended == 0 && now() < limit;)
      (void)out->wait(10ms), out->poll();
    EXPECT_EQ(ended, 1);
    EXPECT_TRUE(failed || reason.text().find("a reason with more") != std::string::npos)
        << reason.text();
  }
}

}  // namespace
}  // namespace atbus
