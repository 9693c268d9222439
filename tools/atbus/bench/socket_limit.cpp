#include "atbus/bench/socket_limit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "atbus/address.hpp"
#include "atbus/bench/interrupt.h"
#include "atbus/bench/machine_state.h"

namespace atbus::bench {
namespace {

// None of these is closed on exec: the workers are this program started anew.

void require(bool done, socket_kind kind, const char* call) {
  if (!done) {
    throw std::runtime_error(std::string{address_of(kind)} + ": " + call + ": " +
                             std::strerror(errno));
  }
}

// A buffer that the system does not grant in full is as large as it grants.
void ask_for_buffers(int descriptor, std::uint64_t bytes) noexcept {
  if (bytes != 0) {
    const int wanted = static_cast<int>(bytes);
    setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted);
    setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted);
  }
}

std::uint64_t buffer_of(int descriptor, int which) noexcept {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  return getsockopt(descriptor, SOL_SOCKET, which, &bytes, &size) == 0
             ? static_cast<std::uint64_t>(bytes)
             : 0;
}

class descriptor {
 public:
  explicit descriptor(int value) noexcept : value_{value} {}
  ~descriptor() {
    if (value_ >= 0) {
      close(value_);
    }
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;

  int get() const noexcept { return value_; }
  int release() noexcept { return std::exchange(value_, -1); }

 private:
  int value_;
};

struct loopback_address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  explicit loopback_address(socket_kind kind) noexcept {
    if (kind == socket_kind::ipv6) {
      sockaddr_in6 six{};
      six.sin6_family = AF_INET6;
      six.sin6_addr = in6addr_loopback;
      size = sizeof six;
      std::memcpy(&bytes, &six, sizeof six);
    } else {
      sockaddr_in four{};
      four.sin_family = AF_INET;
      four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      size = sizeof four;
      std::memcpy(&bytes, &four, sizeof four);
    }
  }
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&bytes); }
};

std::array<int, 2> connect_tcp(socket_kind kind, std::uint64_t buffer_bytes) {
  loopback_address address{kind};
  const int family = address.bytes.ss_family;
  const descriptor listener{socket(family, SOCK_STREAM, 0)};
  require(listener.get() >= 0, kind, "socket");
  // Before the connection exists, or its window can't grow to them; what is accepted inherits.
  ask_for_buffers(listener.get(), buffer_bytes);
  require(bind(listener.get(), address.get(), address.size) == 0, kind, "bind");
  require(listen(listener.get(), 1) == 0, kind, "listen");
  require(getsockname(listener.get(), address.get(), &address.size) == 0, kind, "getsockname");
  descriptor second{socket(family, SOCK_STREAM, 0)};
  require(second.get() >= 0, kind, "socket");
  ask_for_buffers(second.get(), buffer_bytes);
  require(connect(second.get(), address.get(), address.size) == 0, kind, "connect");
  descriptor first{accept(listener.get(), nullptr, nullptr)};
  require(first.get() >= 0, kind, "accept");
  const int on = 1;
  for (const int end : {first.get(), second.get()}) {
    require(setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, kind, "TCP_NODELAY");
  }
  return {first.release(), second.release()};
}

std::array<int, 2> connect_local(std::uint64_t buffer_bytes) {
  std::array<int, 2> ends{-1, -1};
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0, socket_kind::local, "socketpair");
  ask_for_buffers(ends[0], buffer_bytes);
  ask_for_buffers(ends[1], buffer_bytes);
  return ends;
}

workload shaped(const workload& work, const connected_pair& pair, const socket_shape& shape) {
  workload result = work;
  result.senders = 1;
  result.connections = 1;
  result.sockets = pair.descriptors();
  result.write_bytes = shape.write_bytes;
  result.read_bytes = shape.read_bytes;
  result.spin_ns = shape.spin_ns;
  return result;
}

}  // namespace

const char* address_of(socket_kind kind) noexcept {
  switch (kind) {
    case socket_kind::ipv6:
      return "ipv6://::1";
    case socket_kind::ipv4:
      return "ipv4://127.0.0.1";
    case socket_kind::local:
      break;
  }
  return "unix";
}

std::optional<socket_kind> kind_of(std::string_view address) noexcept {
  if (address.starts_with("ipv6://")) {
    return socket_kind::ipv6;
  }
  if (address.starts_with("ipv4://")) {
    return socket_kind::ipv4;
  }
  if (address.starts_with("unix://")) {
    return socket_kind::local;
  }
  return {};
}

bool moves_to_lanes(std::string_view text) {
  const auto parsed = address::parse(text);
  return parsed && parsed->kind() == address_kind::unix_socket &&
         parsed->option(address_option::shm) != 0U;
}

std::string socket_limit::name() const {
  return std::string{"frames over "} + atbus::bench::address_of(kind_);
}

nlohmann::json json_of(const socket_buffers& buffers) {
  return {{"send_bytes", buffers.send_bytes}, {"receive_bytes", buffers.receive_bytes}};
}

nlohmann::json json_of(socket_kind kind, const socket_shape& shape, const socket_buffers& buffers) {
  return {{"address", address_of(kind)},
          {"write_bytes", shape.write_bytes},
          {"read_bytes", shape.read_bytes},
          {"spin_us", static_cast<double>(shape.spin_ns) / 1e3},
          {"buffers", json_of(buffers)}};
}

connected_pair::connected_pair(socket_kind kind, std::uint64_t buffer_bytes)
    : ends_{kind == socket_kind::local ? connect_local(buffer_bytes)
                                       : connect_tcp(kind, buffer_bytes)} {}

connected_pair::~connected_pair() {
  close(ends_[0]);
  close(ends_[1]);
}

socket_buffers connected_pair::buffers() const noexcept {
  return {buffer_of(ends_[1], SO_SNDBUF), buffer_of(ends_[0], SO_RCVBUF)};
}

std::string unavailable(socket_kind kind) {
  try {
    const connected_pair pair{kind, 0};
    return {};
  } catch (const std::runtime_error& problem) {
    return problem.what();
  }
}

run_outcome run_socket(const workload& work, socket_kind kind, const socket_shape& shape,
                       const std::vector<int>& cpus, socket_buffers& granted) {
  const connected_pair pair{kind, shape.buffer_bytes};
  granted = pair.buffers();
  constexpr std::array tasks{task::socket_reader, task::socket_writer};
  return run_workers(shaped(work, pair, shape), tasks, {.cpus = cpus, .label = {}});
}

run_outcome run_socket_round_trip(const workload& work, socket_kind kind,
                                  const std::vector<int>& cpus) {
  const connected_pair pair{kind, 0};
  workload ping = work;
  ping.sockets = pair.descriptors();
  constexpr std::array tasks{task::socket_ping, task::socket_pong};
  return run_workers(ping, tasks, {.cpus = cpus, .label = {}});
}

void socket_limit::measure(const workload& work, const std::vector<int>& cpus) {
  if (interrupted()) {
    return;
  }
  const connected_pair pair{kind_, shape_.buffer_bytes};
  buffers_ = pair.buffers();
  constexpr std::array tasks{task::frame_receiver, task::frame_sender};
  series_.add(run_workers(shaped(work, pair, shape_), tasks, {.cpus = cpus, .label = name()}));
}

std::unique_ptr<yardstick> socket_limit::of_rounds(const std::vector<std::size_t>& rounds) const {
  auto made = std::make_unique<socket_limit>(*this);
  made->series_ = select(series_, rounds);
  return made;
}

}  // namespace atbus::bench
