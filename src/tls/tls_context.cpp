#include "tls/tls_context.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "core/text.h"
#include "tls/tls_failure.h"
#include "tls/tls_file.h"
#include "tls/tls_handle.h"
#include "tls/tls_secret.h"

namespace atbus::detail {
namespace {

// A peer's whole certificate message, and the CAs between its certificate and the trusted one.
constexpr long peer_chain_bytes_max = 64 * 1024;
constexpr int peer_chain_depth_max = 8;

// OpenSSL knows, but has no function that tells.
bool has_fast_aes() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("pclmul") != 0;
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP) & HWCAP_AES) != 0;
#else
  return false;
#endif
}

// Secrets need a cipher with SHA-256, the hash that their keys are bound to.
const char* cipher_suites(bool with_secrets) noexcept {
  const bool fast_aes = has_fast_aes();
  if (with_secrets) {
    return fast_aes ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                    : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
  }
  return fast_aes ? "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
                  : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";
}

constexpr std::array<unsigned char, 2> aes_128_gcm_sha256 = {0x13, 0x01};

// A client refuses to use a session whose id context is not that of its own SSL_CTX.
constexpr std::array<unsigned char, 5> id_context = {'a', 't', 'b', 'u', 's'};

}  // namespace

void tls_context::context_free::operator()(ssl_ctx_st* context) const noexcept {
  SSL_CTX_free(context);
}

tls_context::~tls_context() = default;

