// What encrypts the links of a node. It may be replaced while the node runs: links that begin from then on use what is
// new.
//
// One thread.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "atbus/status.hpp"

namespace atbus::detail {

class link_keys {
 public:
  link_keys(const link_keys&) = delete;
  link_keys& operator=(const link_keys&) = delete;
  virtual ~link_keys() = default;

  // Why the certificates of the options can't be used; no error: they can, or there are none.
  [[nodiscard]] virtual const error& fault() const noexcept = 0;
  // Not where the node has certificates. Errors: as tls_credentials::from_tokens; then nothing has changed.
  virtual error use_tokens(std::span<const std::string> secrets) = 0;
  // Reads the files of the certificates again. Errors: as tls_credentials::from_files; then nothing has changed.
  virtual error read_certificates() = 0;
  // When this node's certificate expires; nothing without one.
  [[nodiscard]] virtual std::optional<std::chrono::system_clock::time_point> expires()
      const noexcept = 0;

 protected:
  link_keys() = default;
};

}  // namespace atbus::detail
