#include "atbus/status_server.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <utility>

#include "atbus/node.hpp"
#include "http/http_server.h"
#include "http/listen_address.h"
#include "http/status_pages.h"

namespace atbus {
namespace detail {

class status_service {
 public:
  explicit status_service(status_subject of) : pages_(std::move(of)) {}

  error listen(const listen_address& at, const http_limits& limits) {
    auto made = http_server::open(
        at, limits, [this](std::string_view path) -> const http_reply& { return pages_.at(path); });
    if (!made)
      return made.error();
    server_ = std::move(*made);
    address_ = server_->address().to_string();
    return {};
  }

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return server_->address().port(); }
  // This process has been forked off the one that made it.
  [[nodiscard]] bool is_of_parent() const noexcept { return process_ != getpid(); }

 private:
  const pid_t process_ = getpid();
  status_pages pages_;
  std::string address_;
  std::unique_ptr<http_server> server_;  // ends before what it answers with
};

}  // namespace detail

error status_server_options::check() const {
  constexpr std::size_t peers_limit = 4096;
  constexpr unsigned connections_limit = 512;
  if (const auto where = detail::parse_listen_address(listen); !where)
    return where.error();
  if (peers < 1 || peers > peers_limit)
    return {errc::invalid_argument, "peers: 1 to 4096 are possible"};
  if (connections < 1 || connections > connections_limit)
    return {errc::invalid_argument, "connections: 1 to 512 are possible"};
  if (connections_per_address < 1)
    return {errc::invalid_argument, "connections_per_address: at least 1 is needed"};
  if (connection_timeout < std::chrono::milliseconds{1} ||
      connection_timeout > std::chrono::hours{1})
    return {errc::invalid_argument, "connection_timeout: 1 ms to 1 hour are possible"};
  return {};
}

result<status_server> status_server::open(const node& of, const status_server_options& options) {
  return open(of.id(), of.incarnation(), options);
}

result<status_server> status_server::open(bus_id id, std::uint64_t incarnation,
                                          const status_server_options& options) {
  if (error bad = options.check(); !bad)
    return bad;
  const auto report = find_node_report(id, incarnation, options.report_directory);
  if (!report)
    return report.error();
  try {
    auto service = std::make_unique<detail::status_service>(
        detail::status_subject{.id = id,
                               .incarnation = incarnation,
                               .directory = options.report_directory,
                               .needs_parent = options.needs_parent,
                               .peers_max = options.peers});
    const detail::http_limits limits{.connections = options.connections,
                                     .connections_per_address = options.connections_per_address,
                                     .connection_timeout = options.connection_timeout};
    if (error bad = service->listen(*detail::parse_listen_address(options.listen), limits); !bad)
      return bad;
    return status_server{std::move(service)};
  } catch (const std::bad_alloc&) {
    return error{errc::out_of_memory};
  }
}

status_server::status_server(std::unique_ptr<detail::status_service> service) noexcept
    : service_(std::move(service)) {}
status_server::status_server(status_server&& from) noexcept = default;
status_server& status_server::operator=(status_server&& from) noexcept {
  status_server taken{std::move(from)};
  std::swap(service_, taken.service_);
  return *this;
}
status_server::~status_server() {
  // The child has no thread to end, and may have locks that are held for ever.
  if (service_ != nullptr && service_->is_of_parent())
    (void)service_.release();
}

const std::string& status_server::address() const noexcept {
  return service_->address();
}
std::uint16_t status_server::port() const noexcept {
  return service_->port();
}

}  // namespace atbus
