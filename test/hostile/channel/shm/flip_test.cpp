// Values that change between two reads: a thread of the attacker flips control words and record
// bytes while receiver and senders work. Seeded; the seed is in the name of what fails.
#include "hostile/channel/shm/hostile_channel.h"

namespace atbus::hostile {
namespace {

// As long as the attack lasts; on a loaded machine until something has been attacked.
class time_frame {
 public:
  [[nodiscard]] bool goes_on(bool enough) const {
    return now() < end_ || (!enough && now() < end_ + 60s);
  }

 private:
  std::chrono::nanoseconds end_ = now() + 300ms;
};

// Ends with the scope, so that a failed assertion does not leave it running.
class background {
 public:
  explicit background(std::function<void()> work)
      : thread_{[this, work = std::move(work)] {
          while (!enough_.load(std::memory_order_relaxed))
            work();
        }} {}
  background(const background&) = delete;
  background& operator=(const background&) = delete;
  ~background() {
    enough_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> enough_{false};
  std::thread thread_;
};

class Flips : public hostile_channel, public ::testing::WithParamInterface<unsigned> {
 protected:
  std::uint64_t hostile_value(const detail::lane_slot& slot) {
    const std::uint64_t near[] = {slot.tail.load(), slot.head.load(),
                                  slot.done.load(), slot.done.load() + lane_size,
                                  random_(),        0};
    const std::uint64_t step = random_() % 4 == 0 ? 1 : 8;
    return near[random_() % std::size(near)] + (random_() % 17 - 8) * step;
  }
  void flip_lane(raw_segment& file, std::uint32_t lane) {
    detail::lane_slot& slot = file.slot(lane);
    if (random_() % 4 != 0) {
      words_of_lane[random_() % std::size(words_of_lane)].in(slot).store(hostile_value(slot));
      return;
    }
    const std::uint64_t at = random_() % 2 == 0 ? slot.done.load() : random_();
    const auto length =
        static_cast<std::uint32_t>(random_() % 3 == 0 ? random_() : random_() % lane_size);
    constexpr detail::record_kind kinds[] = {
        detail::record_kind::message, detail::record_kind::padding, detail::record_kind::open};
    const std::uint64_t header = detail::make_record_header(kinds[random_() % 3], length);
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(file.record(lane, at & ~std::uint64_t{7})),
                     header, __ATOMIC_RELAXED);
  }
  void flip_header(raw_segment& file) {
    auto* const words = reinterpret_cast<detail::shared_word*>(&file.header());
    // Behind the identity, which decides who can open it at all.
    const std::size_t first = sizeof(detail::segment_identity) / 8;
    const std::size_t count = sizeof(detail::segment_header) / 8;
    words[first + random_() % (count - first)].store(random_() % 2 == 0 ? random_()
                                                                        : random_() % 4);
  }
  static std::size_t touch(bytes_view bytes) {
    std::size_t sum = 0;
    for (const std::byte b : bytes)
      sum += static_cast<std::size_t>(b);
    return sum;
  }

