#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "atbus/nats.hpp"
#include "nats/nats_line.h"
#include "nats/nats_settings.h"
#include "system/fork_guard.h"

namespace atbus {
namespace detail {
namespace {

struct socket_pair {
  file of_node;
  file of_line;
};
result<socket_pair> make_pair_of(int type) {
  std::array<int, 2> ends{};
  if (kernel().socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return error{errc::system_error, "no socket pair for a link through NATS", errno};
  return socket_pair{.of_node = file{ends[0]}, .of_line = file{ends[1]}};
}

std::string server_of(const address& at) {
  const bool is_ipv6 = at.name().find(':') != at.name().npos;
  return (is_ipv6 ? '[' + at.name() + ']' : at.name()) + ':' + std::to_string(at.port());
}

bool has_hung_up(int socket) noexcept {
  pollfd at{.fd = socket, .events = 0, .revents = 0};
  return poll(&at, 1, 0) == 1 && (at.revents & POLLHUP) != 0;
}

// One line for each server that addresses name.
class nats_lines final : public carrier {
 public:
  explicit nats_lines(const nats_options& options) : options_(options) {}
  ~nats_lines() override {
    if (is_in_child())
      return;
    for (auto& [server, line] : lines_)
      line->stop();
  }

  result<int> listen(const address& at) override;
  result<carried_socket> connect(const address& to) override;

 private:
  // The threads are the parent's, and one of them may have held a mutex when it forked.
  [[nodiscard]] bool is_in_child() const noexcept { return getpid() != process_; }
  // Within the lock.
  [[nodiscard]] result<nats_line*> line_of(const address& at);

  const nats_options options_;
  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<nats_line>> lines_;
  // By server and subject: a copy of the line's end, which shows whether the node still listens.
  std::map<std::string, file> listened_to_;
};

result<nats_line*> nats_lines::line_of(const address& at) {
  auto& line = lines_[server_of(at)];
  if (line == nullptr) {
    auto started = nats_line::start(options_, server_of(at));
    if (!started)
      return started.error();
    line = std::move(*started);
  }
  return line.get();
}

result<int> nats_lines::listen(const address& at) {
  if (is_in_child())
    return error{errc::used_after_fork};
  const fork_pause no_fork;
  auto pair = make_pair_of(SOCK_SEQPACKET);
  if (!pair)
    return pair.error();
  const std::lock_guard lock{mutex_};
  const auto line = line_of(at);
  if (!line)
    return line.error();
  std::erase_if(listened_to_, [](const auto& one) { return has_hung_up(one.second.get()); });
  file& before = listened_to_[server_of(at) + '/' + at.subject()];
  if (before && !has_hung_up(before.get()))
    return error{errc::receiver_exists, "this process listens to that subject already"};
  before = file{fcntl(pair->of_line.get(), F_DUPFD_CLOEXEC, 0)};
  (*line)->listen(std::move(pair->of_line), at);
  return pair->of_node.release();
}

result<carried_socket> nats_lines::connect(const address& to) {
  if (is_in_child())
    return error{errc::used_after_fork};
  const fork_pause no_fork;
  auto pair = make_pair_of(SOCK_STREAM);
  if (!pair)
    return pair.error();
  auto note = std::make_shared<link_note>();
  const std::lock_guard lock{mutex_};
  const auto line = line_of(to);
  if (!line)
    return line.error();
  (*line)->dial(std::move(pair->of_line), to, note);
  return carried_socket{.descriptor = pair->of_node.release(), .link = std::move(note)};
}

}  // namespace
}  // namespace detail

result<std::shared_ptr<carrier>> nats_carrier(const nats_options& options) {
  if (error why = detail::check_nats(options); !why)
    return why;
  return std::shared_ptr<carrier>{std::make_shared<detail::nats_lines>(options)};
}

}  // namespace atbus
