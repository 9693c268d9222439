// Looks up a host's addresses without blocking: libuv's worker threads wait.
//
// One thread; each object has a loop of its own. Destroying it early is safe and does not wait: memory that
// libuv still uses lives until libuv has finished.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "atbus/status.hpp"
#include "system/socket.h"

namespace atbus::detail {

class dns_lookup {
 public:
  // Starts the lookup. Errors: system_error (no descriptors, no memory or watch of epoll, or libuv's reason).
  [[nodiscard]] static result<std::unique_ptr<dns_lookup>> start(const std::string& host,
                                                                 std::uint16_t port);
  dns_lookup(const dns_lookup&) = delete;
  dns_lookup& operator=(const dns_lookup&) = delete;
  ~dns_lookup();

  // Becomes readable when there is an answer.
  [[nodiscard]] int descriptor() const noexcept;
  // True: finished. `found` has the addresses in the order to be tried, or `why` has the error (not_found, or
  // system_error if the resolver does not answer).
  [[nodiscard]] bool poll(std::vector<socket_address>& found, error& why) noexcept;
  // For a forked child.
  void abandon() noexcept;

 private:
  struct request;
  struct orphans;
  dns_lookup() noexcept = default;
  static orphans& orphaned();

  request* request_ = nullptr;
};

}  // namespace atbus::detail
