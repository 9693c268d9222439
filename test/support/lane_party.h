// One end of a Unix connection that exchanges lanes, made by hand: what it says and which descriptors
// go along are the test's.
#pragma once

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "channel/handover/handed_lanes.h"
#include "channel/stream/frame_reader.h"
#include "channel/stream/opening.h"
#include "plain_socket.h"
#include "stream_bytes.h"
#include "system/fork_guard.h"
#include "test.h"

namespace atbus::test {

class lane_party {
 public:
  using file = detail::file;

  explicit lane_party(plain_socket connected) : socket_(std::move(connected)) {}
  static lane_party dial(const std::string& address) {
    return lane_party{plain_socket::connect(address)};
  }

  void say_hello() { say(detail::hello_frame(own)); }
  void say(bytes_view bytes, std::vector<int> descriptors = {}) {
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    std::vector<std::byte> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
    if (!descriptors.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* const head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
      std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size() * sizeof(int));
    }
    ASSERT_EQ(::sendmsg(socket_.fd(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void say_lane(std::uint32_t lane, std::vector<int> descriptors = {}) {
    say(detail::lanes_frame(lane, true), std::move(descriptors));
  }

  // Reads what is there, and takes what came along.
  void hear() {
    std::array<std::byte, 4096> place;
    iovec piece{place.data(), place.size()};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(2 * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(socket_.fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n == 0 || (n < 0 && errno != EAGAIN))
      ended = true;
    if (n <= 0)
      return;
    if (cmsghdr* const head = CMSG_FIRSTHDR(&message); head != nullptr) {
      int both[2] = {-1, -1};
      std::memcpy(both, CMSG_DATA(head), sizeof both);
      segment = file{both[0]};
      bell = file{both[1]};
    }
    heard_.insert(heard_.end(), place.begin(), place.begin() + n);
    const std::byte* at = heard_.data() + walked_;
    const std::byte* const end = heard_.data() + heard_.size();
    (void)reader_.walk(at, end, [&](detail::frame_kind kind, bytes_view payload) {
      note(kind, payload);
      return detail::frame_flow::go_on;
    });
    walked_ = static_cast<std::size_t>(at - heard_.data());
  }
  [[nodiscard]] bool opened() const { return reader_.opened(); }

  detail::hello own{.wants_checksums = false, .offers_lane_pair = true, .session = 4711};
  std::vector<std::uint32_t> lanes;  // it was offered, or no_lane
  bool switched = false;
  std::vector<std::string> messages;
  bool ended = false;
  file segment;
  file bell;

 private:
  void note(detail::frame_kind kind, bytes_view payload) {
    if (kind == detail::frame_kind::data) {
      messages.emplace_back(as_text(payload));
      return;
    }
    std::uint32_t lane = 0;
    detail::control_type type{};
    (void)detail::read_control_type(payload, type);
    switched |= type == detail::control_type::switch_to_lanes;
    if (type == detail::control_type::lanes &&
        detail::read_lanes(payload, lane) == detail::frame_fault::none)
      lanes.push_back(lane);
  }

  plain_socket socket_;
  detail::frame_reader reader_{own};
  std::vector<std::byte> heard_;
  std::size_t walked_ = 0;
};

}  // namespace atbus::test
