// The sample programs in C, beside programs and nodes in C++.
#include <algorithm>
#include <string>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "sample_run.h"

namespace atbus {
namespace {

class CSample : public SampleRun {
 protected:
  static bool run(node& self, const std::function<bool()>& done) {
    for (const auto limit = now() + std::chrono::seconds{60}; now() < limit && !done();) {
      self.poll();
      (void)self.wait(std::chrono::milliseconds{10});
    }
    return done();
  }
};

TEST_F(CSample, HelloComesBackFromAProgramInCpp) {
  child_process echo = start("hello_echo", address_.c_str());
  child_process hello = start("c_hello", address_.c_str());
  EXPECT_EQ(read_line(), "hello");
  EXPECT_EQ(hello.wait_end(), "exit 0");
  echo.kill_and_wait();
}

TEST_F(CSample, AServiceAnswersNowAndLaterAndStops) {
  child_process service = start("c_service", address_.c_str());
  node asking{1};
  ASSERT_TRUE(asking.connect(2, address_));
  std::vector<std::string> answers;
  for (const std::uint32_t type : {1U, 2U, 3U}) {
    ASSERT_TRUE(asking.request(2, type, std::string(type, 'x'), std::chrono::seconds{60},
                               [&](const response& r) { answers.emplace_back(r.text()); }));
  }
  ASSERT_TRUE(run(asking, [&] { return answers.size() == 3; }));
  std::ranges::sort(answers);  // one is late, but maybe the others were later
  EXPECT_EQ(answers, (std::vector<std::string>{"1 letters", "2 letters", "3 letters"}));
  std::vector<std::string> reply;
  ASSERT_TRUE(asking.command(2, {"stop"}, std::chrono::seconds{60},
                             [&](status, const command_reply& r) { reply = r.values(); }));
  ASSERT_TRUE(run(asking, [&] { return !reply.empty(); }));
  EXPECT_EQ(reply, (std::vector<std::string>{"stopped", "node 2"}));
  EXPECT_EQ(service.wait_end(), "exit 0");
}

}  // namespace
}  // namespace atbus
