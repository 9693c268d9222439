#include "channel/shm/doorbell.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "atbus/build_settings.hpp"
#include "atbus/clock.hpp"
#include "channel/shm/bell_socket.h"
#include "channel/shm/in_process_names.h"
#include "channel/shm/lane_shards.h"
#include "system/fork_guard.h"
#include "system/passed_descriptors.h"
#include "system/socket.h"

namespace atbus::detail {
namespace {

// As long as a listener of streams rests.
constexpr std::chrono::nanoseconds rest_time = std::chrono::milliseconds{100};
constexpr std::uint32_t listener_events = EPOLLIN;
constexpr std::uint32_t connection_events = EPOLLIN | EPOLLRDHUP;

constexpr std::size_t events_per_look = 64;
constexpr std::uint64_t listener_tag = ~std::uint64_t{0};
constexpr std::uint64_t file_watch_tag = listener_tag - 1;
constexpr std::uint64_t front_tag = listener_tag - 2;
constexpr std::uint64_t box_tag = listener_tag - 3;
constexpr std::uint64_t event_tag = listener_tag - 4;

}  // namespace

error bell_server::make_epoll(const segment& s) {
  lane_count_ = s.geometry.lane_count;
  in_process_ = s.name.in_process;
  ended_.assign(lane_count_, 0);
  first_.assign(lane_count_, nothing);
  limit_ = connections_max(lane_count_);
  connections_.reserve(limit_);  // so that accepting and ending need no memory
  free_.reserve(limit_);
  epoll_ = file{kernel().epoll_create(EPOLL_CLOEXEC)};
  if (!epoll_)
    return {errc::system_error, s.name.text() + ": can't make its doorbell", errno};
  return {};
}

error bell_server::open(const segment& s) {
  if (auto e = make_epoll(s); !e || s.name.handed)
    return e;
  listener_ = bell_socket();
  spare_ = file{kernel().open("/dev/null", O_RDONLY | O_CLOEXEC, 0)};
  if (!listener_)
    return {errc::system_error, s.name.text() + ": can't make its doorbell", errno};
  if (auto e = bind(s); !e)
    return e;
  epoll_event interest{.events = listener_events, .data = {.u64 = listener_tag}};
  if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &interest) != 0) {
    return {errc::system_error, s.name.text() + ": can't watch its doorbell", errno};
  }
  return {};
}

error bell_server::open(const segment& s, lane_shards& shards, std::uint32_t shard) {
  if (auto e = make_epoll(s); !e)
    return e;
  shards_ = &shards;
  shard_ = shard;
  passed_.reserve(limit_);
  epoll_event front{.events = EPOLLIN, .data = {.u64 = front_tag}};
  epoll_event box{.events = EPOLLIN, .data = {.u64 = box_tag}};
  if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, shards.front().descriptor(), &front) != 0 ||
      kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, shards.box_descriptor(shard), &box) != 0) {
    return {errc::system_error, s.name.text() + ": can't watch its doorbell", errno};
  }
  return {};
}

error bell_server::bind(const segment& s) {
  const auto failed = [&](const char* what) {
    const std::string path =
        s.name.in_process ? "" : " " + s.name.directory + "/" + s.name.bell_name();
    return error{errc::system_error, s.name.text() + ": can't " + what + " its doorbell" + path,
                 errno};
  };
  const int backlog = static_cast<int>(build_settings::connection_backlog);
  if (s.name.in_process) {
    // The kernel picks a free abstract name; senders find it in the table of in-process names.
    sockaddr_un any{.sun_family = AF_UNIX, .sun_path = {}};
    if (kernel().bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), sizeof any.sun_family) !=
        0) {
      return failed("bind");
    }
    if (kernel().listen(listener_.get(), backlog) != 0)
      return failed("listen on");
    sockaddr_un bound{};
    socklen_t length = sizeof bound;
    if (getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0)
      return failed("name");
    in_process_bell(s.name.name, {bound.sun_path, length - offsetof(sockaddr_un, sun_path)});
    return {};
  }
  auto directory = open_directory(s.name);
  if (!directory)
    return directory.error();
  // Bind and listen under a second name, then rename: a process that finds the name finds a live bell. No
  // other process touches either name, because this one holds the receiver's lock.
  const std::string final_name = s.name.bell_name();
  const std::string first_name = s.name.new_bell_name();
  (void)kernel().unlinkat(directory->get(), first_name.c_str(), 0);
  (void)fchmod(listener_.get(), 0600);  // before bind: becomes the mode of the file
  const bell_address a = path_address(directory->get(), first_name);
  if (kernel().bind(listener_.get(), reinterpret_cast<const sockaddr*>(&a.address), a.length) !=
      0) {
    return errno == ENOSPC ? no_inode_error(s.name) : failed("bind");
  }
  error problem;
  if (kernel().listen(listener_.get(), backlog) != 0) {
    problem = failed("listen on");
  } else if (kernel().renameat(directory->get(), first_name.c_str(), directory->get(),
                               final_name.c_str()) != 0) {
    problem = failed("put in its place");
  }
  if (!problem)
    (void)kernel().unlinkat(directory->get(), first_name.c_str(), 0);
  return problem;
}

