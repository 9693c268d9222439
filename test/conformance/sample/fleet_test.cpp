// The sample of a fleet that finds itself in etcd, run as a newcomer runs it.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "etcd_server.h"
#include "sample_run.h"
#include "scratch_directory.h"

namespace atbus {
namespace {

TEST_F(SampleRun, AFleetIsRestartedWithoutLoss) {
  if (access(ATBUS_TEST_PROGRAMS_DIR "/sample_fleet_server", X_OK) != 0)
    GTEST_SKIP() << "discovery is not built";
  if (!test::etcd_server::is_installed())
    GTEST_SKIP() << "etcd is not installed";
  const test::scratch_directory scratch;
  const std::string files = scratch.path() + "/fleet";
  child_process script{[&] {
    dup2(output_[1], STDOUT_FILENO);
    dup2(output_[1], STDERR_FILENO);
    setenv("FLEET_DIR", files.c_str(), 1);
    setenv("PROGRAMS", ATBUS_TEST_PROGRAMS_DIR, 1);
    execl(ATBUS_TEST_SOURCE_DIR "/../sample/fleet/fleet.sh", "fleet.sh", "run", nullptr);
    return 127;
  }};
  EXPECT_EQ(script.wait_end(2 * test::patience), "exit 0");
  close(std::exchange(output_[1], -1));
  int restarted = 0;
  std::string last;
  std::string all;
  for (std::string line = read_line(); !line.ends_with("(no end)"); line = read_line()) {
    restarted += line.ends_with(" has been restarted.") ? 1 : 0;
    all += line + "\n";
    last = line;
  }
  EXPECT_EQ(restarted, 6) << all;
  EXPECT_NE(last.find(" the servers have answered "), std::string::npos) << all;
  struct stat is {};
  EXPECT_NE(stat(files.c_str(), &is), 0) << "it leaves " << files;
}

}  // namespace
}  // namespace atbus
