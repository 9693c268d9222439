// Secrets do not age: OpenSSL keeps them as sessions, which it would not resume after five minutes.
#include <sys/time.h>

#include <atomic>
#include <ctime>

#include "test.h"
#include "tls_pair.h"

namespace atbus::test {
namespace {

std::atomic<std::time_t> clock_shift{0};

TEST(TlsClock, ASecretOfAnyAgeIsTaken) {
  const auto of_client = secret_context({"a secret of this test"});
  const auto of_server = secret_context({"a secret of this test"});
  for (const std::time_t age : {0, 300, 310, 86'400, 40 * 365 * 86'400, -3'600}) {
    clock_shift = age;
    EXPECT_TRUE(tls_pair(of_client, of_server).shake_hands()) << age << " s";
  }
  clock_shift = 0;
}

}  // namespace
}  // namespace atbus::test

// In front of the C library's, for OpenSSL.
extern "C" [[gnu::visibility("default")]] std::time_t time(std::time_t* to) {
  timeval now{};
  (void)gettimeofday(&now, nullptr);
  const std::time_t shifted = now.tv_sec + atbus::test::clock_shift;
  if (to != nullptr)
    *to = shifted;
  return shifted;
}