bell_server::events bell_server::take_events(std::int64_t timeout_ns) noexcept {
  events seen;
  if (!epoll_)
    return seen;
  if (is_due())
    rest_no_more();
  epoll_event ready[events_per_look];
  const int n = kernel().epoll_wait(epoll_.get(), ready, events_per_look, timeout_ns);
  if (shards_ != nullptr && shards_->front_is_due())
    shards_->look_at_front();
  if (n <= 0)
    return seen;
  const fork_pause no_fork;
  for (int i = 0; i < n; ++i) {
    const std::uint64_t tag = ready[i].data.u64;
    if (tag == listener_tag) {
      seen.look_everywhere |= accept_all(seen);
    } else if (tag == file_watch_tag) {
      read_file_watch(seen);
    } else if (tag == front_tag) {
      shards_->look_at_front();
    } else if (tag == box_tag) {
      take_passed();
      seen.look_everywhere = true;
    } else if (tag == event_tag) {
      seen.rung = true;
    } else if (tag < connections_.size() && connections_[tag].fd) {
      connection& c = connections_[tag];
      if (!read_from(c, seen)) {
        end(c);
        seen.look_everywhere = true;
      }
    }
  }
  return seen;
}

bool bell_server::watch_file(const segment& s) noexcept {
  const fork_pause no_fork;
  file watch{kernel().inotify_init(IN_CLOEXEC | IN_NONBLOCK)};
  if (!watch)
    return false;
  // Watch the file by its descriptor: the name may lead to another file by now.
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", s.fd.get());
  epoll_event interest{.events = EPOLLIN, .data = {.u64 = file_watch_tag}};
  if (kernel().inotify_add_watch(watch.get(), path, IN_CLOSE_WRITE | IN_ATTRIB) < 0 ||
      kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, watch.get(), &interest) != 0) {
    return false;
  }
  file_watch_ = std::move(watch);
  return true;
}

void bell_server::unwatch_file() noexcept {
  if (!file_watch_)
    return;
  const fork_pause no_fork;
  file_watch_.reset();
}

void bell_server::read_file_watch(events& seen) noexcept {
  seen.look_everywhere = true;
  alignas(inotify_event) char buffer[4096];
  const ssize_t size = ::read(file_watch_.get(), buffer, sizeof buffer);
  // A watch of a file reports no names, so all events have the same size. An overflow of the queue may have
  // dropped a close event.
  for (ssize_t at = 0; at + ssize_t{sizeof(inotify_event)} <= size; at += sizeof(inotify_event)) {
    inotify_event event;
    std::memcpy(&event, buffer + at, sizeof event);
    seen.file_closed |= (event.mask & (IN_CLOSE_WRITE | IN_Q_OVERFLOW)) != 0;
  }
}

