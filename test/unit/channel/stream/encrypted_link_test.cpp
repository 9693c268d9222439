// A link with TLS whose kernel takes only part of the ciphertext: what counts as written.
#include <openssl/ssl.h>
#include <sys/ioctl.h>

#include "atbus/detail/malloc_queue.hpp"
#include "channel/stream/frame_queue.h"
#include "channel/stream/message_run.h"
#include "channel/stream/stream_link.h"
#include "counting_allocator.h"
#include "tls/tls_handle.h"
#include "unit/tls/tls_pair.h"

namespace atbus {
namespace {

using detail::stream_link;
using detail::tls_role;

constexpr std::size_t record_plain = detail::tls_record_plain_max;
constexpr std::size_t record_wire = record_plain + 22;  // header, type and tag

// How much ciphertext the kernel takes until this is raised.
std::size_t wire_budget = 0;

ssize_t send_within_budget(int fd, const void* bytes, std::size_t size, int flags) {
  if (wire_budget == 0) {
    errno = EAGAIN;
    return -1;
  }
  const ssize_t n = ::send(fd, bytes, std::min(size, wire_budget), flags);
  wire_budget -= static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  return n;
}

class EncryptedLink : public ::testing::Test {
 protected:
  // `a` sends, `b` receives.
  EncryptedLink() { connect(&queue_b_); }
  ~EncryptedLink() override { detail::kernel() = saved_; }

  void connect(send_queue* queue_of_b) {
    sockets_.emplace();
    a_ = link(0, &queue_a_, tls_role::client);
    b_ = link(1, queue_of_b, tls_role::server);
  }
  std::unique_ptr<stream_link> link(std::size_t end, send_queue* queue, tls_role role) {
    return std::make_unique<stream_link>(
        detail::file{::dup((*sockets_)[end])}, true,
        detail::hello{.wants_checksums = false, .payload_max = 64 * 1024, .session = 1 + end},
        queue, space_, test::make_socket(context_, role));
  }
  void open() {
    for (int turn = 0; turn != 10 && !(a_->opened() && b_->opened()); ++turn) {
      (void)a_->flush();
      (void)b_->flush();
      read(*a_, at_a_);
      read(*b_, at_b_);
    }
    ASSERT_TRUE(a_->opened() && b_->opened());
  }
  static void read(stream_link& from, std::vector<std::string>& into) {
    while (from.receive()) {
      for (;;) {
        detail::message_run run;
        (void)from.lend(run.begin());
        if (run.rest().at == nullptr)
          break;
        run.tell(SIZE_MAX, [&](bytes_view m) { into.emplace_back(as_text(m)); });
        from.give_back(run.rest());
      }
    }
  }
  static std::string text_of_link(std::size_t number) {
    std::string made = std::to_string(number) + ":";
    made.resize(1000, 'x');
    return made;
  }
  // Frames of 1008 bytes.
  static constexpr std::size_t frame_bytes = detail::frame_size(1000);
  void queue(std::size_t count) {
    for (; count != 0; --count) {
      const std::string text = text_of_link(queued_++);
      mutable_bytes place;
      ASSERT_TRUE(queue_a_.claim(detail::frame_size(text.size()), place));
      std::byte* const payload =
          detail::begin_frame(place.data(), detail::frame_kind::data, text.size());
      std::copy_n(as_bytes(text).begin(), text.size(), payload);
      queue_a_.commit(detail::frame_size(text.size()));
      a_->joined(detail::frame_size(text.size()), true);
    }
  }
  static void limit_wire(std::size_t bytes) {
    wire_budget = bytes;
    detail::kernel().send = send_within_budget;
  }
  // The messages from this number on are in the queue, and not written.
  void expect_unwritten_from(std::size_t first) {
    std::vector<std::string> left;
    detail::for_each_frame(queue_a_, [&](bytes_view m, bool written) {
      if (!written)
        left.emplace_back(as_text(m));
    });
    ASSERT_EQ(left.size(), queued_ - first);
    for (std::size_t i = 0; i != left.size(); ++i)
      EXPECT_EQ(left[i], text_of_link(first + i));
  }
  void expect_delivered(std::size_t count) {
    read(*b_, at_b_);
    ASSERT_EQ(at_b_.size(), count);
    for (std::size_t i = 0; i != count; ++i)
      EXPECT_EQ(at_b_[i], text_of_link(i));
  }

