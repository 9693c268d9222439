#include "system/socket.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "atbus/clock.hpp"
#include "core/error_text.h"
#include "system/passed_descriptors.h"
#include "system/random.h"

namespace atbus::detail {
namespace {

// Most attempts to bind a name that other processes change at the same time. Each round ends in success, an
// error, or a changed name.
constexpr int listen_rounds_max = 100;
constexpr std::chrono::nanoseconds longest_work_of_others = std::chrono::seconds{1};
// The longest wait for a lock that another user's process may hold for any time.
constexpr std::chrono::nanoseconds longest_wait_for_unproven = std::chrono::milliseconds{20};
constexpr std::chrono::nanoseconds between_tries = std::chrono::milliseconds{1};

file stream_socket(int family) {
  file made{kernel().socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (made && family == AF_UNIX)
    let_descriptors_through(made.get(), false);
  return made;
}

bool set_int(int fd, int level, int option, int value) noexcept {
  return kernel().setsockopt(fd, level, option, &value, sizeof value) == 0;
}

error socket_error(const std::string& text, int code) noexcept {
  const bool descriptors = code == EMFILE || code == ENFILE;
  return error_at(errc::system_error, text,
                  descriptors
                      ? "can't make a socket; close something, or raise the limit (ulimit -n)"
                      : "can't make a socket",
                  code);
}

error bind_error(const std::string& text, int code) {
  switch (code) {
    case EADDRINUSE:
      return {errc::receiver_exists, text +
                                         ": another process listens there already; stop it, or "
                                         "choose another port or name"};
    case EADDRNOTAVAIL:
      return {errc::invalid_argument, text + ": no interface of this host has that address"};
    case EACCES:
    case EPERM:
      return {errc::denied,
              text +
                  ": may not bind it (ports below 1024 and directories of others "
                  "need rights)",
              code};
    case ENOENT:
    case ENOTDIR:
      return {errc::not_found, text + ": its directory does not exist; make it first"};
    case ENOSPC:
      return {errc::no_space, text + ": its file system has no room for a socket", code};
    default:
      return {errc::system_error, text + ": can't bind it", code};
  }
}

// The error for a listening socket that can't get its name, by a link or by an exchange.
error name_error(const std::string& text, int code, bool is_exchange) {
  switch (code) {
    case EPERM:
      if (is_exchange)
        return bind_error(text, code);
      [[fallthrough]];
    case EOPNOTSUPP:
    case ENOSYS:
    case EINVAL:
      return {errc::not_supported,
              text +
                  ": the file system of its directory can't give a socket a second name (no hard "
                  "links, or no exchange of names); choose a directory of a tmpfs or of a usual "
                  "local file system, such as /run or /tmp",
              code};
    case ENOENT:
      return {errc::system_error, text + ": somebody has removed its socket meanwhile; try again",
              code};
    default:
      return bind_error(text, code);
  }
}

error dial_error(const std::string& text, int code) noexcept {
  switch (code) {
    case ECONNREFUSED:
    case ENOENT:
      return error_at(errc::not_found, text, "nothing listens there yet");
    case EAGAIN:
      return error_at(errc::would_block, text, "more dial than it accepts; try again");
    case EACCES:
    case EPERM:
      return error_at(errc::denied, text, "may not connect to it", code);
    case ETIMEDOUT:
      return error_at(errc::timed_out, text, "no answer", code);
    default:
      return error_at(errc::system_error, text, "can't connect to it", code);
  }
}

// The prefix of the names under which sockets listen before they get their final name.
constexpr std::string_view first_name_prefix = ".atbus-";
// A process needs microseconds from bind to listen. A socket that does not listen after this time was left by
// a killed process.
constexpr std::time_t longest_between_bind_and_listen_s = 60;
// Limits the search, because a directory may be full of other files.
constexpr int entries_looked_at_max = 4096;
constexpr int sockets_asked_max = 64;

// The directory of a path, and the path's last part.
struct place_in_directory {
  file directory;
  std::string name;
};

result<place_in_directory> find_place(const std::string& path, const std::string& text) {
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == 0 ? "/" : path.substr(0, slash);
  place_in_directory place;
  place.name = path.substr(slash + 1);
  place.directory = file{kernel().open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC, 0)};
  if (!place.directory)
    return bind_error(text, errno);
  return place;
}

// The address of an open file, or of `rest` below an open directory, through its descriptor. It fits into
// sun_path however long the real path is.
socket_address path_through(int fd, const std::string& rest) {
  socket_address to;
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(fd) + rest;
  assert(path.size() < sizeof un.sun_path);
  std::memcpy(un.sun_path, path.data(), path.size());
  std::memcpy(&to.storage, &un, sizeof un);
  to.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return to;
}

bool is_same(const struct stat& a, const struct stat& b) noexcept {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

}  // namespace

socket_address to_socket_address(const address& of) noexcept {
  socket_address to;
  if (of.kind() == address_kind::ipv4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(of.port());
    inet_pton(AF_INET, of.name().c_str(), &in.sin_addr);
    std::memcpy(&to.storage, &in, sizeof in);
    to.length = sizeof in;
  } else if (of.kind() == address_kind::ipv6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(of.port());
    inet_pton(AF_INET6, of.name().c_str(), &in.sin6_addr);
    std::memcpy(&to.storage, &in, sizeof in);
    to.length = sizeof in;
  } else if (of.kind() == address_kind::unix_socket) {
    sockaddr_un un{};
    un.sun_family = AF_UNIX;
    // An abstract name begins with a NUL and ends only by its length.
    const std::size_t begin = of.is_abstract() ? 1 : 0;
    const std::size_t n = std::min(of.name().size(), sizeof un.sun_path - 1);
    std::memcpy(un.sun_path + begin, of.name().data(), n);
    std::memcpy(&to.storage, &un, sizeof un);
    to.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + n + 1);
  }
  return to;
}

std::string describe_peer(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return "unknown";
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &storage, sizeof in);
    inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
    return std::string{"ipv4://"} + text + ":" + std::to_string(ntohs(in.sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &storage, sizeof in);
    inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
    return std::string{"ipv6://["} + text + "]:" + std::to_string(ntohs(in.sin6_port));
  }
  return "unix://";
}

