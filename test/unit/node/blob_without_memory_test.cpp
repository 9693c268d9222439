// A poll for which there is no memory, while a blob is under way: its sender is told one outcome, and whoever has accepted
// it one end.
#include <unistd.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "counting_allocator.h"
#include "test.h"

namespace atbus {
namespace {

class BlobWithoutMemory : public ::testing::TestWithParam<const char*> {
 protected:
  using handler = std::function<void(incoming_blob&)>;
  static constexpr std::uint32_t type = 7;

  void SetUp() override {
    if (!test::can_fail_allocations())
      GTEST_SKIP() << "this build can't let allocations fail";
  }
  static node_options quick() {
    return node_options{}
        .allow_unauthenticated()
        .retry(1ms, 2ms)
        .first_idle_timeout(100ms)
        .blob_window(node_options::blob_window_min);
  }
  static std::string address() {
    static int made = 0;
    if (std::string_view{GetParam()} != "mem")
      return GetParam();
    return "mem://blob-without-memory-" + std::to_string(getpid()) + "-" + std::to_string(++made);
  }
  template <class Done>
  static bool run_until(std::initializer_list<node*> all, Done&& is_done) {
    for (const auto end = now() + 20s; !is_done() && now() < end;) {
      for (node* one : all)
        one->poll();
    }
    return is_done();
  }

  // What both sides were told.
  struct facts {
    int accepted = 0;
    int ends = 0;
    int outcomes = 0;
    bool is_whole = false;
    status how;
    std::uint64_t got = 0;
    void accept(incoming_blob& blob) {
      blob.accept([this](const blob_part& part) {
        got += part.bytes().size();
        if (part.ended()) {
          ++ends;
          is_whole = part.how() == errc::ok;
        }
      });
      ++accepted;
    }
  };

  // A blob is sent to a node that takes it as `take` says. After so many polls of both, one of them polls while `bad`
  // allocations fail behind the first `good` ones. Whether one has failed.
  static bool send_in_vain(const std::string& bytes, bool fails_at_sender, int steps,
                           std::uint64_t good, std::uint64_t bad,
                           const std::function<void(facts&, incoming_blob&)>& take) {
    facts told;
    bool failed = false;
    {
      node from{1, quick()};
      node to{2, quick()};
      to.on_blob(type, [&](incoming_blob& blob) { take(told, blob); });
      EXPECT_TRUE(to.listen(address()));
      EXPECT_TRUE(from.connect(2, to.addresses().front()));
      EXPECT_TRUE(from.send(2, 1, "x"));
      EXPECT_TRUE(run_until({&from, &to}, [&] { return from.is_settled(); }));
      EXPECT_TRUE(
          from.send_blob(2, type, {nullptr, as_bytes(bytes)}, [&](const blob_outcome& what) {
            ++told.outcomes;
            told.how = what.how();
          }));
      for (int step = 0; step != steps; ++step) {
        from.poll();
        to.poll();
      }
      if (!fails_at_sender)
        from.poll();
      {
        const test::allocation_failure none{good, bad};
        try {
          (fails_at_sender ? from : to).poll();
        } catch (const std::bad_alloc&) {
        }
        failed = test::allocation_failure::happened();
      }
      EXPECT_TRUE(
          run_until({&from, &to}, [&] { return told.outcomes != 0 && told.accepted == told.ends; }))
          << told.accepted << " accepted, " << told.ends << " ended, " << told.outcomes
          << " outcomes";
      for (int step = 0; step != 10; ++step) {
        from.poll();
        to.poll();
      }
    }
    EXPECT_EQ(told.outcomes, 1);
    EXPECT_EQ(told.accepted, told.ends);
    if (told.how == errc::ok) {
      EXPECT_TRUE(told.is_whole);
      EXPECT_EQ(told.got, bytes.size());
    }
    return failed;
  }
  static void send_in_vain(const std::string& bytes, bool fails_at_sender,
                           const std::function<void(facts&, incoming_blob&)>& take) {
    for (const std::uint64_t bad : {static_cast<std::uint64_t>(-1), std::uint64_t{1}}) {
      bool failed = true;
      for (std::uint64_t good = 0; failed; ++good) {
        ASSERT_LT(good, 1000U);
        failed = false;
        for (int steps = 0; steps != 6; ++steps) {
          SCOPED_TRACE(std::to_string(good) + " good ones, after " + std::to_string(steps) +
                       " steps");
          failed = send_in_vain(bytes, fails_at_sender, steps, good, bad, take) || failed;
          if (HasFailure())
            return;
        }
      }
    }
  }
};

void accept(auto& told, incoming_blob& blob) {
  told.accept(blob);
}

TEST_P(BlobWithoutMemory, HasOneEndAtAReceiverThatAccepts) {
  for (const std::size_t size : {0U, 10U, 100'000U})
    send_in_vain(std::string(size, 'b'), false, accept<facts>);
}

TEST_P(BlobWithoutMemory, HasOneOutcomeAtItsSender) {
  for (const std::size_t size : {0U, 10U, 100'000U})
    send_in_vain(std::string(size, 'b'), true, accept<facts>);
}

TEST_P(BlobWithoutMemory, IsRefusedOnce) {
  const std::string why(100, 'w');
  for (const bool fails_at_sender : {false, true}) {
    send_in_vain("bytes", fails_at_sender, [&](facts&, incoming_blob& blob) { blob.refuse(why); });
    send_in_vain("bytes", fails_at_sender, [](facts&, incoming_blob&) {});
  }
}

TEST_P(BlobWithoutMemory, IsRefusedOnceInTheMiddle) {
  const std::string why(100, 'w');
  for (const bool fails_at_sender : {false, true}) {
    send_in_vain(std::string(100'000, 'b'), fails_at_sender, [&](facts&, incoming_blob& blob) {
      blob.accept([&](const blob_part& part) {
        if (!part.ended())
          part.refuse(why);
      });
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Over, BlobWithoutMemory, ::testing::Values("mem", "ipv4://127.0.0.1:0"),
                         [](const auto& of) {
                           return std::string{of.param} == "mem" ? "Lanes" : "Tcp";
                         });

}  // namespace
}  // namespace atbus
