// Asks for a host's addresses without blocking: libuv's worker threads do the waiting.
//
// One thread; another object, another loop. Destroying it in the middle is safe and does not wait:
// what libuv still works on lives until it is done.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "atbus/status.hpp"
#include "system/socket.h"

namespace atbus::detail {

class dns_lookup {
 public:
  // Begins. Errors: system_error (no descriptors, libuv's reason).
  [[nodiscard]] static result<std::unique_ptr<dns_lookup>> start(const std::string& host,
                                                                 std::uint16_t port);
  dns_lookup(const dns_lookup&) = delete;
  dns_lookup& operator=(const dns_lookup&) = delete;
  ~dns_lookup();

  // Becomes readable when there is an answer.
  [[nodiscard]] int descriptor() const noexcept;
  // True: done; `found` has the addresses in the order to be tried, or `why` says why there are
  // none (not_found, or system_error for a resolver that does not answer).
  [[nodiscard]] bool poll(std::vector<socket_address>& found, error& why);
  // In a forked child.
  void abandon() noexcept;

 private:
  struct request;
  explicit dns_lookup(request* asked) noexcept : request_(asked) {}

  request* request_;
};

}  // namespace atbus::detail
