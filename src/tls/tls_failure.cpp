#include "tls/tls_failure.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <new>
#include <string>

namespace atbus::detail {
namespace {

// Of all errors in the queue: the first, the first of the SSL part, and whether memory was lacking.
struct queued_errors {
  unsigned long first = 0;
  unsigned long first_of_ssl = 0;
  bool lacks_memory = false;
};

queued_errors take_queue() noexcept {
  queued_errors taken;
  while (const unsigned long code = ERR_get_error()) {
    if (taken.first == 0)
      taken.first = code;
    if (taken.first_of_ssl == 0 && ERR_GET_LIB(code) == ERR_LIB_SSL)
      taken.first_of_ssl = code;
    taken.lacks_memory |= ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
  }
  taken.lacks_memory |= taken.first == 0;
  return taken;
}

std::string reason_text(unsigned long code) {
  const char* const text = ERR_reason_error_string(code);
  return text == nullptr ? "error " + std::to_string(ERR_GET_REASON(code)) : std::string{text};
}

// Reasons from here on are alerts of the peer.
constexpr int alert_reason = SSL_AD_REASON_OFFSET;

error refused_by_peer(int reason, bool with_secrets) {
  const int alert = reason - alert_reason;
  if (with_secrets && (alert == SSL_AD_HANDSHAKE_FAILURE || alert == SSL_AD_DECRYPT_ERROR ||
                       alert == SSL_AD_ILLEGAL_PARAMETER || alert == SSL_AD_UNKNOWN_PSK_IDENTITY))
    return {errc::denied,
            "the other end does not know this end's secret, or uses certificates instead"};
  if (alert == SSL_AD_CERTIFICATE_REQUIRED)
    return {errc::denied, "the other end asks for a certificate, and this end has none"};
  const errc cause = alert == SSL_AD_PROTOCOL_VERSION || alert == SSL_AD_DECODE_ERROR ||
                             alert == SSL_AD_UNEXPECTED_MESSAGE || alert == SSL_AD_BAD_RECORD_MAC
                         ? errc::protocol_error
                         : errc::denied;
  return {cause, std::string{"the other end has ended TLS with the alert \""} +
                     SSL_alert_desc_string_long(alert) + '"'};
}

error described(const ssl_st& ssl, unsigned long code, const tls_session_notes& notes,
                bool with_secrets) {
  const int reason = ERR_GET_REASON(code);
  if (ERR_GET_LIB(code) != ERR_LIB_SSL)
    return {errc::protocol_error, "TLS has failed: " + reason_text(code)};
  if (reason > alert_reason && reason <= alert_reason + 255)
    return refused_by_peer(reason, with_secrets);
  switch (reason) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_RECORD_TOO_SMALL:
    case SSL_R_BAD_RECORD_TYPE:
      return {errc::protocol_error,
              "the other end does not speak TLS 1.3; does its address ask for TLS?"};
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      if (with_secrets)
        return {errc::denied,
                "the other end answers with a certificate; this end expects a shared secret"};
      return {errc::denied, std::string{"the certificate of the other end is refused: "} +
                                X509_verify_cert_error_string(SSL_get_verify_result(&ssl))};
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return {errc::denied, "the other end has no certificate, and this end asks for one"};
    case SSL_R_EXCESSIVE_MESSAGE_SIZE:
      return {errc::protocol_error, "the certificates of the other end are too long together"};
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_CIPHER:
      if (with_secrets) {
        return {errc::denied, notes.unknown_identity
                                  ? "the other end's secret is none of this end's"
                                  : "the other end offers no secret; this end expects one"};
      }
      break;
    case SSL_R_BINDER_DOES_NOT_VERIFY:
      return {errc::denied, "the other end names a secret that it does not have"};
    default:
      break;
  }
  return {errc::protocol_error, "TLS has failed: " + reason_text(code)};
}

}  // namespace

error take_library_failure(const char* what) noexcept try {
  const queued_errors taken = take_queue();
  if (taken.lacks_memory)
    return {errc::out_of_memory};
  return {errc::invalid_argument, std::string{what} + ": " + reason_text(taken.first)};
} catch (const std::bad_alloc&) {
  return {errc::out_of_memory};
}

error take_session_failure(const ssl_st& ssl, const tls_session_notes& notes,
                           bool with_secrets) noexcept try {
  const queued_errors taken = take_queue();
  if (taken.lacks_memory)
    return {errc::out_of_memory, "there was no memory for the TLS session"};
  return described(ssl, taken.first_of_ssl != 0 ? taken.first_of_ssl : taken.first, notes,
                   with_secrets);
} catch (const std::bad_alloc&) {
  return {errc::protocol_error, "TLS has failed"};
}

}  // namespace atbus::detail
