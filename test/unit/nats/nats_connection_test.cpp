// Connections without nodes: what they have written is out of their hands, so the carriers hold it.
#include <ctime>

#include "atbus/connection.hpp"
#include "nats_party.h"

namespace atbus::test {
namespace {

class NatsConnections : public ::testing::Test {
 protected:
  void TearDown() override { wait_until_carriers_end(); }

  static connection_options through(std::shared_ptr<carrier> by) {
    return {.socket = {.carrier = std::move(by)}};
  }

  const nats_server server_;
  std::size_t got_ = 0;
  bool is_same_user_ = false;
  std::optional<connection> accepted_;
};

TEST_F(NatsConnections, HoldLittleOfWhatNobodyReadsAndLoseNothingOfIt) {
  connection_handlers handlers;
  handlers.on_open = [&](connection from) {
    accepted_ = from;
    is_same_user_ = from.same_user();
  };
  handlers.on_message = [&](connection, bytes_view) { ++got_; };
  auto in = connection_set::open(handlers);
  auto out = connection_set::open();
  ASSERT_TRUE(in && out);
  const std::string where = server_.address("fleet.in");
  ASSERT_TRUE(in->listen(where, {.connection = through(make_carrier())}));
  // The listener may be there later.
  auto to = out->connect(where, {.connection = through(make_carrier()), .reconnect_min = 20ms});
  ASSERT_TRUE(to);
  const auto is_open = [&] { return accepted_ && to->state() == connection_state::open; };
  for (const auto limit = now() + 20s; !is_open() && now() < limit;) {
    in->poll();
    out->poll();
  }
  ASSERT_TRUE(is_open());
  EXPECT_FALSE(is_same_user_);  // though both are
  EXPECT_EQ(accepted_->peer(), where);
  const std::string large(50'000, 'x');
  std::size_t taken = 0;
  for (const auto limit = now() + 3s; now() < limit;) {
    taken += to->send(as_bytes(large)) ? 1 : 0;
    out->poll();
  }
  // A queue of 4 MiB, a window of 1 MiB, two socket pairs.
  EXPECT_GT(taken * large.size(), std::size_t{4} << 20);
  EXPECT_LT(taken * large.size(), std::size_t{7} << 20);
  for (const auto limit = now() + 30s; got_ != taken && now() < limit;) {
    in->poll();
    out->poll();
  }
  EXPECT_EQ(got_, taken);
}

TEST_F(NatsConnections, CostNoTimeWhileNothingIsWanted) {
  {
    node one{1, with_carrier(make_carrier())};
    ASSERT_TRUE(one.connect(2, "nats://127.0.0.1:1/nobody"));
    for (const auto limit = now() + 300ms; now() < limit;) {
      one.poll();
      std::this_thread::sleep_for(1ms);
    }
    ASSERT_TRUE(one.disconnect(2));
    one.poll();
    const std::clock_t before = std::clock();
    std::this_thread::sleep_for(1s);  // the subject: what the carrier's thread costs in that time
    EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 5);
  }
}

}  // namespace
}  // namespace atbus::test
