// A cache server in a process of its own that is killed in the midst of its work.
#include <unistd.h>
#include <csignal>

#include "cache_client.h"
#include "cache_service.h"
#include "cache_values.h"
#include "child_process.h"
#include "scratch_directory.h"

namespace atbus::test {
namespace {

class KilledCacheFork : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr std::size_t in_flight = 64;
  static constexpr std::uint64_t keys = 500;

  ~KilledCacheFork() override {
    unlink(("/dev/shm/atbus-segment." + name_).c_str());
    unlink(("/dev/shm/atbus-bell." + name_).c_str());
  }

  [[nodiscard]] std::string address() const {
    return GetParam() == "shm" ? "shm://" + name_
                               : "unix://" + directory_.path() + "/socket?shm=false";
  }

  [[nodiscard]] child_process serve(const std::string& keep_file) const {
    const std::string where = address();
    return child_process{[where, keep_file] {
      const auto store =
          cache::cache_store::open({.memory_bytes = 16 * mebibyte, .keep_file = keep_file});
      require(static_cast<bool>(store), "the store opens");
      node at{1};
      cache::cache_service service{at, **store, node_options{}.message_limit()};
      const error listening = at.listen(where);
      require(static_cast<bool>(listening), listening.text());
      return at.run() ? 0 : 1;
    }};
  }

  template <class Condition>
  [[nodiscard]] bool poll_until(Condition holds) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
      at_.poll();
      static_cast<void>(at_.wait(1ms));
    }
    return true;
  }

  static std::string value_of(std::uint64_t key, std::uint64_t version) {
    std::string value = key_text(key) + " version " + std::to_string(version) + " ";
    value.resize(1000, '.');
    return value;
  }

  // One set or one get, turn by turn.
  void ask() {
    const std::size_t number = outcomes_.size();
    const std::uint64_t key = number / 2 % keys;
    const std::string text = key_text(key);
    std::vector<std::byte> body{as_bytes(text).begin(), as_bytes(text).end()};
    if (number % 2 == 0) {
      const std::string value = value_of(key, number);
      body.resize(sizeof(cache::set_head) + text.size() + value.size());
      mutable_bytes to{body};
      cache::put(to, cache::set_head{.key_bytes = static_cast<std::uint32_t>(text.size())});
      cache::put(to, as_bytes(text));
      cache::put(to, as_bytes(value));
    }
    const request_handle sent =
        at_.request(bus_id{1}, number % 2 == 0 ? cache::set : cache::get, body, 10s,
                    [this, number](const response& r) { tell(number, r); });
    if (sent) {
      outcomes_.push_back(0);
      ++without_outcome_;
    } else {
      EXPECT_EQ(sent.why(), errc::would_block);
    }
  }

  void tell(std::size_t number, const response& r) {
    ++outcomes_[number];
    --without_outcome_;
    if (!r) {
      ++failed_;
      return;
    }
    ++answered_;
    const std::uint64_t key = number / 2 % keys;
    if (number % 2 == 0) {
      is_stored_[key] = true;
    } else if (r.bytes().size() != sizeof(cache::answer_head)) {
      const std::string_view value = as_text(r.bytes().subspan(sizeof(cache::answer_head)));
      EXPECT_EQ(value.size(), 1000U);
      EXPECT_TRUE(value.starts_with(key_text(key) + " version ")) << value.substr(0, 40);
    }
  }

  // Until so many more requests have been answered.
  [[nodiscard]] bool keep_asking(std::size_t answers) {
    const std::size_t enough = answered_ + answers;
    return poll_until([&] {
      for (std::size_t i = 0; i != in_flight && without_outcome_ < in_flight; ++i) {
        ask();
      }
      return answered_ >= enough;
    });
  }
  [[nodiscard]] bool wait_for_outcomes() {
    return poll_until([&] { return without_outcome_ == 0; });
  }

  // How many of the keys that were stored are there.
  [[nodiscard]] std::size_t count_found() {
    std::size_t asked = 0;
    std::size_t told = 0;
    std::size_t found = 0;
    for (std::uint64_t key = 0; key != keys; ++key) {
      if (is_stored_[key]) {
        ++asked;
        EXPECT_TRUE(at_.request(bus_id{1}, cache::get, key_text(key), 10s, [&](const response& r) {
          ++told;
          found += r && r.bytes().size() > sizeof(cache::answer_head) ? 1U : 0U;
        }));
      }
    }
    EXPECT_TRUE(poll_until([&] { return told == asked; }));
    return found;
  }

  scratch_directory directory_;
  std::string name_ = "cache-fork-" + std::to_string(getpid());
  node at_{2, node_options{}.retry(10ms, 50ms)};
  std::vector<int> outcomes_;
  std::array<bool, keys> is_stored_{};
  std::size_t without_outcome_ = 0;
  std::size_t answered_ = 0;
  std::size_t failed_ = 0;
};

TEST_P(KilledCacheFork, GivesEachRequestOneOutcomeAndKeepsItsItems) {
  const std::string file = directory_.path() + "/cache";
  child_process server = serve(file);
  ASSERT_TRUE(at_.connect(1, address()));
  for (int life = 0; life != 4; ++life) {
    ASSERT_TRUE(keep_asking(1000)) << "life " << life;
    server.kill_and_wait();
    server = serve(file);
  }
  ASSERT_TRUE(keep_asking(1000));
  ASSERT_TRUE(wait_for_outcomes());
  for (std::size_t number = 0; number != outcomes_.size(); ++number) {
    ASSERT_EQ(outcomes_[number], 1) << "request " << number;
  }
  EXPECT_EQ(answered_ + failed_, outcomes_.size());

  server.kill_and_wait();
  server = serve(file);
  const auto stored = static_cast<std::size_t>(std::ranges::count(is_stored_, true));
  EXPECT_GT(stored, keys / 2);
  EXPECT_EQ(count_found(), stored);
}

TEST_P(KilledCacheFork, StartsColdWithoutAFile) {
  child_process server = serve({});
  ASSERT_TRUE(at_.connect(1, address()));
  ASSERT_TRUE(keep_asking(2000));
  ASSERT_TRUE(wait_for_outcomes());
  EXPECT_EQ(count_found(), static_cast<std::size_t>(std::ranges::count(is_stored_, true)));
  server.kill_and_wait();
  server = serve({});
  EXPECT_EQ(count_found(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Shm, KilledCacheFork, ::testing::Values("shm"));
INSTANTIATE_TEST_SUITE_P(Unix, KilledCacheFork, ::testing::Values("unix"));

}  // namespace
}  // namespace atbus::test
