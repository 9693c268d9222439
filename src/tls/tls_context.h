// What the TLS sessions of a thread share: who this end is, and whom it trusts.
//
// Made once from secrets or from certificates, then immutable; to rotate, make another one. Sessions keep
// the context that they began with.
//
// Guarantees:
//  - TLS 1.3 only, with forward secrecy (X25519 or P-256), without tickets, early data and compression.
//  - With secrets, both ends prove that they have the same one. A certificate never replaces that.
//  - Secrets and keys are wiped when the context ends, and are in no error text.
//  - Files are read while the context is made, never later. Nothing is asked of a terminal.
//
// Any number of threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "atbus/bytes.hpp"
#include "atbus/status.hpp"
#include "system/secret_bytes.h"
#include "tls/tls_wire.h"

struct ssl_st;
struct ssl_ctx_st;
struct ssl_cipher_st;
struct ssl_session_st;
struct evp_md_st;
struct x509_st;

namespace atbus::detail {

// Names of PEM files, and how strict this end is.
struct tls_certificate_files {
  std::string chain;      // own certificate, then those up to the CA; empty: none, for a client
  std::string key;        // of the first certificate in `chain`
  std::string authority;  // the CAs that the peer's certificate must come from
  bool verify_peer = true;
  bool require_peer_certificate = true;  // of a client; a server always needs one
};

// What the callbacks of a context note in a session.
struct tls_session_notes {
  bool unknown_identity = false;  // the client has offered a secret that this end does not have
};

class tls_context {
  struct passkey {};

 public:
  // `secrets`: at least one, none empty. A client offers the first; a server accepts any. Errors:
  // invalid_argument, out_of_memory, system_error (OpenSSL refuses its own defaults).
  [[nodiscard]] static result<std::shared_ptr<const tls_context>> from_secrets(
      std::span<const bytes_view> secrets) noexcept;
  // Errors, which name the file: not_found, denied, system_error (can't be read), invalid_argument (no PEM,
  // expired, not valid yet, the key is another one's, too weak), out_of_memory.
  [[nodiscard]] static result<std::shared_ptr<const tls_context>> from_files(
      const tls_certificate_files& files) noexcept;

  explicit tls_context(passkey) noexcept {}
  tls_context(const tls_context&) = delete;
  tls_context& operator=(const tls_context&) = delete;
  ~tls_context();

  [[nodiscard]] bool uses_secrets() const noexcept { return !psks_.empty(); }
  // Whether it has what a server needs.
  [[nodiscard]] bool can_accept() const noexcept { return uses_secrets() || has_certificate_; }
  [[nodiscard]] bool verifies_peer() const noexcept { return verifies_peer_; }
  [[nodiscard]] bool requires_peer_certificate() const noexcept { return requires_certificate_; }
  // When the first certificate of the own chain expires; nothing if there is no chain.
  [[nodiscard]] std::optional<std::chrono::system_clock::time_point> expires() const noexcept {
    return expires_;
  }

  // --- for sessions

  [[nodiscard]] ssl_ctx_st& get() const noexcept { return *context_; }
  [[nodiscard]] const bio_method_st& method() const noexcept { return *method_; }
  // The handshake of that session is done: OpenSSL has its keys, and would keep the secret's.
  static void forget_secret(ssl_st& of) noexcept;

 private:
  struct context_free {
    void operator()(ssl_ctx_st* context) const noexcept;
  };
  struct psk {
    std::string identity;
    secret_bytes key;
  };

  [[nodiscard]] error begin(bool with_secrets);
  [[nodiscard]] error add_secret(bytes_view secret);
  [[nodiscard]] error use_chain(const tls_certificate_files& files);
  [[nodiscard]] error use_authority(const std::string& path);
  // What OpenSSL takes for a secret, for one handshake: it overwrites the key there. Null: there is no memory.
  [[nodiscard]] ssl_session_st* make_session(const psk& from) const noexcept;
  static int find_psk(ssl_st* ssl, const unsigned char* identity, std::size_t size,
                      ssl_session_st** found) noexcept;
  static int use_psk(ssl_st* ssl, const evp_md_st* hash, const unsigned char** identity,
                     std::size_t* size, ssl_session_st** used) noexcept;

  bio_method method_;
  std::unique_ptr<ssl_ctx_st, context_free> context_;
  std::vector<psk> psks_;
  const ssl_cipher_st* cipher_ = nullptr;  // of secrets; a constant of the library's
  std::optional<std::chrono::system_clock::time_point> expires_;
  bool has_certificate_ = false;
  bool verifies_peer_ = true;
  bool requires_certificate_ = true;
};

}  // namespace atbus::detail
