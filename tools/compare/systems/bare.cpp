// The limits: a TCP connection, a Unix stream and a pipe with nothing around them. A frame is a length
// and the message; the sender fills a batch in place and hands it to the kernel, the receiver reads
// what there is and looks at the messages where they lie. One sender, no answers to anything that
// goes wrong: a yardstick, not a system.
//
// Addresses: unix:NAME (abstract), tcp:PORT (127.0.0.1), pipe:PATH (a FIFO).
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

#include "harness/roles.h"

namespace atbus::compare {
namespace {

constexpr std::size_t batch_bytes = 256 * 1024;
constexpr int socket_buffer_bytes = 4 << 20;
constexpr std::size_t header_bytes = 8;  // so that messages stay aligned

[[noreturn]] void fail(const char* call) {
  throw std::runtime_error(std::string{call} + ": " + std::strerror(errno));
}

bool came_to_nothing() noexcept {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

class descriptor {
 public:
  explicit descriptor(int number = -1) noexcept : number_{number} {}
  descriptor(descriptor&& other) noexcept : number_{std::exchange(other.number_, -1)} {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_;
};

struct place {
  std::string kind;
  std::string where;
};

place parse(const std::string& address) {
  const auto colon = address.find(':');
  return {address.substr(0, colon), address.substr(colon + 1)};
}

// Calls `use` with a socket and the address it is to be bound or connected to.
template <class Use>
bool with_socket(const place& at, descriptor& made, Use&& use) {
  made = descriptor{socket(at.kind == "tcp" ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!made) {
    fail("socket");
  }
  setsockopt(made.get(), SOL_SOCKET, SO_SNDBUF, &socket_buffer_bytes, sizeof socket_buffer_bytes);
  setsockopt(made.get(), SOL_SOCKET, SO_RCVBUF, &socket_buffer_bytes, sizeof socket_buffer_bytes);
  if (at.kind == "tcp") {
    const int on = 1;
    setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoul(at.where)));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return use(reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  const std::size_t length = std::min(at.where.size(), sizeof to.sun_path - 1);
  std::memcpy(to.sun_path + 1, at.where.data(), length);
  return use(reinterpret_cast<const sockaddr*>(&to),
             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)) == 0;
}

struct bare {
  static constexpr bool has_threads = false;

  class inbox {
   public:
    inbox(const options& run, const std::string& address)
        : at_{parse(address)}, buffer_(batch_bytes + run.bytes_max + header_bytes) {
      if (at_.kind == "pipe") {
        if (mkfifo(at_.where.c_str(), 0600) != 0) {
          fail("mkfifo");
        }
        // A writer of our own keeps the pipe open until the sender is there.
        from_ = descriptor{open(at_.where.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC)};
        fcntl(from_.get(), F_SETPIPE_SZ, 1 << 20);
        return;
      }
      if (!with_socket(at_, listener_, [&](const sockaddr* to, socklen_t length) {
            return bind(listener_.get(), to, length);
          })) {
        fail("bind");
      }
      if (listen(listener_.get(), 1) != 0 || fcntl(listener_.get(), F_SETFL, O_NONBLOCK) != 0) {
        fail("listen");
      }
    }

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      if (!from_) {
        from_ =
            descriptor{accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
        if (!from_) {
          return;
        }
      }
      ssize_t got = read(from_.get(), buffer_.data() + have_, buffer_.size() - have_);
      if (got < 0 && patience.count() != 0) {
        pollfd readable{from_.get(), POLLIN, 0};
        ::poll(&readable, 1, static_cast<int>(patience.count()));
        got = read(from_.get(), buffer_.data() + have_, buffer_.size() - have_);
      }
      if (got < 0) {
        if (!came_to_nothing()) {
          fail("read");
        }
        return;
      }
      have_ += static_cast<std::size_t>(got);
      take_frames(handler);
    }

   private:
    template <class Handler>
    void take_frames(Handler&& handler) {
      std::size_t taken = 0;
      while (have_ - taken >= header_bytes) {
        const std::uint64_t length = bench::load_word(buffer_.data() + taken);
        if (length > buffer_.size() - header_bytes) {
          throw std::runtime_error("a frame has a length that no message has");
        }
        if (have_ - taken < header_bytes + length) {
          break;
        }
        handler(std::span<const std::byte>{buffer_.data() + taken + header_bytes, length});
        taken += header_bytes + length;
      }
      have_ -= taken;
      std::memmove(buffer_.data(), buffer_.data() + taken, have_);
    }

    place at_;
    descriptor listener_;
    descriptor from_;
    std::vector<std::byte> buffer_;
    std::size_t have_ = 0;
  };

  class outlet {
   public:
    outlet(const options& run, const std::string& address)
        : buffer_(batch_bytes + std::max<std::size_t>(run.bytes_max, marker_bytes) + header_bytes) {
      const place at = parse(address);
      retry([&] {
        if (at.kind == "pipe") {
          to_ = descriptor{open(at.where.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)};
          return static_cast<bool>(to_) && fcntl(to_.get(), F_SETFL, 0) == 0;
        }
        return with_socket(at, to_, [&](const sockaddr* to, socklen_t length) {
          return connect(to_.get(), to, length);
        });
      });
    }

    template <class Compose>
    bool send(std::size_t length, Compose&& compose) {
      std::byte* const at = buffer_.data() + have_;
      const std::uint64_t header = length;
      std::memcpy(at, &header, sizeof header);
      compose(at + header_bytes);
      have_ += header_bytes + length;
      if (have_ >= batch_bytes) {
        publish();
      }
      return true;
    }

    // Sleeps while the kernel has no room.
    void publish() {
      std::size_t done = 0;
      while (done != have_) {
        const ssize_t put = write(to_.get(), buffer_.data() + done, have_ - done);
        if (put < 0 && !came_to_nothing()) {
          fail("write");
        }
        done += put < 0 ? 0 : static_cast<std::size_t>(put);
      }
      have_ = 0;
    }
    void wait_for_room() noexcept {}
    void finish() { publish(); }

   private:
    descriptor to_;
    std::vector<std::byte> buffer_;
    std::size_t have_ = 0;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  return atbus::compare::run<atbus::compare::bare>(argc, argv);
}