  std::mt19937_64 random_{GetParam()};
};

TEST_P(Flips, OfOneLaneLeaveTheOthersWholeAndInOrder) {
  receiver in = open_receiver();
  sender victim = open_sender();
  sender good = open_sender();
  raw_segment file = raw();
  std::uint64_t next = 0;
  std::uint64_t accepted = 0;
  std::size_t touched = 0;
  std::atomic<std::uint32_t> victim_lane{victim.lane()};
  {
    const background attacker{[&] {
      const std::uint32_t lane = victim_lane.load();
      flip_lane(file, lane);
      file.header().ready[0].fetch_or(std::uint64_t{1} << lane);
    }};
    const std::string filler(100, 'v');
    const time_frame frame;
    for (std::uint64_t i = 0; frame.goes_on(accepted > 100 && touched != 0); ++i) {
      if (i % 16 == 0 && (!victim.send(as_bytes(filler)) && i % 256 == 0)) {
        victim.close();
        if (auto again = sender::open("shm://victim", sending()))
          victim = std::move(*again);
        if (victim.is_open())
          victim_lane = victim.lane();
      }
      if (victim.is_open() && i % 64 == 0)
        (void)victim.wait_writable(0ns);
      if (good.send(as_bytes(std::string_view{reinterpret_cast<const char*>(&accepted), 8})))
        ++accepted;
      in.poll([&](const received_message& m) {
        ASSERT_LE(m.bytes.size(), message_limit);
        touched += touch(m.bytes);
        if (m.lane != good.lane())
          return;
        std::uint64_t number = 0;
        ASSERT_EQ(m.bytes.size(), sizeof number);
        std::memcpy(&number, m.bytes.data(), sizeof number);
        ASSERT_EQ(number, next++);
      });
      if (i % 32 == 0)
        (void)in.wait(0ns);
    }
  }
  (void)in.poll([&](const received_message& m) { next += m.lane == good.lane() ? 1 : 0; });
  EXPECT_EQ(next, accepted);
  EXPECT_GT(accepted, 100U);
  EXPECT_GT(touched, 0U);
}

TEST_P(Flips, OfEverythingNeitherCrashNorHangAnybody) {
  std::optional<receiver> in{open_receiver()};
  raw_segment file = raw();
  const background attacker{[&] {
    if (random_() % 8 == 0)
      flip_header(file);
    flip_lane(file, static_cast<std::uint32_t>(random_() % lanes));
    file.header().ready[0].fetch_or(random_() % 8);
    file.header().retired.store(0);
  }};
  std::vector<sender> all;
  std::size_t touched = 0;
  const std::string filler(100, 'v');
  const time_frame frame;
  std::uint64_t i = 0;
  for (; frame.goes_on(i > 16); ++i) {
    if (i % 64 == 0)
      all.clear();
    while (all.size() < 2) {
      auto next = sender::open("shm://victim", sending());
      if (!next)
        break;
      all.push_back(std::move(*next));
    }
    for (sender& each : all) {
      (void)each.send(as_bytes(filler));
      (void)each.wait_writable(0ns);
      if (i % 8 == 0 && !in)
        (void)each.take_back([&](bytes_view m, errc) { touched += touch(m); });
    }
    if (in) {
      in->poll([&](const received_message& m) {
        ASSERT_LE(m.bytes.size(), message_limit);
        touched += touch(m.bytes);
      });
      (void)in->wait(0ns);
      (void)in->stats();
    }
    if (i % 16 == 15) {
      in.reset();
    } else if (i % 16 == 3 && !in) {
      if (auto again = receiver::open("shm://victim", receiving()))
        in.emplace(std::move(*again));
    }
  }
  // Whether anything arrives is the attacker's choice; that everybody goes on is ours.
  EXPECT_GT(i, 16U) << touched;
}

TEST_P(Flips, OfRecordsAlreadySentNeverReachAHandlerThatGetsCopies) {
  receiver_options o = receiving();
  o.copy_on_receive = true;
  auto in = receiver::open("shm://victim", o);
  ASSERT_TRUE(in) << in.error().text();
  sender out = open_sender();
  raw_segment file = raw();
  const std::uint32_t lane = out.lane();
  const background attacker{[&] {
    // Payload only: the bytes change all the time, also while they are copied.
    static std::uint64_t value = 0;
    ++value;
    for (std::uint64_t at = 512; at < 1500; at += 8) {
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(file.lane(lane) + at), value,
                       __ATOMIC_RELAXED);
    }
  }};
  std::size_t looked = 0;
  const time_frame frame;
  const std::string large(message_limit, 'x');
  while (frame.goes_on(looked != 0)) {
    (void)out.send(as_bytes(large));
    in->poll([&](bytes_view m) {
      const std::string first = copy_of(m);
      for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(copy_of(m), first);
        ++looked;
      }
    });
  }
  EXPECT_GT(looked, 0U);
}

INSTANTIATE_TEST_SUITE_P(Seed, Flips, ::testing::Values(1U, 2U, 3U));

}  // namespace
}  // namespace atbus::hostile
