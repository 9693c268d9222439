// A receiver that sends control frames as fast as they are read: no verb of its sender stays with them.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "atbus/atbus.hpp"
#include "stream_bytes.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus::detail {
namespace {

// Listens at an abstract name, greets one sender, and floods it.
class flooding_receiver {
 public:
  explicit flooding_receiver(const std::string& name)
      : listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un at{.sun_family = AF_UNIX, .sun_path = {}};
    std::memcpy(at.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&at), length), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    thread_ = std::thread{[this] { flood(); }};
  }
  ~flooding_receiver() {
    over_ = true;
    shutdown(peer_, SHUT_RDWR);
    thread_.join();
    close(peer_);
    close(listener_);
  }

 private:
  void flood() {
    peer_ = accept(listener_, nullptr, nullptr);
    hello own = receiving_end(false);
    own.offers_lanes = false;
    const auto greeting = hello_frame(own);
    (void)::send(peer_, greeting.data(), greeting.size(), MSG_NOSIGNAL);
    constexpr std::byte ignorable[8] = {std::byte{0x23}, std::byte{0x81}};
    byte_string many;
    for (int i = 0; i != 4096; ++i)
      append(many, raw_control_frame(ignorable, false));
    while (!over_ && ::send(peer_, many.data(), many.size(), MSG_NOSIGNAL) > 0) {
    }
  }

  int listener_;
  std::atomic<int> peer_{-1};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

thread_local int reads = 0;

TEST(ControlFlood, DoesNotHoldUpASend) {
  const kernel_calls saved = kernel();
  kernel().recv = [](int fd, void* data, std::size_t length, int flags) {
    ++reads;
    if (reads > 1000)
      usleep(100);  // so that the flood keeps pace
    return ::recv(fd, data, length, flags);
  };
  const std::string name = "atbus-control-flood-" + std::to_string(getpid());
  {
    const flooding_receiver there{name};
    auto out = sender::open("unix://@" + name + "?shm=false");
    ASSERT_TRUE(out) << out.error().text();
    int most = 0;
    const auto end = now() + 500ms;
    while (now() < end) {
      reads = 0;
      (void)out->poll_writable();
      const status sent = out->send(as_bytes("x"));
      ASSERT_TRUE(sent || sent == errc::would_block) << sent.text();
      most = std::max(most, reads);
    }
    EXPECT_GT(most, 1);
    EXPECT_LE(most, 100);
  }
  kernel() = saved;
}

}  // namespace
}  // namespace atbus::detail
