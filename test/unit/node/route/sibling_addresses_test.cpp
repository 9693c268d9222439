// What a parent tells of where a child listens, and which of that another child dials.
#include "node/route/sibling_addresses.h"
#include "test.h"

namespace atbus::detail {
namespace {

using texts = std::vector<std::string>;

TEST(SiblingAddresses, AllInterfacesBecomeWhereTheLinkComesFrom) {
  EXPECT_EQ(addresses_to_tell({"ipv4://0.0.0.0:7000"}, "ipv4://10.0.0.7:41234"),
            texts{"ipv4://10.0.0.7:7000"});
  EXPECT_EQ(addresses_to_tell({"ipv6://[::]:7000"}, "ipv6://[fd00::7]:41234"),
            texts{address::parse("ipv6://[fd00::7]:7000")->to_string()});
  EXPECT_EQ(addresses_to_tell({"ipv4://10.0.0.9:7000"}, "ipv4://10.0.0.7:41234"),
            texts{"ipv4://10.0.0.9:7000"});
}

TEST(SiblingAddresses, AllInterfacesAreLeftOutWhereNobodyKnowsTheHost) {
  for (const char* const seen :
       {"", "a caller of ipv4://10.0.0.1:1", "unix:///run/a", "ipv6://[fd00::7]:1"})
    EXPECT_EQ(addresses_to_tell({"ipv4://0.0.0.0:7000"}, seen), texts{}) << seen;
}

TEST(SiblingAddresses, WhatIsNoAddressIsLeftOutAndSoIsWhatIsTooMuch) {
  EXPECT_EQ(addresses_to_tell({"nonsense", "unix:///a", "shm://b"}, ""),
            (texts{"unix:///a", "shm://b"}));
  const texts told = addresses_to_tell(texts(64, "ipv4://10.0.0.9:7000"), "");
  EXPECT_EQ(told.size(), sibling_addresses_max);
}

bool is_worth(const char* text, bool same_host) {
  return is_worth_dialling(*address::parse(text), same_host);
}

TEST(SiblingAddresses, AreDialledFromAnotherHostIfTheyAreTcpToOneHost) {
  for (const char* const text :
       {"ipv4://10.0.0.9:7000", "ipv6://[fd00::9]:7000", "ipv6://[::ffff:10.0.0.9]:7000"}) {
    EXPECT_TRUE(is_worth(text, false)) << text;
    EXPECT_TRUE(is_worth(text, true)) << text;
  }
}

TEST(SiblingAddresses, ThatMeanSomethingOnOneHostOnlyAreDialledThere) {
  for (const char* const text :
       {"mem://a", "shm://a", "unix:///a", "unix://@a", "ipv4://127.0.0.1:7000",
        "ipv4://127.9.9.9:7000", "ipv6://[::1]:7000", "ipv6://[::ffff:127.0.0.1]:7000"}) {
    EXPECT_FALSE(is_worth(text, false)) << text;
    EXPECT_TRUE(is_worth(text, true)) << text;
  }
}

TEST(SiblingAddresses, ThatAreNoPlaceToDialAreNeverDialled) {
  for (const char* const text :
       {"ipv4://0.0.0.0:7000", "ipv4://0.1.2.3:7000", "ipv4://224.0.0.1:7000",
        "ipv4://255.255.255.255:7000", "ipv6://[::]:7000", "ipv6://[ff02::1]:7000",
        "ipv6://[fe80::1]:7000", "ipv6://[::ffff:0.0.0.0]:7000", "ipv6://[::ffff:224.0.0.1]:7000",
        "dns://example.org:7000"}) {
    EXPECT_FALSE(is_worth(text, false)) << text;
    EXPECT_FALSE(is_worth(text, true)) << text;
  }
}

}  // namespace
}  // namespace atbus::detail