bool bell_server::accept_all(events& seen) noexcept {
  if (!spare_)  // the process had no descriptors when this one was to come back
    spare_ = file{kernel().open("/dev/null", O_RDONLY | O_CLOEXEC, 0)};
  bool any = false;
  // Accept all of them before the caller looks at the lanes: a sender that finds the backlog full relies on
  // that. The loop is bounded; the listener is level-triggered, so the next look sees the rest.
  for (std::size_t i = 0; i < limit_; ++i) {
    file peer{kernel().accept(listener_.get(), SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!peer) {
      if (errno == EINTR || errno == ECONNABORTED)
        continue;
      if (errno != EMFILE && errno != ENFILE) {
        if (errno != EAGAIN)
          rest(listener_.get(), listener_tag, listener_rests_);
        break;
      }
      // Out of descriptors: treat the connection as a ring and close it. The sender connects again for each
      // further ring.
      spare_.reset();
      peer = file{kernel().accept(listener_.get(), SOCK_CLOEXEC | SOCK_NONBLOCK)};
      const bool taken = static_cast<bool>(peer);
      if (!taken && errno != EAGAIN)
        rest(listener_.get(), listener_tag, listener_rests_);
      peer.reset();
      spare_ = file{kernel().open("/dev/null", O_RDONLY | O_CLOEXEC, 0)};
      ++refused_;
      any = true;
      if (!taken)
        break;
      continue;
    }
    any = true;
    admit(std::move(peer), seen);
  }
  return any;
}

void bell_server::admit(file peer, events& seen) noexcept {
  const std::size_t index = find_place();
  epoll_event interest{.events = connection_events, .data = {.u64 = index}};
  if (!is_trusted(peer.get(), in_process_) || index == limit_ ||
      kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, peer.get(), &interest) != 0) {
    ++refused_;
    return;
  }
  connection& c = fill_place(index, std::move(peer));
  // A correct sender writes its lane number at once.
  if (!read_from(c, seen))
    end(c);
}

void bell_server::take_passed() noexcept {
  shards_->take(shard_, passed_);
  for (auto& [peer, lane] : passed_) {
    const std::size_t index = find_place();
    epoll_event interest{.events = connection_events, .data = {.u64 = index}};
    if (index == limit_ ||
        kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, peer.get(), &interest) != 0) {
      ++refused_;
      continue;
    }
    join(fill_place(index, std::move(peer)), lane);
  }
  passed_.clear();
}

void bell_server::rest(int fd, std::uint64_t tag, bool& rests) noexcept {
  epoll_event interest{.events = (tag == listener_tag ? listener_events : connection_events) |
                                 static_cast<std::uint32_t>(EPOLLET),
                       .data = {.u64 = tag}};
  // Once: each change reports again what waits there.
  if (!rests && kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &interest) == 0) {
    rests = true;
    rests_until_ = now() + rest_time;
  }
}

void bell_server::rest_no_more() noexcept {
  rests_until_ = std::chrono::nanoseconds{0};
  const auto look_again = [&](int fd, std::uint64_t tag, std::uint32_t watched, bool& rests) {
    epoll_event interest{.events = watched, .data = {.u64 = tag}};
    if (std::exchange(rests, false))
      (void)kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &interest);
  };
  look_again(listener_.get(), listener_tag, listener_events, listener_rests_);
  for (connection& c : connections_)
    look_again(c.fd.get(), index_of(c), connection_events, c.rests);
}

std::chrono::nanoseconds bell_server::longest_sleep() const noexcept {
  constexpr std::chrono::nanoseconds none{-1};
  const auto of_front = shards_ == nullptr ? none : shards_->longest_sleep();
  if (rests_until_ == std::chrono::nanoseconds{0})
    return of_front;
  const auto own = std::max(rests_until_ - now(), short_sleep);
  return of_front == none ? own : std::min(own, of_front);
}

bool bell_server::is_due() const noexcept {
  return rests_until_ != std::chrono::nanoseconds{0} && rests_until_ <= now();
}

bool bell_server::adopt(file peer, std::uint32_t lane) noexcept {
  const std::size_t index = find_place();
  epoll_event interest{.events = connection_events, .data = {.u64 = index}};
  if (index == limit_ ||
      kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, peer.get(), &interest) != 0) {
    return false;
  }
  join(fill_place(index, std::move(peer)), lane);
  ended_[lane] = 0;
  return true;
}

std::size_t bell_server::find_place() noexcept {
  if (!free_.empty())
    return free_.back();
  if (connections_.size() != limit_)
    return connections_.size();
  // Close a connection that has not sent its lane number: silent ones must not keep others out.
  for (std::size_t n = 0; n < limit_; ++n) {
    next_to_go_ = (next_to_go_ + 1) % limit_;
    if (connections_[next_to_go_].lane == no_lane) {
      ++refused_;
      return next_to_go_;
    }
  }
  return limit_;
}

