#include "channel/stream/stream_link.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <csignal>
#include <deque>

#include "atbus/detail/block_ring.hpp"
#include "atbus/detail/malloc_queue.hpp"
#include "channel/stream/frame_queue.h"
#include "channel/stream/message_run.h"
#include "test.h"

namespace atbus {
namespace {

using detail::frame_flow;
using detail::hello;
using detail::stream_link;

std::unique_ptr<send_queue> make_queue(bool of_malloc, std::size_t bytes = 64 * 1024) {
  if (of_malloc)
    return std::make_unique<malloc_queue>(malloc_queue::options{.byte_limit = bytes});
  return std::make_unique<block_ring>(block_ring::options{.blocks = bytes / 128});
}

hello hello_of(std::uint64_t session, bool checksums = true, std::uint32_t limit = 4096) {
  return {.wants_checksums = checksums, .payload_max = limit, .session = session};
}

class StreamLink : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_), 0);
  }
  ~StreamLink() override {
    detail::kernel() = saved_;
    for (const int end : ends_) {
      if (end >= 0)
        close(end);
    }
  }

  detail::file take_end(int index) { return detail::file{std::exchange(ends_[index], -1)}; }
  void make_links(const hello& a = hello_of(1), const hello& b = hello_of(2),
                  bool of_malloc = false) {
    queue_a_ = make_queue(of_malloc);
    queue_b_ = make_queue(of_malloc);
    a_ = std::make_unique<stream_link>(take_end(0), true, a, queue_a_.get(), space_);
    b_ = std::make_unique<stream_link>(take_end(1), true, b, queue_b_.get(), space_);
  }

  status send(const std::unique_ptr<stream_link>& link, std::string_view text) {
    return queue(link == a_ ? *queue_a_ : *queue_b_, text);
  }
  static status queue(send_queue& to, std::string_view text) {
    mutable_bytes place;
    const status s = to.claim(detail::frame_size(text.size()), place);
    if (s) {
      std::byte* const payload =
          detail::begin_frame(place.data(), detail::frame_kind::data, text.size());
      std::copy_n(as_bytes(text).begin(), text.size(), payload);
      to.commit(detail::frame_size(text.size()));
    }
    return s;
  }
  static detail::walk_end take(stream_link& link, std::vector<std::string>& into) {
    for (;;) {
      detail::message_run run;
      const detail::walk_end ended = link.lend(run.begin());
      if (run.rest().at == nullptr)
        return ended;
      run.tell(SIZE_MAX, [&](bytes_view m) { into.emplace_back(as_text(m)); });
      link.give_back(run.rest());
      if (run.wrong().data() != nullptr)
        link.reject(run.wrong());
    }
  }
  static std::size_t left_with_kernel(const stream_link& link) {
    int bytes = 0;
    EXPECT_EQ(ioctl(link.descriptor(), FIONREAD, &bytes), 0);
    return static_cast<std::size_t>(bytes);
  }
  static void drain(stream_link& link, std::vector<std::string>& into) {
    while (link.receive())
      (void)take(link, into);
  }
  // Both write and read until nothing moves any more.
  void settle() {
    for (int i = 0; i < 3; ++i) {
      (void)a_->flush();
      (void)b_->flush();
      drain(*a_, at_a_);
      drain(*b_, at_b_);
    }
  }

  int ends_[2] = {-1, -1};
  detail::read_space space_{64 * 1024};
  std::unique_ptr<send_queue> queue_a_;
  std::unique_ptr<send_queue> queue_b_;
  std::unique_ptr<stream_link> a_;
  std::unique_ptr<stream_link> b_;
  std::vector<std::string> at_a_;
  std::vector<std::string> at_b_;
  detail::kernel_calls saved_ = detail::kernel();
};