bool is_of_our_user(int fd) noexcept {
  const link_origin from = remote_origin(fd);
  return from.where == link_origin::place::host && from.user == geteuid();
}

link_origin remote_origin(int fd) noexcept {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return {};
  link_origin from{.where = link_origin::place::network};
  if (storage.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &storage, sizeof in);
    from.address[10] = from.address[11] = std::byte{0xff};
    std::memcpy(&from.address[12], &in.sin_addr, sizeof in.sin_addr);
    return from;
  }
  if (storage.ss_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &storage, sizeof in);
    std::memcpy(from.address.data(), &in.sin6_addr, sizeof in.sin6_addr);
    return from;
  }
  ucred peer{};
  length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return {};
  return {.where = link_origin::place::host, .user = peer.uid};
}

void let_descriptors_through(int fd, bool allowed) noexcept {
#if defined(SO_PASSRIGHTS)
  constexpr int option = SO_PASSRIGHTS;
#else
  constexpr int option = 83;  // the same on all of Linux's newer architectures
#endif
  (void)set_int(fd, SOL_SOCKET, option, allowed ? 1 : 0);
}

void set_stream_options(int fd, const stream_options& wanted) noexcept {
  int domain = AF_UNIX;
  socklen_t length = sizeof domain;
  (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
  // Else an urgent byte hides what lies behind it from FIONREAD.
  (void)set_int(fd, SOL_SOCKET, SO_OOBINLINE, 1);
  if (domain != AF_UNIX) {
    (void)set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    (void)set_int(fd, SOL_SOCKET, SO_KEEPALIVE, wanted.keepalive ? 1 : 0);
  }
  // A privileged process may exceed the system's limit; others get at most the limit.
  const auto set_buffer = [fd](int forced, int usual, int bytes) {
    if (bytes > 0 && !set_int(fd, SOL_SOCKET, forced, bytes))
      (void)set_int(fd, SOL_SOCKET, usual, bytes);
  };
  set_buffer(SO_SNDBUFFORCE, SO_SNDBUF, wanted.send_buffer);
  set_buffer(SO_RCVBUFFORCE, SO_RCVBUF, wanted.receive_buffer);
}

std::uint64_t granted_buffer(int fd, int option) noexcept {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  // The kernel doubles the requested size for its bookkeeping, and reports the double.
  return getsockopt(fd, SOL_SOCKET, option, &bytes, &length) == 0
             ? static_cast<std::uint64_t>(bytes) / 2
             : 0;
}

listening_socket listening_socket::carried(file socket, std::string address) noexcept {
  listening_socket made;
  made.fd_ = std::move(socket);
  made.bound_to_ = std::move(address);
  made.is_carried_ = true;
  return made;
}

result<listening_socket> listening_socket::duplicate() const {
  listening_socket same;
  same.fd_ = file{::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)};
  if (!same.fd_)
    return error{errc::system_error, bound_to_ + ": can't duplicate its descriptor", errno};
  same.bound_to_ = bound_to_;
  return same;
}

