// Topics while subscribers and relays are killed, or stopped: nothing is lost or repeated without a word.
#include <atomic>
#include <memory>

#include "child_process.h"
#include "node_fixture.h"

namespace atbus::test {
namespace {

constexpr std::uint64_t numbers_max = std::uint64_t{1} << 20;

// What all processes of a subscriber have seen of one publisher.
struct topic_book {
  std::array<std::atomic<std::uint8_t>, numbers_max> unmarked;  // how often it came without a mark
  std::atomic<std::uint64_t> last;                              // that came, or was missed
  std::atomic<std::uint64_t> messages;
  std::atomic<std::uint64_t> missed;
  std::atomic<std::uint64_t> wrong;
  shared_counter begun;  // processes
};

// Looks at what one process of a subscriber is told.
class topic_reader {
 public:
  topic_reader(node& of, topic_book& book, subscription_options how = {}) : book_(book) {
    how.on_missed = [this](bus_id, std::uint64_t messages) {
      missed_ += messages;
      book_.missed += messages;
      book_.last += messages;
    };
    require(static_cast<bool>(of.subscribe(
                "news", [this](const topic_message& m) { take(m); }, how)),
            "it subscribes");
  }

 private:
  // The process may be killed before the test looks at how it has ended.
  void check(bool condition, std::string_view what) {
    book_.wrong += condition ? 0 : 1;
    require(condition, what);
  }
  void take(const topic_message& m) {
    check(m.number() > last_, "none comes twice to one process, or out of order");
    check(last_ == 0 || m.number() - last_ - 1 == missed_, "each gap is told of, and nothing else");
    check(m.number() < numbers_max && m.text() == std::to_string(m.number()), "it is whole");
    if (!m.redelivered())
      check(++book_.unmarked[m.number() % numbers_max] == 1, "none comes twice without a mark");
    last_ = m.number();
    missed_ = 0;
    ++book_.messages;
    book_.last = m.number();
  }

  topic_book& book_;
  std::uint64_t last_ = 0;
  std::uint64_t missed_ = 0;
};

class NodeTopicsFork : public NodeFixture {
 protected:
  // The body of a process that subscribes, as node 2.
  int subscribe(const subscription_options& how = {}) {
    node mine{2, options()};
    const topic_reader reader{mine, *book_, how};
    require(static_cast<bool>(mine.listen(where_)), "it listens");
    book_->begun.add();
    static_cast<void>(mine.run());
    return 0;
  }
  child_process start_subscriber(const subscription_options& how = {}) {
    const std::uint32_t before = book_->begun.get();
    child_process made{[this, &how] { return subscribe(how); }};
    EXPECT_TRUE(book_->begun.wait(before + 1));
    return made;
  }
  void publish_one(topic& news) {
    if (news.publish(0, std::to_string(published_ + 1)))
      ++published_;
    else
      ++refused_;
  }
  void publish_for(topic& news, std::chrono::nanoseconds time) {
    for (const auto end = now() + time; now() < end;) {
      for (int burst = 0; burst != 20; ++burst)
        publish_one(news);
      first->poll();
      first->wait(1ms);
    }
  }
  // Until the subscriber has the last one, or knows that it has missed it.
  [[nodiscard]] bool settle() {
    return turn({&*first}, [this] { return book_->last == published_; });
  }

