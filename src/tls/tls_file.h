// Certificates and keys in PEM files. Errors name the file and say what to do.
//
// Only for the sources of this folder: the one header besides tls_handle.h that includes OpenSSL.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "atbus/status.hpp"
#include "tls/tls_handle.h"

namespace atbus::detail {

inline constexpr std::size_t pem_file_max = 1024 * 1024;  // bytes
// Certificates of one's own chain.
inline constexpr std::size_t chain_length_max = 16;

using time_of_day = std::chrono::system_clock::time_point;

// At least one certificate, in the order of the file. Errors: not_found, denied, system_error (can't be read),
// invalid_argument (no certificate in it, or a damaged one), out_of_memory. All may throw std::bad_alloc.
[[nodiscard]] result<std::vector<certificate_handle>> read_certificates(const std::string& path);
// The private key. The same errors. One that is protected by a password is refused; nobody is asked for it.
[[nodiscard]] result<key_handle> read_private_key(const std::string& path);

// The end of a certificate's validity.
[[nodiscard]] std::optional<time_of_day> expiry_of(const X509& certificate) noexcept;
// Whether it is valid now. `path` is for the text.
[[nodiscard]] error check_validity(const X509& certificate, const std::string& path);

}  // namespace atbus::detail