file listening_socket::accept(std::string& said) noexcept {
  if (!is_carried_)
    return file{kernel().accept(fd_.get(), SOCK_NONBLOCK | SOCK_CLOEXEC)};
  std::array<char, 512> text{};
  iovec piece{.iov_base = text.data(), .iov_len = text.size()};
  msghdr packet{};
  packet.msg_iov = &piece;
  packet.msg_iovlen = 1;
  arriving_descriptors<1> arriving;
  arriving.attach(packet);
  const ssize_t got = kernel().recvmsg(fd_.get(), &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const int problem = got == 0 ? EPIPE : errno;
  std::array<file, 1> passed;
  if (got >= 0)  // also with an empty packet
    arriving.take(packet, passed);
  if (got <= 0) {
    errno = problem;
    return {};
  }
  if (passed[0])
    return std::move(passed[0]);
  // The kernel has closed a socket that it had no descriptor for: the carrier's other end shows that.
  if ((packet.msg_flags & MSG_CTRUNC) != 0) {
    errno = EMFILE;
    return {};
  }
  try {
    said.assign(text.data(), static_cast<std::size_t>(got));
  } catch (const std::bad_alloc&) {
    said.clear();
  }
  errno = EPROTO;
  return {};
}

result<listening_socket> listening_socket::open(const address& where, int backlog,
                                                const stream_options& options) {
  const std::string text = where.to_string();
  const socket_address to = to_socket_address(where);
  listening_socket opened;
  opened.fd_ = stream_socket(to.family());
  if (!opened.fd_)
    return socket_error(text, errno);
  const int fd = opened.fd_.get();
  // Accepted sockets inherit these.
  set_stream_options(fd, options);
  opened.bound_to_ = text;
  if (where.kind() == address_kind::unix_socket && !where.is_abstract()) {
    if (auto e = opened.bind_path(where, backlog); !e)
      return e;
    return opened;
  }
  // Without these options, the address would stay taken for a while after the end, or IPv4 would be taken
  // too.
  if ((to.family() != AF_UNIX && !set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1)) ||
      (to.family() == AF_INET6 && !set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)))
    return socket_error(text, errno);
  if (kernel().bind(fd, to.get(), to.length) != 0 || kernel().listen(fd, backlog) != 0)
    return bind_error(text, errno);
  if (to.family() != AF_UNIX) {
    sockaddr_storage bound{};
    socklen_t length = sizeof bound;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0)
      return error{errc::system_error, text + ": can't ask for its port", errno};
    // The port is at the same place in both families.
    sockaddr_in in{};
    std::memcpy(&in, &bound, sizeof in);
    opened.bound_to_ = where.with_port(ntohs(in.sin_port)).to_string();
  }
  return opened;
}

// Locks a directory while a process replaces a dead listener's name, so that an exchange that is undone
// does not meet another one. Waits only for a bounded time, because a stopped process, or any user who may
// read the directory, may hold the lock. Two processes without the lock are still safe from each other.
file work_alone_in(int directory) noexcept {
  file lock{kernel().openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)};
  struct stat about {};
  const bool is_private = lock && fstat(lock.get(), &about) == 0 && about.st_uid == geteuid() &&
                          (about.st_mode & (S_IRGRP | S_IROTH)) == 0;
  const auto deadline = now() + (is_private ? longest_work_of_others : longest_wait_for_unproven);
  while (lock && kernel().flock(lock.get(), LOCK_EX | LOCK_NB) != 0 &&
         (errno == EWOULDBLOCK || errno == EINTR) && now() < deadline) {
    std::this_thread::sleep_for(between_tries);
  }
  return lock;
}

// Dials a listener to find out whether it is alive; not_found if it is dead.
result<dialled_socket> dial_in(const place_in_directory& place, const char* name,
                               const std::string& text) {
  const file named{
      kernel().openat(place.directory.get(), name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0)};
  if (!named)
    return dial_error(text, errno);
  return dial_socket(path_through(named.get(), {}), text, {});
}

struct close_directory {
  void operator()(DIR* which) const noexcept { closedir(which); }
};