error tls_context::begin(bool with_secrets) {
  ERR_clear_error();
  method_ = tls_wire::make_method();
  context_.reset(SSL_CTX_new(TLS_method()));
  if (method_ == nullptr || context_ == nullptr)
    return take_library_failure("can't set up TLS");
  SSL_CTX* const to = context_.get();
  SSL_CTX_set_app_data(to, this);
  SSL_CTX_set_options(to, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                              SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  // What is for middleboxes of the open Internet, and what would let psk_ke go without forward secrecy.
  SSL_CTX_clear_options(to, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX |
                                SSL_OP_LEGACY_SERVER_CONNECT | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // Without AUTO_RETRY a read returns after each message that is no data, so that they can be counted.
  SSL_CTX_clear_mode(to, SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_mode(to, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(to, 1);
  SSL_CTX_set_session_cache_mode(to, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(to, peer_chain_bytes_max);
  SSL_CTX_set_verify_depth(to, peer_chain_depth_max);
  if (SSL_CTX_set_min_proto_version(to, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(to, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(to, cipher_suites(with_secrets)) != 1 ||
      SSL_CTX_set1_groups_list(to, "X25519:P-256") != 1 || SSL_CTX_set_num_tickets(to, 0) != 1 ||
      SSL_CTX_set_max_early_data(to, 0) != 1 || SSL_CTX_set_recv_max_early_data(to, 0) != 1 ||
      SSL_CTX_set_session_id_context(to, id_context.data(), id_context.size()) != 1)
    return take_library_failure("OpenSSL refuses the settings of TLS 1.3");
  SSL* const any = SSL_new(to);
  cipher_ = any == nullptr ? nullptr : SSL_CIPHER_find(any, aes_128_gcm_sha256.data());
  SSL_free(any);
  return {};
}

// In seconds. Without it OpenSSL takes a secret for a session that was resumed too late, after five minutes.
constexpr long never = static_cast<long>(
    std::min<std::int64_t>(std::int64_t{1} << 40, std::numeric_limits<long>::max() / 2));

error tls_context::add_secret(bytes_view secret) {
  if (secret.size() < tls_secret_size_min || secret.size() > tls_secret_size_max) {
    return {errc::invalid_argument, "a secret for TLS has " + std::to_string(secret.size()) +
                                        " bytes; it needs " + std::to_string(tls_secret_size_min) +
                                        " to " + std::to_string(tls_secret_size_max)};
  }
  tls_secret derived;
  ERR_clear_error();
  if (!derived.derive(secret))
    return take_library_failure("can't derive a key from a secret");
  psks_.push_back({{derived.identity.begin(), derived.identity.end()}, secret_bytes{derived.key}});
  SSL_SESSION* const tried = make_session(psks_.back());
  if (tried == nullptr)
    return take_library_failure("can't use a secret");
  SSL_SESSION_free(tried);
  return {};
}

ssl_session_st* tls_context::make_session(const psk& from) const noexcept {
  SSL_SESSION* const made = SSL_SESSION_new();
  const bytes_view key = from.key.get();
  if (made != nullptr && cipher_ != nullptr &&
      SSL_SESSION_set1_master_key(made, reinterpret_cast<const unsigned char*>(key.data()),
                                  key.size()) == 1 &&
      SSL_SESSION_set1_id_context(made, id_context.data(), id_context.size()) == 1 &&
      SSL_SESSION_set_cipher(made, cipher_) == 1 &&
      SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) == 1 &&
      SSL_SESSION_set_timeout(made, never) == 1)
    return made;
  SSL_SESSION_free(made);  // wipes the key
  return nullptr;
}

result<std::shared_ptr<const tls_context>> tls_context::from_secrets(
    std::span<const bytes_view> secrets) noexcept try {
  if (secrets.empty())
    return error{errc::invalid_argument, "TLS with secrets needs at least one"};
  const auto made = std::make_shared<tls_context>(passkey{});
  if (error problem = made->begin(true); !problem)
    return problem;
  for (const bytes_view secret : secrets) {
    if (error problem = made->add_secret(secret); !problem)
      return problem;
  }
  SSL_CTX_set_psk_find_session_callback(made->context_.get(), find_psk);
  SSL_CTX_set_psk_use_session_callback(made->context_.get(), use_psk);
  return std::shared_ptr<const tls_context>{made};
} catch (const std::bad_alloc&) {
  return error{errc::out_of_memory};
}

void tls_context::forget_secret(ssl_st& of) noexcept {
  constexpr std::array<unsigned char, tls_secret::hash_size> nothing{};
  (void)SSL_SESSION_set1_master_key(SSL_get_session(&of), nothing.data(), nothing.size());
}

int tls_context::find_psk(ssl_st* ssl, const unsigned char* identity, std::size_t size,
                          ssl_session_st** found) noexcept {
  const auto& own = *static_cast<const tls_context*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  const std::string_view wanted{reinterpret_cast<const char*>(identity), size};
  *found = nullptr;
  const auto at = std::ranges::find(own.psks_, wanted, &psk::identity);
  if (at == own.psks_.end()) {
    if (auto* const notes = static_cast<tls_session_notes*>(SSL_get_app_data(ssl)))
      notes->unknown_identity = true;
    return 1;  // goes on without a secret, which fails for lack of a certificate
  }
  *found = own.make_session(*at);
  return *found != nullptr ? 1 : 0;
}

int tls_context::use_psk(ssl_st* ssl, const evp_md_st* hash, const unsigned char** identity,
                         std::size_t* size, ssl_session_st** used) noexcept {
  const auto& own = *static_cast<const tls_context*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  const psk& first = own.psks_.front();
  *used = nullptr;
  // After a HelloRetryRequest the hash is fixed.
  if (hash != nullptr && EVP_MD_get_type(hash) != NID_sha256)
    return 1;
  *used = own.make_session(first);
  if (*used == nullptr)
    return 0;
  *identity = reinterpret_cast<const unsigned char*>(first.identity.data());
  *size = first.identity.size();
  return 1;
}

error tls_context::use_chain(const tls_certificate_files& files) {
  auto chain = read_certificates(files.chain);
  if (!chain)
    return chain.error();
  if (chain->size() > chain_length_max) {
    return {errc::invalid_argument,
            in_quotes(files.chain) + " holds " + std::to_string(chain->size()) +
                " certificates; a chain has at most " + std::to_string(chain_length_max)};
  }
  const auto key = read_private_key(files.key);
  if (!key)
    return key.error();
  X509& own = *chain->front();
  if (error problem = check_validity(own, files.chain); !problem)
    return problem;
  ERR_clear_error();
  if (X509_check_private_key(&own, key->get()) != 1) {
    ERR_clear_error();
    return {errc::invalid_argument, "the key in " + in_quotes(files.key) +
                                        " does not belong to the first certificate in " +
                                        in_quotes(files.chain)};
  }
  if (SSL_CTX_use_certificate(context_.get(), &own) != 1 ||
      SSL_CTX_use_PrivateKey(context_.get(), key->get()) != 1)
    return take_library_failure(("can't use the certificate in " + in_quotes(files.chain)).c_str());
  for (std::size_t i = 1; i != chain->size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context_.get(), (*chain)[i].get()) != 1)
      return take_library_failure(("can't use the chain in " + in_quotes(files.chain)).c_str());
  }
  expires_ = expiry_of(own);
  has_certificate_ = true;
  return {};
}

error tls_context::use_authority(const std::string& path) {
  auto trusted = read_certificates(path);
  if (!trusted)
    return trusted.error();
  ERR_clear_error();
  X509_STORE* const store = SSL_CTX_get_cert_store(context_.get());
  for (const certificate_handle& one : *trusted) {
    if (X509_STORE_add_cert(store, one.get()) != 1)
      return take_library_failure(("can't use the CA in " + in_quotes(path)).c_str());
  }
  return {};
}

result<std::shared_ptr<const tls_context>> tls_context::from_files(
    const tls_certificate_files& files) noexcept try {
  if (files.chain.empty() != files.key.empty()) {
    return error{errc::invalid_argument, files.key.empty()
                                             ? "TLS has a certificate, but no file with its key"
                                             : "TLS has a key, but no file with its certificate"};
  }
  if (files.verify_peer && files.authority.empty()) {
    return error{errc::invalid_argument,
                 "TLS can't verify the other end without a file of trusted CAs"};
  }
  if (files.require_peer_certificate && !files.verify_peer) {
    return error{errc::invalid_argument,
                 "TLS requires a certificate of the other end, but does not verify it"};
  }
  const auto made = std::make_shared<tls_context>(passkey{});
  made->verifies_peer_ = files.verify_peer;
  made->requires_certificate_ = files.require_peer_certificate;
  if (error problem = made->begin(false); !problem)
    return problem;
  if (!files.authority.empty()) {
    if (error problem = made->use_authority(files.authority); !problem)
      return problem;
  }
  if (!files.chain.empty()) {
    if (error problem = made->use_chain(files); !problem)
      return problem;
  }
  return std::shared_ptr<const tls_context>{made};
} catch (const std::bad_alloc&) {
  return error{errc::out_of_memory};
}

}  // namespace atbus::detail