  const std::string where_ = address();  // also of a child, whose process id is another
  shared<topic_book> book_;
  std::uint64_t published_ = 0;
  std::uint64_t refused_ = 0;
};

TEST_P(NodeTopicsFork, RepeatNothingUnmarkedThoughTheSubscriberIsKilled) {
  constexpr int kills = 12;
  child_process subscriber = start_subscriber();
  first.emplace(1, options());
  ASSERT_TRUE(first->connect(2, where_));
  topic news{*first, "news"};
  ASSERT_TRUE(turn({&*first}, [&] { return news.links() == 1; }));
  publish_for(news, 20ms);
  for (int kill = 0; kill != kills; ++kill) {
    subscriber.kill_and_wait();
    publish_for(news, 5ms);
    subscriber = start_subscriber();
    publish_for(news, 40ms);
  }
  // What comes once it has heard of all.
  for (const auto end = now() + 20s; book_->last != published_ && now() < end;) {
    publish_one(news);
    ASSERT_TRUE(turn({&*first}, [&, until = now() + 100ms] {
      return book_->last == published_ || now() > until;
    }));
  }
  EXPECT_EQ(book_->last, published_);
  EXPECT_EQ(book_->wrong, 0U);
  EXPECT_GE(book_->messages, published_ / 2);
}

TEST_P(NodeTopicsFork, AreNotLostWhileTheSubscriberIsStopped) {
  for (const overflow_policy slow :
       {overflow_policy::drop_oldest, overflow_policy::drop_newest, overflow_policy::would_block}) {
    child_process subscriber = start_subscriber({.slow = slow, .waiting = 3});
    first.emplace(1, options().message_limit(1024).send_buffer_size(4096));
    ASSERT_TRUE(first->connect(2, where_));
    topic news{*first, "news", {.waits_for_slow = true}};
    ASSERT_TRUE(turn({&*first}, [&] { return news.links() == 1; }));
    published_ = refused_ = 0;
    for (auto& one : book_->unmarked)
      one = 0;
    book_->messages = book_->missed = book_->last = 0;
    bool writable = false;
    first->on_writable([&](bus_id) { writable = true; });
    subscriber.stop();
    while (first->stats().topic_drops == 0 && refused_ == 0 && published_ != numbers_max - 2) {
      publish_one(news);
      first->flush();
    }
    subscriber.resume();
    EXPECT_TRUE(settle());
    EXPECT_EQ(book_->messages + book_->missed, published_);
    if (slow == overflow_policy::would_block) {
      EXPECT_EQ(book_->missed, 0U);
      EXPECT_TRUE(turn({&*first}, [&] { return writable; }));
      publish_one(news);
      EXPECT_TRUE(settle());
    } else {
      EXPECT_EQ(book_->missed, first->stats().topic_drops);
    }
    EXPECT_EQ(book_->wrong, 0U);
    first.reset();
    subscriber.kill_and_wait();
  }
}

std::vector<node_kind> topic_kinds() {
  std::vector<node_kind> kinds = node_kinds();
  std::erase_if(kinds,
                [](const node_kind& kind) { return kind.tcp || std::string{kind.name} == "mem"; });
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeTopicsFork, ::testing::ValuesIn(topic_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

// A publisher and a subscriber below a relay that is killed again and again.
TEST_P(NodeTopicsFork, OfARelayThatIsKilledAreMissedAloud) {
  constexpr int kills = 12;
  const auto relay = [this] {
    node middle{64, options().children("64/58")};
    require(static_cast<bool>(middle.listen(where_)), "the relay listens");
    static_cast<void>(middle.run());
    return 0;
  };
  child_process between{relay};
  const auto below = [this] { return options().parent(where_).retry(1ms, 50ms); };
  first.emplace(70, below());
  node subscriber{71, below()};
  const topic_reader reader{subscriber, *book_};
  topic news{*first, "news"};
  const auto both = [&](std::chrono::nanoseconds time) {
    for (const auto end = now() + time; now() < end;) {
      publish_one(news);
      first->poll();
      subscriber.poll();
      first->wait(100us);
    }
  };
  ASSERT_TRUE(turn({&*first, &subscriber}, [&] { return news.links() == 1; }));
  both(50ms);
  for (int kill = 0; kill != kills; ++kill) {
    between.kill_and_wait();
    both(5ms);
    between = child_process{relay};
    both(100ms);
  }
  EXPECT_TRUE(
      turn({&*first, &subscriber},
           [&] { return subscriber.stats().topic_messages != 0 && book_->last == published_; }))
      << "the last one has come, or is known to be missed: " << book_->last << " of " << published_;
  EXPECT_EQ(book_->messages + book_->missed, published_);
  publish_one(news);
  EXPECT_TRUE(turn({&*first, &subscriber}, [&] { return book_->last == published_; }));
}

}  // namespace
}  // namespace atbus::test