bell_server::connection& bell_server::fill_place(std::size_t index, file peer) noexcept {
  if (index == connections_.size())
    connections_.emplace_back();
  else if (!connections_[index].fd)
    free_.pop_back();
  connections_[index].rests = false;  // a silent one may have been there
  connections_[index].fd = std::move(peer);
  return connections_[index];
}

void bell_server::end(connection& c) noexcept {
  if (c.lane != no_lane) {
    ended_[c.lane] = 1;
    leave(c);
  }
  c.rests = false;
  c.fd.reset();
  take_event_back(c);
  c.rings = 0;
  free_.push_back(index_of(c));
}

void bell_server::give_event(connection& c) noexcept {
  // Edge-triggered: each write is an event, and nobody has to read. The count stays 1, because rings write 0.
  c.event = file{kernel().eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
  epoll_event interest{.events = EPOLLIN | EPOLLET, .data = {.u64 = event_tag}};
  if (!c.event || !has_many_descriptors_left(c.event.get(), events_) ||
      kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c.event.get(), &interest) != 0) {
    return c.event.reset();
  }
  ++events_;
  if (!pass_descriptor(c.fd.get(), c.event.get()))
    take_event_back(c);
}

void bell_server::take_event_back(connection& c) noexcept {
  if (!c.event)
    return;
  // The sender may keep its copy: closing this one would not end the interest.
  (void)kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, c.event.get(), nullptr);
  c.event.reset();
  --events_;
}

void bell_server::join(connection& c, std::uint32_t lane) noexcept {
  c.lane = lane;
  c.next_of_lane = std::exchange(first_[lane], index_of(c));
}

void bell_server::leave(connection& c) noexcept {
  std::size_t* at = &first_[c.lane];
  while (*at != index_of(c))
    at = &connections_[*at].next_of_lane;
  *at = std::exchange(c.next_of_lane, nothing);
  c.lane = no_lane;
}

bool bell_server::take_ended(std::uint32_t lane) noexcept {
  return std::exchange(ended_[lane], 0) != 0;
}

bool bell_server::read_from(connection& c, events& seen) noexcept {
  // A bounded number of packets per look; the rest keeps the descriptor readable.
  for (int i = 0; i < 16; ++i) {
    std::uint32_t word = 0;
    const ssize_t n = kernel().recv(c.fd.get(), &word, sizeof word, MSG_DONTWAIT);
    if (n == 0)
      return false;
    if (n < 0 && is_out_of_memory(errno)) {
      rest(c.fd.get(), index_of(c), c.rests);
      return true;
    }
    if (n < 0)
      return errno == EAGAIN || errno == EINTR;
    if (c.lane != no_lane) {
      // A sender rings once per sleep. A second read would be a system call that delays the message. The next
      // look reads an end-of-file behind the ring.
      seen.rung = true;
      if (is_time_for_event(++c.rings) && !c.event)
        give_event(c);
      return true;
    }
    if (n == sizeof word && word < lane_count_) {
      if (front_of_ != nullptr) {
        (void)kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, c.fd.get(), nullptr);
        front_of_->pass_on(std::move(c.fd), word);
        return false;
      }
      join(c, word);
      seen.look_everywhere = true;
    } else {
      ++refused_;
      return false;
    }
  }
  return true;
}

bool bell_server::ring(std::uint32_t lane) noexcept {
  bool rung = false;
  const char byte = 1;
  for (std::size_t at = first_[lane]; at != nothing; at = connections_[at].next_of_lane) {
    const connection& c = connections_[at];
    const ssize_t n = kernel().send(c.fd.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    rung |= n == 1 || errno == EAGAIN;  // EAGAIN: enough rings are queued already
  }
  return rung;
}

bool bell_server::has_connection(std::uint32_t lane) const noexcept {
  return first_[lane] != nothing;
}

void bell_server::abandon() noexcept {
  epoll_.reset();
  listener_.reset();
  file_watch_.reset();
  spare_.reset();
  for (connection& c : connections_) {
    c.fd.reset();
    c.event.reset();
  }
}

}  // namespace atbus::detail
