// Credentials that a thread uses while another one forks.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "atbus/tls.hpp"
#include "child_process.h"
#include "test.h"

namespace atbus::test {
namespace {

// That thread does not exist in the child: what it had locked would stay locked there.
TEST(TlsCredentials, AreUsableInAChildThatWasMadeWhileAnotherThreadUsedThem) {
  child_process forking{[] {
    const auto keys = required(tls_credentials::from_token("0123456789abcdef0123456789abcdef"));
    std::atomic<bool> stop{false};
    std::thread user{[&] {
      while (!stop.load())
        (void)keys->expires();
    }};
    for (int i = 0; i != 100; ++i) {
      const pid_t child = fork();
      require(child >= 0, "fork");
      if (child == 0) {
        alarm(10);
        (void)keys->expires();
        _exit(0);
      }
      int status = 0;
      require(waitpid(child, &status, 0) == child && status == 0, "the child waits for ever");
    }
    stop.store(true);
    user.join();
    return 0;
  }};
  EXPECT_EQ(forking.wait_end(), "exit 0");
}

}  // namespace
}  // namespace atbus::test