  detail::kernel_calls saved_ = detail::kernel();
  test::context_ptr context_ = test::secret_context({test::first_secret});
  std::optional<test::socket_pair> sockets_;
  detail::read_space space_{64 * 1024};
  malloc_queue queue_a_{malloc_queue::options{.byte_limit = 4 << 20}};
  malloc_queue queue_b_{malloc_queue::options{.byte_limit = 64 * 1024}};
  std::unique_ptr<stream_link> a_;
  std::unique_ptr<stream_link> b_;
  std::vector<std::string> at_a_;
  std::vector<std::string> at_b_;
  std::size_t queued_ = 0;
};

TEST_F(EncryptedLink, CountsAsWrittenWhatHasLeftWithItsWholeRecord) {
  open();
  std::size_t budget = 0;
  std::size_t whole = 0;  // records
  queue(300);
  // More than two buffers of ciphertext, in odd steps.
  for (const std::size_t step :
       {std::size_t{1}, record_wire - 2, std::size_t{1}, record_wire / 2, 5 * record_wire,
        3 * record_wire, std::size_t{7}, record_wire, 7 * record_wire}) {
    budget += step;
    limit_wire(step);
    EXPECT_FALSE(a_->flush());
    read(*b_, at_b_);
    whole = budget / record_wire;
    ASSERT_EQ(queue_a_.written(), whole * record_plain) << budget;
    EXPECT_TRUE(a_->has_unwritten());
    EXPECT_TRUE(a_->wants_room());
  }
  ASSERT_GT(whole * record_plain, 2 * detail::tls_batch_plain_max);
  a_->close({errc::closed});
  expect_unwritten_from(whole * record_plain / frame_bytes);
  expect_delivered(whole * record_plain / frame_bytes);
  EXPECT_EQ(queue_a_.size(), (300 - whole * record_plain / frame_bytes) * frame_bytes);
}

TEST_F(EncryptedLink, KnowsWhatHasLeftAlsoWhenReadingHasSentIt) {
  open();
  queue(20);
  limit_wire(0);
  EXPECT_FALSE(a_->flush());
  EXPECT_EQ(queue_a_.written(), 0U);
  detail::kernel() = saved_;
  read(*a_, at_a_);
  EXPECT_FALSE(a_->has_unwritten());
  EXPECT_TRUE(queue_a_.empty());
  expect_delivered(20);
}

TEST_F(EncryptedLink, GivesWhatHasNotLeftToTheNextLink) {
  open();
  queue(100);
  limit_wire(2 * record_wire + 100);
  EXPECT_FALSE(a_->flush());
  detail::kernel() = saved_;
  a_->close({errc::closed});
  constexpr std::size_t left = 2 * record_plain / frame_bytes;
  expect_delivered(left);
  connect(&queue_b_);
  open();
  while (!a_->flush())
    read(*b_, at_b_);
  expect_delivered(100);
}

TEST_F(EncryptedLink, StopsBehindTheFrameThatIsEncryptedInPart) {
  a_->keep_written();
  open();
  queue(200);  // more than one buffer of ciphertext
  limit_wire(100);
  EXPECT_FALSE(a_->flush());
  const std::size_t taken = a_->taken();
  ASSERT_EQ(queue_a_.written(), 0U);
  ASSERT_GT(taken, 100 * frame_bytes);
  const auto all = detail::measure_frames(queue_a_, taken, 1000);
  EXPECT_EQ(all.messages, 200U);
  EXPECT_EQ(all.written_messages, taken / frame_bytes);
  ASSERT_NE(all.begun, 0U);
  const std::size_t until = all.written_bytes + all.begun;
  a_->stop_behind(until - taken);
  EXPECT_FALSE(a_->take_stop());
  detail::kernel() = saved_;
  EXPECT_TRUE(a_->flush());
  EXPECT_TRUE(a_->take_stop());
  EXPECT_EQ(queue_a_.written(), until);
  EXPECT_EQ(a_->taken(), until);
  queue_a_.rewind();
  while (!a_->flush())
    read(*b_, at_b_);
  EXPECT_EQ(queue_a_.unwritten(), 0U);
  read(*b_, at_b_);
  ASSERT_EQ(at_b_.size(), until / frame_bytes + 200);
  EXPECT_EQ(at_b_[until / frame_bytes - 1], text_of_link(until / frame_bytes - 1));
  EXPECT_EQ(at_b_[until / frame_bytes], text_of_link(0));
  EXPECT_EQ(at_b_.back(), text_of_link(199));
}

// A rewind would count the bytes that are on their way as written a second time.
TEST_F(EncryptedLink, StopsBehindWholeFramesThatAreOnTheirWay) {
  a_->keep_written();
  open();
  queue(50);
  limit_wire(100);
  EXPECT_FALSE(a_->flush());
  EXPECT_EQ(a_->taken(), 50 * frame_bytes);
  a_->stop_behind(0);
  EXPECT_FALSE(a_->take_stop());
  EXPECT_FALSE(a_->flush());
  EXPECT_FALSE(a_->take_stop());
  detail::kernel() = saved_;
  EXPECT_TRUE(a_->flush());
  EXPECT_TRUE(a_->take_stop());
  EXPECT_EQ(queue_a_.written(), 50 * frame_bytes);
}

TEST_F(EncryptedLink, KeepsCountWhenFramesOnTheirWayAreReleased) {
  a_->keep_written();
  open();
  queue(50);
  limit_wire(record_wire + 100);
  EXPECT_FALSE(a_->flush());
  EXPECT_EQ(a_->taken(), 50 * frame_bytes);
  queue_a_.release(30 * frame_bytes);
  EXPECT_EQ(a_->taken(), 50 * frame_bytes);
  queue(10);
  limit_wire(record_wire);
  EXPECT_FALSE(a_->flush());
  EXPECT_EQ(queue_a_.written(), 2 * record_plain);
  queue_a_.release(queue_a_.size());
  EXPECT_EQ(a_->taken(), 60 * frame_bytes);
  detail::kernel() = saved_;
  queue(1);
  EXPECT_TRUE(a_->flush());
  EXPECT_EQ(queue_a_.unwritten(), 0U);
  read(*b_, at_b_);
  ASSERT_EQ(at_b_.size(), 51U);
  EXPECT_EQ(at_b_[49], text_of_link(49));
  EXPECT_EQ(at_b_[50], text_of_link(60));
}

TEST_F(EncryptedLink, HasNothingToWriteOnceWritingHasFailed) {
  a_->read_on();
  open();
  queue(50);
  limit_wire(record_wire + 100);
  EXPECT_FALSE(a_->flush());
  detail::kernel().send = [](int, const void*, std::size_t, int) -> ssize_t {
    errno = EPIPE;
    return -1;
  };
  EXPECT_TRUE(a_->flush());
  EXPECT_TRUE(a_->writes_no_more());
  EXPECT_EQ(a_->now(), stream_link::state::open);
  EXPECT_FALSE(a_->has_unwritten());
  EXPECT_FALSE(a_->wants_room());
  a_->close({errc::closed});
  expect_unwritten_from(record_plain / frame_bytes);
  expect_delivered(record_plain / frame_bytes);
}

TEST_F(EncryptedLink, HasNothingToWriteIfItsReceiverCanNot) {
  connect(nullptr);
  for (int turn = 0; turn != 4; ++turn) {
    (void)a_->flush();
    read(*b_, at_b_);
    read(*a_, at_a_);
  }
  ASSERT_TRUE(b_->opened());
  limit_wire(0);
  EXPECT_FALSE(b_->flush());  // its hello
  detail::kernel().send = [](int, const void*, std::size_t, int) -> ssize_t {
    errno = EPIPE;
    return -1;
  };
  EXPECT_TRUE(b_->flush());
  EXPECT_FALSE(b_->has_unwritten());
  EXPECT_FALSE(b_->wants_room());
  EXPECT_EQ(b_->now(), stream_link::state::open);
}

// A peer that asks for new keys: each time this end has to answer.
class AskedForKeys : public EncryptedLink {
 protected:
  AskedForKeys() { meet(); }
  void meet() {
    peer_.reset(SSL_new(&context_->get()));
    SSL_set_fd(peer_.get(), (*sockets_)[0]);
    SSL_set_connect_state(peer_.get());
    for (int turn = 0; turn != 10; ++turn) {
      (void)SSL_do_handshake(peer_.get());
      read(*b_, at_b_);
    }
  }
  // Twice: OpenSSL answers behind the next message of the peer or before its own next record.
  void ask() {
    for (int i = 0; i != 2; ++i) {
      ASSERT_EQ(SSL_key_update(peer_.get(), SSL_KEY_UPDATE_REQUESTED), 1);
      ASSERT_EQ(SSL_do_handshake(peer_.get()), 1);
      read(*b_, at_b_);
    }
  }

