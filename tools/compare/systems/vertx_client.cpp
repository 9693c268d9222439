// The client of the Vert.x service (systems/vertx): one TCP connection; each body follows its length in
// four bytes, the highest first.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "harness/asking.h"

namespace atbus::compare {
namespace {

// "127.0.0.1:port"
int connect_to(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoul(address.substr(colon + 1))));
  if (inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) != 1) {
    throw std::runtime_error("\"" + address + "\" is no IPv4 address and port");
  }
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0 || connect(made, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    throw std::runtime_error(std::string{"connect: "} + std::strerror(errno));
  }
  const int on = 1;
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

struct vertx_client {
  class client {
   public:
    explicit client(const options& run) : socket_{connect_to(run.address)} {}
    client(const client&) = delete;
    client& operator=(const client&) = delete;
    ~client() { close(socket_); }

    bool ask(std::span<const std::byte> body) {
      const std::uint32_t length = htonl(static_cast<std::uint32_t>(body.size()));
      out_.append(reinterpret_cast<const char*>(&length), sizeof length);
      out_.append(text_of(body));
      return true;
    }

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      write_what_fits();
      const short events = static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT);
      pollfd look{socket_, events, 0};
      if (::poll(&look, 1, static_cast<int>(patience.count())) > 0 &&
          (look.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        read_some();
        hand_on(handler);
      }
    }

   private:
    void write_what_fits() {
      const ssize_t written = send(socket_, out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (written > 0) {
        out_.erase(0, static_cast<std::size_t>(written));
      } else if (written < 0 && errno != EAGAIN && errno != EINTR) {
        throw std::runtime_error(std::string{"send: "} + std::strerror(errno));
      }
    }

    void read_some() {
      constexpr std::size_t most = 256 * 1024;
      const std::size_t before = in_.size();
      in_.resize(before + most);
      const ssize_t got = recv(socket_, in_.data() + before, most, MSG_DONTWAIT);
      in_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      if (got == 0) {
        throw std::runtime_error("the service has closed the connection");
      }
    }

    template <class Handler>
    void hand_on(Handler& handler) {
      std::size_t at = 0;
      for (std::uint32_t length = 0; in_.size() - at >= sizeof length; at += length) {
        std::memcpy(&length, in_.data() + at, sizeof length);
        length = ntohl(length);
        if (in_.size() - at - sizeof length < length) {
          break;
        }
        at += sizeof length;
        handler(bytes_of(std::string_view{in_}.substr(at, length)));
      }
      in_.erase(0, at);
    }

    int socket_;
    std::string out_;
    std::string in_;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  return atbus::compare::run_asking<atbus::compare::vertx_client>(argc, argv);
}
