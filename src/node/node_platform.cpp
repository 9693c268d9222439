#include "node/node_platform.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include "atbus/clock.hpp"
#include "node/link/channels.h"
#include "system/kernel.h"

namespace atbus::detail {
namespace {

class system_random final : public random_source {
 public:
  void fill(std::span<std::byte> bytes) noexcept override;
};

void system_random::fill(std::span<std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    else if (errno != EINTR)
      std::abort();  // since Linux 3.17 it can't fail
  }
}

// Equal on processes that can share memory and Unix sockets, as far as can be told.
host_identity this_host() noexcept {
  host_identity id{};
  char text[64] = {};
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return id;
  const ssize_t got = read(fd, text, sizeof text);
  ::close(fd);
  // A UUID: 32 hexadecimal digits with dashes in between.
  std::size_t nibble = 0;
  for (ssize_t i = 0; i < got && nibble < 2 * id.size(); ++i) {
    const char c = text[i];
    const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (value < 0)
      continue;
    id[nibble / 2] |= static_cast<std::byte>(value << (nibble % 2 == 0 ? 4 : 0));
    ++nibble;
  }
  return id;
}

result<tls_credentials> credentials_of(const node_options& options) {
  return options.certificates().chain.empty() ? tls_credentials::from_tokens(options.tokens())
                                              : tls_credentials::from_files(options.certificates());
}

class machine_keys final : public link_keys {
 public:
  machine_keys(tls_files files, tls_credentials used, error fault)
      : files_(std::move(files)),
        used_(std::move(used)),
        fault_(files_.chain.empty() ? error{} : std::move(fault)) {}

  [[nodiscard]] const error& fault() const noexcept override { return fault_; }

  error use_tokens(std::span<const std::string> secrets) override {
    if (!files_.chain.empty() || !used_)
      return {};
    const auto fresh = tls_credentials::from_tokens(secrets);
    return fresh ? used_.replace(*fresh) : fresh.error();
  }
  error read_certificates() override {
    const auto fresh = tls_credentials::from_files(files_);
    return fresh ? used_.replace(*fresh) : fresh.error();
  }
  [[nodiscard]] std::optional<std::chrono::system_clock::time_point> expires()
      const noexcept override {
    return used_.expires();
  }

 private:
  const tls_files files_;
  const tls_credentials used_;  // by the channels too
  const error fault_;
};

channels_options to_channels_options(const node_options& options) {
  channels_options wanted;
  wanted.streams.message_limit = routed_size(
      std::max<std::size_t>(options.message_limit() + message_head_size, control_size_max));
  wanted.streams.send_buffer_size = options.send_buffer_size();
  if (options.send_buffer_number() != 0) {
    wanted.streams.buffer = send_buffer_kind::fixed;
    wanted.streams.send_buffer_number = options.send_buffer_number();
  }
  if (!options.tokens().empty() || !options.certificates().chain.empty()) {
    auto tls = credentials_of(options);
    if (tls)
      wanted.streams.socket.tls = std::move(*tls);
    else
      wanted.streams.no_tls = tls.error();
  }
  wanted.streams.socket.carrier = options.carrier();
  wanted.streams.confirm_timeout = options.first_idle_timeout();
  static_assert(node_options::write_delay_max == connection_set_options::write_delay_max);
  wanted.streams.write_delay = options.write_delay();
  wanted.streams.connections = options.connections();
  wanted.streams.unconfirmed = options.unconfirmed();
  wanted.streams.strangers = options.strangers();
  wanted.lanes.message_limit = wanted.streams.message_limit;
  return wanted;
}

class machine_platform final : public node_platform {
 public:
  explicit machine_platform(const node_options& options)
      : machine_platform(options, to_channels_options(options)) {}

  [[nodiscard]] node_environment environment() noexcept override {
    return {system_clock_source(), random_, channels_, this_host(), &keys_, open_tap_lane};
  }
  bool sleep(std::chrono::nanoseconds longest) override {
    epoll_event event;
    return kernel().epoll_wait(channels_.descriptor(), &event, 1, longest.count()) != 0;
  }
  [[nodiscard]] bool has_reports() const noexcept override { return true; }
  [[nodiscard]] std::chrono::nanoseconds spin() const noexcept override {
    return std::chrono::microseconds{50};
  }

 private:
  machine_platform(const node_options& options, const channels_options& wanted)
      : keys_(options.certificates(), wanted.streams.socket.tls, wanted.streams.no_tls),
        channels_(wanted) {}

  system_random random_;
  machine_keys keys_;
  channels channels_;
};

}  // namespace

std::shared_ptr<node_platform> make_machine_platform(const node_options& options) {
  return std::make_shared<machine_platform>(options);
}

}  // namespace atbus::detail