  std::unique_ptr<SSL, detail::openssl_free<SSL_free>> peer_;
};

TEST_F(AskedForKeys, SendsAnAnswerThatWaitedBeforeItSaysAnything) {
  ASSERT_TRUE(b_->secured());
  limit_wire(0);
  ask();
  EXPECT_TRUE(b_->wants_room(false));
  detail::kernel() = saved_;
  b_->secure();
  EXPECT_FALSE(b_->wants_room(false));
}

// Each allocation of a read fails once. What is behind the messages that ask lies in the session by then.
TEST_F(AskedForKeys, IsReadAgainWhereThereWasNoMemoryForAnAnswer) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "allocations can't be made to fail in this build";
  int starved = 0;
  for (std::uint64_t good = 0;; ++good) {
    connect(&queue_b_);
    meet();
    const auto hello = detail::hello_frame({.session = 7});
    ASSERT_GT(SSL_write(peer_.get(), hello.data(), static_cast<int>(hello.size())), 0);
    for (int i = 0; i != 3; ++i) {
      ASSERT_EQ(SSL_key_update(peer_.get(), SSL_KEY_UPDATE_REQUESTED), 1);
      ASSERT_EQ(SSL_do_handshake(peer_.get()), 1);
    }
    std::vector<detail::tls_output> spares;
    for (int i = 0; i != 4; ++i)
      spares.push_back(test::buffers_of(context_).take());
    bool failed = false;
    {
      const test::allocation_failure scarce{good, 1};
      (void)b_->receive();
      failed = test::allocation_failure::happened();
    }
    if (!failed)
      break;
    if (b_->tls()->starved()) {
      ++starved;
      EXPECT_FALSE(b_->drained());
    }
  }
  EXPECT_GT(starved, 0);
}

TEST_F(AskedForKeys, AnswersNotOnceItHasEndedWriting) {
  ASSERT_TRUE(b_->secured());
  EXPECT_TRUE(b_->flush());
  b_->shut_down();
  ask();
  EXPECT_FALSE(b_->has_unwritten());
  EXPECT_FALSE(b_->wants_room());
  EXPECT_TRUE(b_->flush());
  EXPECT_FALSE(b_->writes_no_more());
  EXPECT_EQ(b_->now(), stream_link::state::open) << b_->why().text();
}

}  // namespace
}  // namespace atbus
