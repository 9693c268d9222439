// A core dump of a process shows no token, and no key that is made of one.
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "atbus/node.hpp"
#include "sanitizer.h"
#include "test.h"
#include "tls/tls_secret.h"

namespace atbus {
namespace {

// Bytes that are looked for, which are not in memory themselves.
class hidden_bytes {
 public:
  explicit hidden_bytes(bytes_view from) {
    for (const std::byte one : from)
      mixed_.push_back(one ^ mix);
  }
  [[nodiscard]] std::size_t count_in(bytes_view memory) const {
    std::size_t found = 0;
    for (std::size_t i = 0; i + mixed_.size() <= memory.size(); ++i) {
      std::size_t k = 0;
      while (k != mixed_.size() && (memory[i + k] ^ mix) == mixed_[k])
        ++k;
      found += k == mixed_.size() ? 1U : 0U;
    }
    return found;
  }

 private:
  static constexpr std::byte mix{0x5a};
  std::vector<std::byte> mixed_;
};

struct found_bytes {
  std::size_t dumped = 0;
  std::size_t left_out = 0;  // of core dumps
};

// In all memory of this process that can be written.
found_bytes find(const hidden_bytes& wanted) {
  found_bytes result;
  std::ifstream maps{"/proc/self/smaps"};
  const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_written = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words{line};
    std::string first;
    std::string second;
    words >> first >> second;
    if (first.find('-') != std::string::npos && second.size() == 4) {
      begin = std::stoull(first, nullptr, 16);
      end = std::stoull(first.substr(first.find('-') + 1), nullptr, 16);
      is_written = second.starts_with("rw");
    } else if (first == "VmFlags:" && is_written) {
      std::vector<std::byte> bytes(end - begin);
      const ssize_t got = pread(memory, bytes.data(), bytes.size(), static_cast<off_t>(begin));
      const std::size_t size = got > 0 ? static_cast<std::size_t>(got) : 0;
      const std::size_t count = wanted.count_in(bytes_view{bytes}.first(size));
      (line.find(" dd") != std::string::npos ? result.left_out : result.dumped) += count;
      explicit_bzero(bytes.data(), bytes.size());
    }
  }
  close(memory);
  return result;
}

TEST(NodeSecretMemory, IsInNoCoreDump) {
#if defined(ATBUS_TEST_SANITIZER)
  GTEST_SKIP() << "a sanitizer maps more memory than can be searched";
#endif
  std::string secret(40, '\0');
  for (std::size_t i = 0; i != secret.size(); ++i)
    secret[i] = static_cast<char>('a' + i * 7 % 26);
  const hidden_bytes token{as_bytes(secret)};
  node_options options;
  options.token(secret).circuit_secret(secret).retry(5ms, 20ms);
  std::optional<hidden_bytes> key;
  {
    detail::tls_secret derived;
    ASSERT_TRUE(derived.derive(as_bytes(secret)));
    key.emplace(derived.key);
  }
  explicit_bzero(secret.data(), secret.size());
  node one{1, options};
  node two{2, options};
  options.wipe_tokens();
  std::vector<std::string> got;
  two.on_message([&](const message& m) { got.emplace_back(m.text()); });
  ASSERT_TRUE(two.listen("ipv6://[::1]:0"));
  ASSERT_TRUE(one.connect(2, two.addresses().at(0)));
  ASSERT_TRUE(one.send(2, 0, "text"));
  for (int i = 0; i < 1'000'000 && got.empty(); ++i) {
    one.poll();
    two.poll();
  }
  ASSERT_EQ(got.size(), 1U);
  const found_bytes tokens = find(token);
  EXPECT_EQ(tokens.dumped, 0U);
  EXPECT_EQ(tokens.left_out, 4U);  // two secrets of each node
  const found_bytes keys = find(*key);
  EXPECT_EQ(keys.dumped, 0U);
  EXPECT_EQ(keys.left_out, 2U);
}

}  // namespace
}  // namespace atbus
