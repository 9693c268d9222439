#include "nats/server_refusal.h"

#include <string>

#include "test.h"

namespace atbus::detail {
namespace {

TEST(ServerRefusal, NamesTheSubjectAndWhatIsForbidden) {
  const auto publishing = read_refusal("Permissions Violation for Publish to \"fleet.b\"");
  ASSERT_TRUE(publishing);
  EXPECT_TRUE(publishing->publishing);
  EXPECT_EQ(publishing->subject, "fleet.b");
  const auto subscribing = read_refusal(
      "nats: Permissions Violation for Subscription to \"_INBOX.atbus.x.*\" using "
      "queue \"q\"");
  ASSERT_TRUE(subscribing);
  EXPECT_FALSE(subscribing->publishing);
  EXPECT_EQ(subscribing->subject, "_INBOX.atbus.x.*");
}

TEST(ServerRefusal, IsNoneOfOtherTextsAndOfOnesThatAreCutOff) {
  const std::string whole = "Permissions Violation for Publish to \"fleet.b\"";
  for (std::size_t size = 0; size != whole.size(); ++size)
    EXPECT_FALSE(read_refusal(whole.substr(0, size))) << size;
  for (const char* const text :
       {"Permissions Violation for Publish to \"\"", "Slow Consumer",
        "Permissions Violation for Publish with Reply of \"fleet.b\"", "Authorization Violation"})
    EXPECT_FALSE(read_refusal(text)) << text;
}

}  // namespace
}  // namespace atbus::detail
