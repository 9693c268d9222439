// The sample whose programs find each other in etcd.
#include <filesystem>

#include "sample_run.h"

#if ATBUS_HAS_DISCOVERY
#include "etcd_server.h"

namespace atbus {
namespace {

class DiscoverySample : public SampleRun {};

TEST_F(DiscoverySample, FindsItsServer) {
  if (!test::etcd_server::is_installed())
    GTEST_SKIP() << "etcd is not installed (Debian: etcd-server)";
  test::etcd_server etcd;
  etcd.start();
  child_process client = start("discovery_echo", etcd.url().c_str(), "found you");
  child_process server = start("discovery_echo", etcd.url().c_str());
  EXPECT_EQ(server.wait_end(), "exit 0");
  EXPECT_EQ(client.wait_end(), "exit 0");
  EXPECT_EQ(read_output(), "found you\nfound you\n");
  EXPECT_EQ(etcd.count("/atbus/"), 0);
}

}  // namespace
}  // namespace atbus
#endif