// Removes temporary names of this user's listeners that were killed before they got their final name: old
// sockets without a listener. A living listener is never removed, because it is only microseconds old between
// bind and listen.
void remove_stale_first_names(const place_in_directory& place, const std::string& text) {
  const int fd = kernel().openat(place.directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  const std::unique_ptr<DIR, close_directory> listing{fd < 0 ? nullptr : fdopendir(fd)};
  if (listing == nullptr) {
    file{fd}.reset();
    return;
  }
  int asked = 0;
  for (int i = 0; i != entries_looked_at_max && asked != sockets_asked_max; ++i) {
    const dirent* const entry = readdir(listing.get());
    if (entry == nullptr)
      return;
    const std::string_view name{entry->d_name};
    if (!name.starts_with(first_name_prefix) ||
        name.find_first_not_of("0123456789", first_name_prefix.size()) != name.npos)
      continue;
    struct stat about {};
    if (kernel().fstatat(place.directory.get(), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISSOCK(about.st_mode) || about.st_uid != geteuid() ||
        std::time(nullptr) - about.st_ctime < longest_between_bind_and_listen_s)
      continue;
    ++asked;
    const auto there = dial_in(place, entry->d_name, text);
    if (!there && there.error() == errc::not_found)
      (void)kernel().unlinkat(place.directory.get(), entry->d_name, 0);
  }
}

// The socket listens under a temporary name before it gets its final name, so that a process that finds the
// name finds a living listener. If the name is taken, this function dials it. If it is dead, the names are
// exchanged. The file that comes back has to be the one that was dialled; otherwise they are exchanged back.
error listening_socket::bind_path(const address& where, int backlog) {
  const std::string text = where.to_string();
  auto place = find_place(where.name(), text);
  if (!place)
    return place.error();
  const int directory = place->directory.get();
  const std::string name = place->name;
  remove_stale_first_names(*place, text);
  const std::string first_name = std::string{first_name_prefix} + std::to_string(random_word());
  const socket_address first = path_through(directory, "/" + first_name);
  if (kernel().bind(fd_.get(), first.get(), first.length) != 0)
    return bind_error(text, errno);
  const auto give_up = [&](error why) {
    (void)kernel().unlinkat(directory, first_name.c_str(), 0);
    return why;
  };
  struct stat mine {};
  if (kernel().listen(fd_.get(), backlog) != 0 ||
      kernel().fstatat(directory, first_name.c_str(), &mine, AT_SYMLINK_NOFOLLOW) != 0) {
    return give_up(bind_error(text, errno));
  }
  std::optional<file> alone;
  for (int round = 0; round < listen_rounds_max; ++round) {
    if (kernel().linkat(directory, first_name.c_str(), directory, name.c_str(), 0) == 0) {
      (void)kernel().unlinkat(directory, first_name.c_str(), 0);
      path_ = where.name();
      device_ = mine.st_dev;
      inode_ = mine.st_ino;
      return {};
    }
    if (errno != EEXIST)
      return give_up(name_error(text, errno, false));
    struct stat asked {};
    if (kernel().fstatat(directory, name.c_str(), &asked, AT_SYMLINK_NOFOLLOW) != 0)
      continue;  // removed meanwhile
    if (!S_ISSOCK(asked.st_mode)) {
      return give_up({errc::receiver_exists,
                      text + ": something that is no socket has that name; remove it, or choose "
                             "another name"});
    }
    auto there = dial_in(*place, name.c_str(), text);
    if (there || !(there.error() == errc::not_found))
      return give_up(bind_error(text, EADDRINUSE));
    if (!alone) {
      alone = work_alone_in(directory);
      continue;  // it may listen by now
    }
    if (kernel().exchangeat(directory, first_name.c_str(), name.c_str()) != 0) {
      if (errno == ENOENT)
        continue;
      return give_up(name_error(text, errno, true));
    }
    struct stat came {};
    if (kernel().fstatat(directory, first_name.c_str(), &came, AT_SYMLINK_NOFOLLOW) == 0 &&
        !is_same(came, asked)) {
      // Another process has already replaced the dead listener by its own.
      (void)kernel().exchangeat(directory, first_name.c_str(), name.c_str());
      continue;
    }
    (void)kernel().unlinkat(directory, first_name.c_str(), 0);
    path_ = where.name();
    device_ = mine.st_dev;
    inode_ = mine.st_ino;
    return {};
  }
  return give_up({errc::system_error, text + ": its name keeps changing hands; is something "
                                             "creating and removing it in a loop?"});
}

void listening_socket::close() noexcept {
  if (!fd_)
    return;
  if (!path_.empty()) {
    struct stat named {};
    if (kernel().fstatat(AT_FDCWD, path_.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        named.st_dev == device_ && named.st_ino == inode_) {
      (void)kernel().unlinkat(AT_FDCWD, path_.c_str(), 0);
    }
    path_.clear();
  }
  fd_.reset();
}

result<dialled_socket> dial_socket(const socket_address& to, const std::string& text,
                                   const stream_options& options) noexcept {
  dialled_socket dialled;
  dialled.fd = stream_socket(to.family());
  if (!dialled.fd)
    return socket_error(text, errno);
  set_stream_options(dialled.fd.get(), options);
  if (kernel().connect(dialled.fd.get(), to.get(), to.length) == 0) {
    dialled.connected = true;
    return dialled;
  }
  if (errno != EINPROGRESS && errno != EINTR)
    return dial_error(text, errno);
  return dialled;
}

bool is_answered(int fd) noexcept {
  pollfd interest{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&interest, 1, 0) == 1;
}

error dial_result(int fd, const std::string& text) noexcept {
  int code = 0;
  socklen_t length = sizeof code;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &length) != 0)
    code = errno;
  if (code == 0)
    return {};
  return dial_error(text, code);
}

}  // namespace atbus::detail