TEST_F(StreamLink, CarriesMessagesBothWaysBehindTheHellos) {
  make_links();
  EXPECT_TRUE(send(a_, "before any hello came"));
  EXPECT_TRUE(send(b_, ""));
  settle();
  EXPECT_TRUE(a_->opened() && b_->opened());
  EXPECT_EQ(at_b_, std::vector<std::string>{"before any hello came"});
  EXPECT_EQ(at_a_, std::vector<std::string>{""});
  EXPECT_TRUE(send(a_, "later"));
  settle();
  EXPECT_EQ(at_b_.back(), "later");
  EXPECT_TRUE(queue_a_->empty());
}

TEST_F(StreamLink, AgreesOnChecksumsWhileMessagesAreOnTheirWay) {
  for (const auto& [one, other] :
       {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
    SetUp();
    at_b_.clear();
    make_links(hello_of(1, one), hello_of(2, other));
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(send(a_, "early " + std::to_string(i)));
      settle();
    }
    EXPECT_EQ(at_b_.size(), 3U) << one << other;
    EXPECT_EQ(a_->now(), stream_link::state::open) << a_->why().text();
    EXPECT_EQ(b_->now(), stream_link::state::open) << b_->why().text();
  }
}

// The words of the data frames that wait on a socket, in order; they stay there.
std::vector<std::uint32_t> data_words(int end) {
  std::vector<std::byte> bytes(64 * 1024);
  const ssize_t there = ::recv(end, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  std::vector<std::uint32_t> words;
  for (ssize_t at = 0; at < there;) {
    const auto word = detail::load_little_endian<std::uint32_t>(bytes.data() + at);
    at += static_cast<ssize_t>(detail::frame_size(detail::frame_length(word)));
    if (word >> detail::frame_kind_shift == 0)
      words.push_back(word);
  }
  return words;
}

TEST_F(StreamLink, WritesDataRightBehindItsHelloWhateverIsAgreedOnLater) {
  for (const auto& [one, other] :
       {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
    SetUp();
    at_b_.clear();
    const detail::file peer{dup(ends_[1])};
    make_links(hello_of(1, one), hello_of(2, other));
    EXPECT_TRUE(send(a_, "early"));
    EXPECT_TRUE(send(a_, "as well"));
    EXPECT_TRUE(a_->flush()) << "waits for the other's hello";
    EXPECT_FALSE(a_->opened());
    const std::uint32_t bit = detail::frame_checked_bit;
    EXPECT_EQ(data_words(peer.get()), (std::vector{bit | 5, bit | 7}));
    drain(*b_, at_b_);
    EXPECT_EQ(at_b_, (std::vector<std::string>{"early", "as well"})) << one << other;
    EXPECT_EQ(b_->now(), stream_link::state::open) << b_->why().text();

    settle();
    EXPECT_TRUE(a_->opened());
    EXPECT_TRUE(send(a_, "agreed"));
    EXPECT_TRUE(a_->flush());
    EXPECT_EQ(data_words(peer.get()), (std::vector{one || other ? bit | 6 : 6}));
    a_->say_goodbye(errc::closed);
    settle();
    EXPECT_EQ(at_b_.size(), 3U);
    drain(*b_, at_b_);
    EXPECT_TRUE(a_->flush());
    a_->shut_down();
    drain(*b_, at_b_);
    EXPECT_NE(b_->why().text().find("said goodbye"), std::string::npos) << b_->why().text();
  }
}

// The hello that ends the need for checksums comes while sealed frames wait in the queue.
TEST_F(StreamLink, LeavesSealedFramesAsTheyAreWhenNoChecksumsAreAgreedOn) {
  make_links(hello_of(1, false), hello_of(2, false));
  detail::kernel().sendmsg = [](int, const msghdr*, int) -> ssize_t {
    errno = EAGAIN;
    return -1;
  };
  EXPECT_TRUE(send(a_, "sealed before"));
  EXPECT_FALSE(a_->flush());
  detail::kernel().sendmsg = saved_.sendmsg;
  EXPECT_TRUE(send(a_, "committed before"));
  (void)b_->flush();
  drain(*a_, at_a_);
  EXPECT_TRUE(a_->opened());
  EXPECT_TRUE(send(a_, "after"));
  settle();
  EXPECT_EQ(at_b_, (std::vector<std::string>{"sealed before", "committed before", "after"}));
  EXPECT_EQ(b_->now(), stream_link::state::open) << b_->why().text();
}

TEST_F(StreamLink, KnowsWhatTheOtherEndAccepts) {
  make_links(hello_of(1, true, 4096), hello_of(2, true, 100));
  EXPECT_EQ(a_->send_limit(), 4096U);
  settle();
  EXPECT_EQ(a_->send_limit(), 100U);
  EXPECT_EQ(b_->send_limit(), 100U);
}

TEST_F(StreamLink, WhoOnlyReadsReadsOnWhenItCanNotWrite) {
  queue_a_ = make_queue(false);
  a_ = std::make_unique<stream_link>(take_end(0), true, hello_of(1), queue_a_.get(), space_);
  b_ = std::make_unique<stream_link>(take_end(1), true, hello_of(2), nullptr, space_);
  EXPECT_TRUE(send(a_, "the last words"));
  a_->say_goodbye(errc::ok);
  EXPECT_TRUE(a_->flush());
  a_.reset();
  EXPECT_TRUE(b_->flush());  // its hello finds nobody
  drain(*b_, at_b_);
  EXPECT_EQ(at_b_, std::vector<std::string>{"the last words"});
  EXPECT_TRUE(b_->ended_by_goodbye());
}

TEST_F(StreamLink, WhatIsPeekedStaysWithTheKernelUntilTheNextRead) {
  make_links();
  settle();
  for (const char* const text : {"first", "the second one"}) {
    EXPECT_TRUE(send(a_, text) && a_->flush());
    EXPECT_TRUE(b_->receive(true));
    (void)take(*b_, at_b_);
    EXPECT_EQ(at_b_.back(), text);
    EXPECT_EQ(left_with_kernel(*b_), detail::frame_size(at_b_.back().size()));
  }
  EXPECT_FALSE(b_->receive());
  EXPECT_EQ(left_with_kernel(*b_), 0U);
  EXPECT_EQ(at_b_.size(), 2U);
}

TEST_F(StreamLink, TakesWhatWasPeekedWhateverTheKernelSays) {
  static int refusals;
  make_links();
  settle();
  for (const int refused : {EINTR, ENOMEM, EAGAIN}) {
    EXPECT_TRUE(send(a_, "once") && a_->flush());
    EXPECT_TRUE(b_->receive(true));
    (void)take(*b_, at_b_);
    refusals = refused;
    detail::kernel().recv = [](int fd, void* data, std::size_t length, int flags) -> ssize_t {
      errno = std::exchange(refusals, 0);
      return errno != 0 ? -1 : ::recv(fd, data, std::min<std::size_t>(length, 5), flags);
    };
    while (left_with_kernel(*b_) != 0 && b_->now() == stream_link::state::open)
      EXPECT_FALSE(b_->receive());
    detail::kernel().recv = saved_.recv;
  }
  EXPECT_EQ(at_b_, (std::vector<std::string>{"once", "once", "once"}));
  EXPECT_TRUE(send(a_, "next"));
  settle();
  EXPECT_EQ(at_b_.back(), "next");
}

TEST_F(StreamLink, AnEndBehindAPeekIsNoLoss) {
  make_links();
  settle();
  EXPECT_TRUE(send(a_, "handed out") && a_->flush());
  EXPECT_TRUE(b_->receive(true));
  (void)take(*b_, at_b_);
  b_->say_goodbye(errc::closed);
  EXPECT_TRUE(b_->flush());
  b_->close({errc::closed});
  drain(*a_, at_a_);
  EXPECT_NE(a_->why().text().find("goodbye"), std::string::npos) << a_->why().text();
}

TEST_F(StreamLink, AnotherLinkTakesTheQueueOver) {
  make_links();
  settle();
  // The kernel takes half of the first message, then the connection is lost.
  detail::kernel().sendmsg = [](int fd, const msghdr* message, int flags) -> ssize_t {
    return ::send(fd, message->msg_iov[0].iov_base, 20, flags);
  };
  EXPECT_TRUE(send(a_, "cut in the middle") && send(a_, "second"));
  EXPECT_FALSE(a_->flush());
  detail::kernel().sendmsg = saved_.sendmsg;
  drain(*b_, at_b_);
  a_.reset();
  b_.reset();
  SetUp();
  a_ = std::make_unique<stream_link>(take_end(0), true, hello_of(3), queue_a_.get(), space_);
  b_ = std::make_unique<stream_link>(take_end(1), true, hello_of(4), nullptr, space_);
  settle();
  EXPECT_EQ(at_b_, (std::vector<std::string>{"cut in the middle", "second"}));
}

// However the kernel splits writes, whatever the queue: everything arrives, in order, once.
class ShortWrites : public StreamLink, public ::testing::WithParamInterface<bool> {};

TEST_P(ShortWrites, LoseAndTearNothing) {
  static std::mt19937_64 random;
  random.seed(7);
  make_links(hello_of(1), hello_of(2), GetParam());
  detail::kernel().sendmsg = [](int fd, const msghdr* message, int flags) -> ssize_t {
    EXPECT_NE(flags & MSG_NOSIGNAL, 0);
    if (random() % 4 == 0) {
      errno = random() % 2 == 0 ? EAGAIN : EINTR;
      return -1;
    }
    // A part of the first piece.
    iovec piece = message->msg_iov[0];
    piece.iov_len = std::min<std::size_t>(piece.iov_len, 1 + random() % 700);
    msghdr part = *message;
    part.msg_iov = &piece;
    part.msg_iovlen = 1;
    return ::sendmsg(fd, &part, flags);
  };
  std::deque<std::string> expected;
  std::size_t got = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text(random() % (random() % 8 == 0 ? 4096 : 60), static_cast<char>('a' + i % 26));
    if (send(a_, text))
      expected.push_back(std::move(text));
    if (random() % 3 == 0)
      (void)a_->flush();
    if (random() % 3 == 0)
      drain(*b_, at_b_);
    for (; got < at_b_.size(); ++got) {
      ASSERT_FALSE(expected.empty());
      ASSERT_EQ(at_b_[got], expected.front());
      expected.pop_front();
    }
  }
  while (!expected.empty()) {
    (void)a_->flush();
    drain(*b_, at_b_);
    ASSERT_EQ(b_->now(), stream_link::state::open) << b_->why().text();
    for (; got < at_b_.size(); ++got) {
      ASSERT_EQ(at_b_[got], expected.front());
      expected.pop_front();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Queue, ShortWrites, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& of) {
                           return std::string{of.param ? "Malloc" : "Static"};
                         });

// Before the connection is up: what follows what was taken back is whole.
TEST_F(StreamLink, WritesWhatIsQueuedAfterTheQueueWasTakenBack) {
  queue_a_ = make_queue(false);
  queue_b_ = make_queue(false);
  a_ = std::make_unique<stream_link>(take_end(0), false, hello_of(1), queue_a_.get(), space_);
  b_ = std::make_unique<stream_link>(take_end(1), true, hello_of(2), queue_b_.get(), space_);
  ASSERT_TRUE(send(a_, std::string(1000, 'x')));
  queue_a_->release(queue_a_->size());
  a_->connected();
  std::vector<std::string> sent;
  for (int i = 0; i < 30; ++i) {
    sent.push_back(std::string(static_cast<std::size_t>(100 * i), 'm'));
    ASSERT_TRUE(send(a_, sent.back()));
    if (i % 7 == 0)
      settle();
  }
  settle();
  EXPECT_EQ(at_b_, sent);
  EXPECT_EQ(b_->now(), stream_link::state::open) << b_->why().text();
}

TEST_F(StreamLink, SaysWhatWasNotWrittenWhenTheOtherEndIsGone) {
  make_links();
  settle();
  // The kernel takes half of the first message.
  detail::kernel().sendmsg = [](int fd, const msghdr* message, int flags) -> ssize_t {
    static bool first = true;
    if (!std::exchange(first, false)) {
      errno = EAGAIN;
      return -1;
    }
    return ::send(fd, message->msg_iov[0].iov_base, 20, flags);
  };
  for (const char* text : {"the first of three messages", "second", "third"})
    EXPECT_TRUE(send(a_, text));
  EXPECT_FALSE(a_->flush());
  detail::kernel().sendmsg = saved_.sendmsg;
  drain(*b_, at_b_);
  b_.reset();
  (void)a_->flush();
  EXPECT_EQ(a_->now(), stream_link::state::closed);
  EXPECT_EQ(a_->why(), errc::peer_closed);
  std::vector<std::string> unsent;
  const auto count = detail::for_each_frame(
      *queue_a_, [&](bytes_view m, bool) { unsent.emplace_back(as_text(m)); });
  EXPECT_EQ(count, 3U);
  EXPECT_EQ(unsent, (std::vector<std::string>{"the first of three messages", "second", "third"}));
  EXPECT_TRUE(at_b_.empty());
}

TEST_F(StreamLink, AClosedEndIsAReasonAndNeverASignal) {
  std::signal(SIGPIPE, SIG_DFL);
  make_links();
  settle();
  b_.reset();
  EXPECT_TRUE(send(a_, "to nobody"));
  drain(*a_, at_a_);
  EXPECT_EQ(a_->now(), stream_link::state::closed);
  EXPECT_EQ(a_->why(), errc::peer_closed);
  EXPECT_TRUE(a_->flush());
}

TEST_F(StreamLink, AGoodbyeComesBehindAllThatWasAccepted) {
  make_links();
  for (int i = 0; i < 40; ++i)
    EXPECT_TRUE(send(a_, std::string(1000, 'x')));
  a_->say_goodbye(errc::closed);
  settle();
  a_->shut_down();
  drain(*b_, at_b_);
  EXPECT_EQ(at_b_.size(), 40U);
  EXPECT_EQ(b_->now(), stream_link::state::closed);
  EXPECT_NE(b_->why().text().find("goodbye"), std::string::npos) << b_->why().text();
}

TEST_F(StreamLink, WhoReadsOnGetsWhatTheOtherEndSentBeforeItWent) {
  make_links();
  settle();
  a_->read_on();
  EXPECT_TRUE(send(b_, "last words"));
  (void)b_->flush();
  b_.reset();
  EXPECT_TRUE(send(a_, "to nobody"));
  EXPECT_TRUE(a_->flush());
  EXPECT_TRUE(a_->writes_no_more());
  EXPECT_EQ(a_->now(), stream_link::state::open);
  EXPECT_FALSE(a_->has_unwritten());
  drain(*a_, at_a_);
  EXPECT_EQ(at_a_, std::vector<std::string>{"last words"});
  EXPECT_EQ(a_->now(), stream_link::state::closed);
  EXPECT_EQ(a_->why(), errc::peer_closed);
}

TEST_F(StreamLink, StopsBehindTheHelloIfAskedTo) {
  make_links();
  a_->stop_when_opened();
  EXPECT_TRUE(send(b_, "right behind it"));
  (void)b_->flush();
  ASSERT_TRUE(a_->receive());
  EXPECT_EQ(take(*a_, at_a_), detail::walk_end::stopped);
  EXPECT_TRUE(a_->opened());
  EXPECT_TRUE(at_a_.empty());
  EXPECT_EQ(take(*a_, at_a_), detail::walk_end::needs_more);
  EXPECT_EQ(at_a_, std::vector<std::string>{"right behind it"});
}

TEST_F(StreamLink, KeepsWhatIsWrittenAndStopsBehindTheFrameThatIsBegun) {
  for (const bool checksums : {false, true}) {
    SetUp();
    at_b_.clear();
    make_links(hello_of(1, checksums), hello_of(2, checksums), true);
    a_->keep_written();
    settle();
    // The kernel takes the first message and 20 bytes of the second.
    detail::kernel().sendmsg = [](int fd, const msghdr* message, int flags) -> ssize_t {
      static bool first = true;
      if (!(first = !first))
        return ::send(fd, message->msg_iov[0].iov_base, detail::frame_size(5) + 20, flags);
      errno = EAGAIN;
      return -1;
    };
    for (const char* text : {"first", "the second of three messages", "third"})
      EXPECT_TRUE(send(a_, text));
    EXPECT_FALSE(a_->flush());
    (void)a_->flush();
    detail::kernel().sendmsg = saved_.sendmsg;
    const auto all = detail::measure_frames(*queue_a_, queue_a_->written(), 100);
    EXPECT_EQ(all.messages, 3U);
    EXPECT_EQ(all.written_messages, 1U);
    EXPECT_EQ(all.begun, detail::frame_size(28));
    a_->stop_behind(all.written_bytes + all.begun - queue_a_->in_flight());
    EXPECT_FALSE(a_->take_stop());
    EXPECT_TRUE(a_->flush());
    EXPECT_TRUE(a_->take_stop());
    EXPECT_FALSE(a_->take_stop());
    EXPECT_EQ(queue_a_->unwritten(), detail::frame_size(5));
    queue_a_->rewind();
    settle();
    EXPECT_EQ(at_b_, (std::vector<std::string>{"first", "the second of three messages", "first",
                                               "the second of three messages", "third"}));
    EXPECT_EQ(b_->now(), stream_link::state::open) << b_->why().text();
    EXPECT_EQ(queue_a_->released(), 0U);
    EXPECT_EQ(queue_a_->unwritten(), 0U);
  }
}

TEST_F(StreamLink, WritesHoweverMuchIsKept) {
  ASSERT_NO_FATAL_FAILURE(SetUp());
  queue_a_ = make_queue(true, 8 << 20);
  queue_b_ = make_queue(true);
  a_ = std::make_unique<stream_link>(take_end(0), true, hello_of(1), queue_a_.get(), space_);
  b_ = std::make_unique<stream_link>(take_end(1), true, hello_of(2), queue_b_.get(), space_);
  a_->keep_written();
  for (int i = 0; i < 2000; ++i) {  // more chunks than a gather list has pieces
    EXPECT_TRUE(send(a_, std::string(2000, 'x')));
    if (i % 50 == 0)
      settle();
  }
  for (int i = 0; i < 100 && at_b_.size() != 2000; ++i)
    settle();
  EXPECT_EQ(at_b_.size(), 2000U);
  EXPECT_GT(queue_a_->size(), 2000U * 2000U);
}

TEST_F(StreamLink, NothingOfTheQueueFollowsAGoodbye) {
  make_links();
  settle();
  a_->say_goodbye(errc::ok);
  EXPECT_TRUE(a_->flush());
  EXPECT_TRUE(send(a_, "too late"));
  EXPECT_TRUE(a_->flush());
  EXPECT_FALSE(a_->has_unwritten());
  settle();
  EXPECT_TRUE(at_b_.empty());
  EXPECT_TRUE(b_->ended_by_goodbye());
  EXPECT_EQ(b_->now(), stream_link::state::open) << b_->why().text();
  EXPECT_FALSE(queue_a_->empty());
}

TEST_F(StreamLink, BytesOfAnotherProtocolEndIt) {
  const int peer = dup(ends_[1]);
  make_links();
  const std::string request = "GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n";
  b_->abandon();
  ASSERT_EQ(::send(peer, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  drain(*a_, at_a_);
  EXPECT_EQ(a_->now(), stream_link::state::closed);
  EXPECT_TRUE(at_a_.empty());
  close(peer);
}

}  // namespace
}  // namespace atbus
