#include "atbus/bench/cache/cache_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>

namespace atbus::bench {
namespace {

int connect_unix(const std::string& path) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor >= 0 &&
      connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

int connect_tcp(const std::string& port_text) noexcept {
  std::uint16_t port = 0;
  std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) {
    return -1;
  }
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(descriptor);
    return -1;
  }
  const int at_once = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
  return descriptor;
}

std::runtime_error lost(const char* why) {
  return std::runtime_error{std::string{"the connection to the server is lost: "} + why};
}

}  // namespace

int connect_to_cache(const std::string& address) noexcept {
  const int descriptor = address.starts_with('/') ? connect_unix(address) : connect_tcp(address);
  if (descriptor >= 0) {
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
  }
  return descriptor;
}

cache_connection::cache_connection(const std::string& address, std::size_t longest)
    : descriptor_{connect_to_cache(address)}, longest_{longest} {
  if (descriptor_ < 0) {
    throw lost(std::strerror(errno));
  }
  // Several answers, so that what is moved to the front is a small part of what is read.
  buffer_.resize(std::max<std::size_t>(4 * longest, std::size_t{256} << 10));
}

cache_connection::~cache_connection() {
  close(descriptor_);
}

void cache_connection::write(std::string_view text) {
  text_.insert(text_.end(), text.begin(), text.end());
  if (pieces_.empty() || pieces_.back().text != nullptr) {
    pieces_.push_back({nullptr, text.size()});
  } else {
    pieces_.back().length += text.size();
  }
}

void cache_connection::write_in_place(std::string_view text) {
  constexpr std::size_t too_short = 4096;  // to be worth a piece of its own
  if (text.size() < too_short) {
    return write(text);
  }
  pieces_.push_back({text.data(), text.size()});
}

bool cache_connection::move() {
  const bool has_sent = send();
  const bool has_received = receive();
  return has_sent || has_received;
}

void cache_connection::wait() noexcept {
  constexpr int longest_ms = 50;
  pollfd waiting{descriptor_, static_cast<short>(pieces_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
  poll(&waiting, 1, longest_ms);
}

bool cache_connection::send() {
  if (pieces_.empty()) {
    return false;
  }
  constexpr std::size_t pieces_at_once = 64;
  constexpr std::size_t text_worth_moving = std::size_t{1} << 20;
  vectors_.clear();
  std::size_t text_at = text_begin_;
  for (const piece& one : pieces_) {
    if (vectors_.size() == pieces_at_once) {
      break;
    }
    const char* const from = one.text != nullptr ? one.text : text_.data() + text_at;
    text_at += one.text != nullptr ? 0 : one.length;
    vectors_.push_back({const_cast<char*>(from), one.length});
  }
  msghdr message{};
  message.msg_iov = vectors_.data();
  message.msg_iovlen = vectors_.size();
  const ssize_t sent = sendmsg(descriptor_, &message, MSG_NOSIGNAL);
  if (sent < 0) {
    if (errno == EAGAIN || errno == EINTR) {
      return false;
    }
    throw lost(std::strerror(errno));
  }
  for (auto left = static_cast<std::size_t>(sent); left != 0;) {
    piece& first = pieces_.front();
    const std::size_t taken = std::min(left, first.length);
    if (first.text != nullptr) {
      first.text += taken;
    } else {
      text_begin_ += taken;
    }
    first.length -= taken;
    left -= taken;
    if (first.length == 0) {
      pieces_.pop_front();
    }
  }
  if (text_begin_ == text_.size()) {
    text_.clear();
    text_begin_ = 0;
  } else if (text_begin_ >= text_worth_moving) {
    text_.erase(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(text_begin_));
    text_begin_ = 0;
  }
  return true;
}

bool cache_connection::receive() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (buffer_.size() - begin_ < longest_) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const ssize_t got = recv(descriptor_, buffer_.data() + end_, buffer_.size() - end_, 0);
  if (got == 0) {
    throw lost("the server closed it");
  }
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) {
      return false;
    }
    throw lost(std::strerror(errno));
  }
  end_ += static_cast<std::size_t>(got);
  return true;
}

}  // namespace atbus::bench
