#include "channel/stream/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "atbus/clock.hpp"
#include "core/error_text.h"

namespace atbus::detail {
namespace {

// The pause after the kernel had no descriptors or no memory.
constexpr std::chrono::nanoseconds refused_pause = std::chrono::milliseconds{100};

}  // namespace

bool acceptor::watch() noexcept {
  if (watching_)
    return true;
  epoll_event interest{.events = EPOLLIN, .data = {.ptr = tag_}};
  watching_ = kernel().epoll_ctl(epoll_, EPOLL_CTL_ADD, socket_.get(), &interest) == 0;
  return watching_;
}

void acceptor::rest(std::chrono::nanoseconds until) noexcept {
  until_ = until;
  epoll_event none{};
  if (watching_ && kernel().epoll_ctl(epoll_, EPOLL_CTL_DEL, socket_.get(), &none) == 0)
    watching_ = false;
}

void acceptor::go_on(std::chrono::nanoseconds time) noexcept {
  if (!watching_ && until_ <= time && !watch())
    until_ = time + refused_pause;
}

// Removes the socket from epoll explicitly: a forked child may hold a copy, and epoll would still watch it.
void acceptor::close() noexcept {
  rest({});
  socket_.close();
}

file acceptor::next(error& why) noexcept {
  for (;;) {
    std::string said;
    file socket = socket_.accept(said);
    if (socket)
      return socket;
    if (socket_.is_carried() && errno != EAGAIN) {
      why = carrier_says(said, errno);
      return {};
    }
    if (errno == EINTR || errno == ECONNABORTED)
      continue;
    if (errno != EAGAIN)
      why = refused(errno);
    return {};
  }
}

error acceptor::carrier_says(const std::string& text, int code) noexcept {
  if (code == EPROTO)
    return error_at(errc::not_found, address(), text);
  if (code != EPIPE)
    return refused(code);
  rest(std::chrono::nanoseconds::max());
  return error_at(errc::closed, address(), "the carrier has ended: nothing comes here any more");
}

error acceptor::refused(int code) noexcept {
  rest(now() + refused_pause);
  switch (code) {
    case EMFILE:
    case ENFILE:
      return error_at(errc::system_error, address(),
                      "can't accept connections for now; existing ones continue; close something, "
                      "or raise the limit (ulimit -n)",
                      code);
    case ENOSPC:
      return error_at(errc::system_error, address(),
                      "can't accept connections for now; existing ones continue; close something, "
                      "or raise the limit (sysctl fs.epoll.max_user_watches)",
                      code);
    default:
      return error_at(errc::system_error, address(),
                      "can't accept connections for now; existing ones continue", code);
  }
}

}  // namespace atbus::detail
