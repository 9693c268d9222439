// A process that may not make files as large as a segment: the kernel would end it with SIGXFSZ.
#include <sys/resource.h>
#include <unistd.h>

#include "atbus/atbus.hpp"
#include "test.h"

namespace atbus {
namespace {

class FileSizeLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit low{std::min<rlim_t>(1 << 20, before_.rlim_max), before_.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  }
  void TearDown() override { (void)setrlimit(RLIMIT_FSIZE, &before_); }
  static std::string name() { return "file-size-limit-" + std::to_string(getpid()); }

 private:
  rlimit before_{};
};

TEST_F(FileSizeLimit, RefusesASegmentThatIsLarger) {
  for (const std::string kind : {"shm://", "mem://"}) {
    const auto opened = receiver::open(kind + name());
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error(), errc::no_space);
    EXPECT_NE(opened.error().text().find("ulimit -f"), std::string::npos) << opened.error().text();
  }
}

TEST_F(FileSizeLimit, LetsASmallerSegmentBe) {
  auto opened = receiver::open("mem://" + name(),
                               {.lanes = 1, .lane_size = 64 * 1024, .message_limit = 4096});
  EXPECT_TRUE(opened) << opened.error().text();
}

TEST_F(FileSizeLimit, LeavesAUnixReceiverItsSockets) {
  const std::string where = "unix://@" + name();
  auto inbox = receiver::open(where);
  ASSERT_TRUE(inbox) << inbox.error().text();
  std::vector<std::string> problems;
  inbox->on_problem([&](const error& what) { problems.push_back(what.text()); });
  auto out = sender::open(where);
  ASSERT_TRUE(out) << out.error().text();
  ASSERT_TRUE(out->send(as_bytes("through the socket")));
  std::string got;
  for (const auto end = now() + 10s; got.empty() && now() < end;)
    inbox->poll([&](bytes_view m) { got = as_text(m); });
  EXPECT_EQ(got, "through the socket");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("ulimit -f"), std::string::npos) << problems[0];
}

}  // namespace
}  // namespace atbus
