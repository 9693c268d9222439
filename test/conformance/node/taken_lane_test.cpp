// Messages that wait in a lane whose sender has gone on elsewhere, and that another node has taken over.
#include <unistd.h>

#include "atbus/atbus.hpp"
#include "atbus/inspect.hpp"
#include "test.h"

namespace atbus {
namespace {

TEST(TakenLane, OfAnotherNodeHoldsNothingOlderThanWhatItsSenderHasSentSince) {
  const std::string name = "taken-lane-" + std::to_string(getpid());
  const std::string where = "shm://" + name;
  const std::string listens_at = where + "?lanes=2";
  std::vector<std::string> got;
  const auto keep = [&got](const message& m) { got.emplace_back(m.text()); };
  const auto be_quiet = [](std::string_view) {};
  auto before = std::make_unique<node>(2);
  before->on_message(keep);
  before->on_log(be_quiet);
  ASSERT_TRUE(before->listen(listens_at));
  node one{1};
  one.on_log(be_quiet);
  bool is_away = false;
  one.on_endpoint([&](const endpoint&, endpoint_event what) {
    is_away = is_away || what == endpoint_event::away;
  });
  node next{2};
  next.on_message(keep);
  next.on_log(be_quiet);
  node other{3};
  other.on_log(be_quiet);
  const auto until = [&](const std::function<bool()>& over, auto&&... polled) {
    for (const auto end = now() + 10s; !over() && now() < end;)
      (polled.poll({.messages = 3}), ...);
    return over();
  };

  ASSERT_TRUE(one.connect(2, where));
  ASSERT_TRUE(one.send(2, 0, as_bytes("first")));
  ASSERT_TRUE(until([&] { return got.size() == 1; }, one, *before));
  before.reset();
  for (int i = 0; i != 60; ++i)
    ASSERT_TRUE(one.send(2, 0, as_bytes("old")));
  ASSERT_TRUE(until([&] { return is_away; }, one));
  ASSERT_TRUE(next.listen(listens_at));
  next.poll({.messages = 3});
  for (const auto end = now() + 40ms; now() < end;)
    one.poll();
  ASSERT_TRUE(one.disconnect(2));
  one.poll();
  one.poll();
  ASSERT_TRUE(one.connect(2, where));
  ASSERT_TRUE(other.connect(2, where));
  other.poll();
  for (int i = 0; i != 3; ++i)
    ASSERT_TRUE(one.send(2, 0, as_bytes("new")));
  ASSERT_TRUE(until([&] { return std::ranges::count(got, "new") == 3; }, next, one, other));
  for (const auto end = now() + 100ms; now() < end;) {
    next.poll();
    one.poll();
    other.poll();
  }
  EXPECT_LT(std::ranges::count(got, "old"), 60) << "the successor was not in the middle of them";
  const auto first_new = std::ranges::find(got, "new");
  EXPECT_EQ(std::count(first_new, got.end(), "old"), 0);
  next.close();
  one.close();
  other.close();
  EXPECT_TRUE(clean_segment(name));
}

}  // namespace
}  // namespace atbus
