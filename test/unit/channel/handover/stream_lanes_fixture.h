// A receiver at a Unix socket and senders that move on to lanes of shared memory.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "atbus/atbus.hpp"
#include "channel/shm/segment_layout.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus {

class StreamLanes : public ::testing::Test {
 protected:
  void SetUp() override {
    writes() = 0;
    detail::kernel().sendmsg = [](int fd, const msghdr* message, int flags) {
      ++writes();
      return ::sendmsg(fd, message, flags);
    };
  }
  void TearDown() override { detail::kernel() = saved_; }

  static std::atomic<int>& writes() {
    static std::atomic<int> count{0};
    return count;
  }
  static std::string fresh_address() {
    static int count = 0;
    return "unix://@lanes-" + std::to_string(getpid()) + "-" + std::to_string(++count);
  }
  receiver open_receiver(const receiver_options& options = {}) {
    auto opened = receiver::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  sender open_sender(const sender_options& options = {}) {
    auto opened = sender::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  // Through its socket alone, with a message under way.
  sender open_socket_sender(std::string_view first_message) {
    address += "?shm=false";
    auto out = open_sender();
    EXPECT_TRUE(out.send(as_bytes(first_message)));
    return out;
  }
  static std::vector<std::string> drain(receiver& inbox) {
    std::vector<std::string> texts;
    while (inbox.poll([&](bytes_view m) { texts.emplace_back(as_text(m)); }) != 0) {
    }
    return texts;
  }
  // Sends and receives until the sender has moved on. Its messages are no system calls from then on.
  static void move_on(receiver& inbox, sender& out) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(out.send(as_bytes("opening")));
      ASSERT_EQ(drain(inbox), std::vector<std::string>{"opening"});
    }
  }
  static bool uses_lane(sender& out) {
    const int before = writes();
    EXPECT_TRUE(out.send(as_bytes("probe")));
    return writes() == before;
  }

  // Says so many times that the receiver's lock is held, whoever asks, and then what the kernel says.
  static void hold_receivers_lock(int questions) {
    lock_questions() = 0;
    false_answers() = questions;
    detail::kernel().lock = [](int fd, int command, struct flock* lock) {
      if (command != F_OFD_GETLK || lock->l_start != off_t{detail::receiver_lock_byte})
        return fcntl(fd, command, lock);
      ++lock_questions();
      if (false_answers() == 0)
        return fcntl(fd, command, lock);
      --false_answers();
      lock->l_type = F_WRLCK;
      return 0;
    };
  }
  static std::atomic<int>& lock_questions() {
    static std::atomic<int> count{0};
    return count;
  }
  static std::atomic<int>& false_answers() {
    static std::atomic<int> left{0};
    return left;
  }

  // From here on the end of a connection does not show, nor anything else that comes through it.
  static void hide_connections() {
    detail::kernel().recv = [](int fd, void* data, std::size_t length, int flags) {
      return is_stream(fd) ? nothing_yet() : ::recv(fd, data, length, flags);
    };
    detail::kernel().recvmsg = [](int fd, msghdr* message, int flags) {
      return is_stream(fd) ? nothing_yet() : ::recvmsg(fd, message, flags);
    };
  }
  static bool is_stream(int fd) {
    int type = 0;
    socklen_t length = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;
  }
  static ssize_t nothing_yet() {
    errno = EAGAIN;
    return -1;
  }

  std::string address = fresh_address();
  detail::kernel_calls saved_ = detail::kernel();
};

}  // namespace atbus
