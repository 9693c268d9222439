// A listener whose carrier ends.
#include <sys/socket.h>

#include "atbus/carrier.hpp"
#include "atbus/clock.hpp"
#include "atbus/connection.hpp"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

class short_carrier final : public carrier {
 public:
  result<int> listen(const address&) override {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
      return error{errc::system_error, "no socket pair", errno};
    own_ = detail::file{ends[0]};
    return ends[1];
  }
  result<carried_socket> connect(const address&) override { return error{errc::not_supported}; }
  void end() { own_.reset(); }

 private:
  detail::file own_;
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

}  // namespace
}  // namespace atbus
