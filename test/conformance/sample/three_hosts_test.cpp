// The sample of a tree over three hosts, run as a newcomer runs it.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "sample_run.h"
#include "scratch_directory.h"

namespace atbus {
namespace {

TEST_F(SampleRun, ThreeHostsReachEachOther) {
  if (access(ATBUS_TEST_PROGRAMS_DIR "/atbus", X_OK) != 0)
    GTEST_SKIP() << "the atbus command is not built";
  const test::scratch_directory scratch;
  const std::string files = scratch.path() + "/three_hosts";
  child_process script{[&] {
    dup2(output_[1], STDOUT_FILENO);
    setenv("THREE_HOSTS_DIR", files.c_str(), 1);
    setenv("ATBUS", ATBUS_TEST_PROGRAMS_DIR "/atbus", 1);
    setenv("THREE_HOSTS_HTTP", "0", 1);
    setenv("MEMBER", ATBUS_TEST_PROGRAMS_DIR "/sample_three_hosts_member", 1);
    execl(ATBUS_TEST_SOURCE_DIR "/../sample/three_hosts/three_hosts.sh", "three_hosts.sh", "run",
          nullptr);
    return 127;
  }};
  EXPECT_EQ(script.wait_end(), "exit 0");
  close(std::exchange(output_[1], -1));
  std::map<std::string, int> reached;  // how many, by each
  for (std::string line = read_line(); !line.ends_with("(no end)"); line = read_line()) {
    if (line.find(" reached ") == std::string::npos)
      continue;
    ++reached[line.substr(0, line.find(' '))];
    EXPECT_EQ(line.find("through nothing"), std::string::npos) << line;
  }
  EXPECT_EQ(reached.size(), 6U);
  for (const auto& [who, count] : reached)
    EXPECT_EQ(count, 5) << who;
  struct stat is {};
  EXPECT_NE(stat(files.c_str(), &is), 0) << "it leaves " << files;
}

}  // namespace
}  // namespace atbus
