#include "tls/tls_socket.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "core/text.h"
#include "system/kernel.h"
#include "tls/tls_failure.h"
#include "tls/tls_file.h"

namespace atbus::detail {
namespace {

// OpenSSL's read buffer: most ciphertext of one recv. doc/design/tls.md has the figures.
constexpr std::size_t read_buffer_size = 64 * 1024;
// Most bytes that a peer may send before it has proven who it is. OpenSSL itself allows a ClientHello of 128
// KiB and many empty records.
constexpr std::size_t handshake_bytes_max = 32 * 1024;
constexpr std::size_t handshake_bytes_max_with_certificates = 96 * 1024;
// Key updates and other messages without data in a row. A correct peer sends one at a time.
constexpr std::uint32_t silence_max = 64;

using general_names = std::unique_ptr<GENERAL_NAMES, openssl_free<GENERAL_NAMES_free>>;

bool is_ip_address(const std::string& text) noexcept {
  std::array<std::byte, sizeof(in6_addr)> parsed;
  return inet_pton(AF_INET, text.c_str(), parsed.data()) == 1 ||
         inet_pton(AF_INET6, text.c_str(), parsed.data()) == 1;
}

void add_name(std::vector<std::string>& names, std::string_view kind, const ASN1_STRING* name) {
  const std::string_view text{reinterpret_cast<const char*>(ASN1_STRING_get0_data(name)),
                              static_cast<std::size_t>(ASN1_STRING_length(name))};
  if (!text.empty() && std::ranges::all_of(text, is_printable))
    names.push_back(std::string{kind} + std::string{text});
}

void add_ip(std::vector<std::string>& names, const ASN1_STRING* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int size = ASN1_STRING_length(address);
  if ((size == sizeof(in_addr) || size == sizeof(in6_addr)) &&
      inet_ntop(size == sizeof(in_addr) ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address),
                text.data(), text.size()) != nullptr)
    names.push_back(std::string{"IP:"} + text.data());
}

}  // namespace

// What is still to be encrypted of a list of pieces.
class plaintext {
 public:
  explicit plaintext(std::span<const iovec> parts) noexcept : parts_(parts) { skip_empty(); }

  [[nodiscard]] bool empty() const noexcept { return parts_.empty(); }
  // The next bytes of one record. Copied to `place` if they lie in several pieces.
  [[nodiscard]] bytes_view next(std::span<std::byte, tls_record_plain_max> place) const noexcept {
    const std::size_t first = std::min(parts_[0].iov_len - done_, place.size());
    const auto* const from = static_cast<const std::byte*>(parts_[0].iov_base) + done_;
    if (first == place.size() || parts_.size() == 1)
      return {from, first};
    std::memcpy(place.data(), from, first);
    std::size_t filled = first;
    for (const iovec& part : parts_.subspan(1)) {
      const std::size_t size = std::min(part.iov_len, place.size() - filled);
      if (size != 0)
        std::memcpy(place.data() + filled, part.iov_base, size);
      filled += size;
      if (filled == place.size())
        break;
    }
    return place.first(filled);
  }
  void taken(std::size_t bytes) noexcept {
    while (bytes != 0) {
      const std::size_t size = std::min(bytes, parts_[0].iov_len - done_);
      done_ += size;
      bytes -= size;
      skip_empty();
    }
  }

 private:
  void skip_empty() noexcept {
    while (!parts_.empty() && parts_[0].iov_len == done_) {
      parts_ = parts_.subspan(1);
      done_ = 0;
    }
  }

  std::span<const iovec> parts_;
  std::size_t done_ = 0;  // bytes of the first part
};

void tls_socket::session_free::operator()(ssl_st* session) const noexcept {
  SSL_free(session);
}

tls_socket::tls_socket(passkey /*key*/, std::shared_ptr<const tls_context> context,
                       tls_buffers& buffers) noexcept
    : context_(std::move(context)), wire_(buffers) {}

tls_socket::~tls_socket() = default;

result<std::unique_ptr<tls_socket>> tls_socket::make(std::shared_ptr<const tls_context> context,
                                                     tls_buffers& buffers, tls_role role,
                                                     const std::string& expected_host) noexcept
    try {
  assert(context != nullptr);
  if (role == tls_role::server && !context->can_accept())
    return error{errc::invalid_argument, "a TLS server needs a certificate or a secret"};
  auto made = std::make_unique<tls_socket>(passkey{}, std::move(context), buffers);
  if (error problem = made->begin(role, expected_host); !problem)
    return problem;
  return made;
} catch (const std::bad_alloc&) {
  return error{errc::out_of_memory};
}

error tls_socket::begin(tls_role role, const std::string& expected_host) {
  ERR_clear_error();
  session_.reset(SSL_new(&context_->get()));
  if (session_ == nullptr)
    return take_library_failure("can't make a TLS session");
  SSL* const ssl = session_.get();
  BIO* const bio = wire_.make_bio(context_->method());
  if (bio == nullptr)
    return take_library_failure("can't make a TLS session");
  SSL_set_bio(ssl, bio, bio);
  SSL_set_app_data(ssl, &notes_);
  const bool is_client = role == tls_role::client;
  // A client with a secret trusts no CA, so that no certificate can replace the secret.
  int verified = SSL_VERIFY_NONE;
  if (is_client ? context_->uses_secrets() || context_->verifies_peer()
                : !context_->uses_secrets() && context_->verifies_peer()) {
    verified = SSL_VERIFY_PEER;
    if (!is_client && context_->requires_peer_certificate())
      verified |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  }
  SSL_set_verify(ssl, verified, nullptr);
  if (is_client && !context_->uses_secrets() && !expected_host.empty()) {
    const bool is_ip = is_ip_address(expected_host);
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (is_ip ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), expected_host.c_str()) != 1
              : SSL_set1_host(ssl, expected_host.c_str()) != 1 ||
                    SSL_set_tlsext_host_name(ssl, expected_host.c_str()) != 1)
      return take_library_failure(("can't expect the host " + in_quotes(expected_host)).c_str());
  }
  if (is_client)
    SSL_set_connect_state(ssl);
  else
    SSL_set_accept_state(ssl);
  begun_ = !is_client;  // a server waits for the client
  return {};
}

void tls_socket::fail(int fd, error why) noexcept {
  if (state_ != state::failed) {
    state_ = state::failed;
    why_ = std::move(why);
  }
  // The alert goes out behind what is pending, or not at all.
  (void)wire_.send_pending(fd);
  wire_.drop_pending();
}

void tls_socket::fail_as_queued(int fd) noexcept {
  fail(fd, take_session_failure(*session_, notes_, context_->uses_secrets()));
}

bool tls_socket::settle_handshake(int fd) noexcept {
  SSL* const ssl = session_.get();
  // A second look: OpenSSL counts a secret as a resumed session.
  if (context_->uses_secrets() && SSL_session_reused(ssl) != 1) {
    fail(fd, {errc::denied, "the other end does not use the shared secret"});
    return false;
  }
  if (context_->uses_secrets())
    tls_context::forget_secret(*ssl);
  state_ = state::established;
  SSL_set_default_read_buffer_len(ssl, read_buffer_size);
  SSL_set_msg_callback(ssl, message_seen);
  SSL_set_msg_callback_arg(ssl, this);
  (void)wire_.send_pending(fd);
  return true;
}

bool tls_socket::advance(int fd, bool reads) noexcept {
  if (is_open())
    return true;
  if (state_ != state::handshaking) {
    errno = state_ == state::failed ? EPROTO : EBADF;
    return false;
  }
  if (!wire_.open_output()) {
    errno = ENOMEM;
    return false;
  }
  begun_ = true;
  const std::size_t most =
      context_->uses_secrets() ? handshake_bytes_max : handshake_bytes_max_with_certificates;
  wire_.allow_reading(fd, reads ? most - std::min(most, wire_.bytes_read()) : 0);
  while (true) {
    ERR_clear_error();
    const int done = SSL_do_handshake(session_.get());
    if (done == 1)
      return settle_handshake(fd);
    switch (SSL_get_error(session_.get(), done)) {
      case SSL_ERROR_WANT_WRITE:
        if (!wire_.send_pending(fd))
          return false;
        if (!wire_.open_output()) {
          errno = ENOMEM;
          return false;
        }
        break;
      case SSL_ERROR_WANT_READ:
        if (!wire_.asked_in_vain())
          break;
        if (wire_.bytes_read() >= most) {
          fail(fd, {errc::protocol_error, "the other end's handshake is too long"});
          errno = EPROTO;
          return false;
        }
        if (const bool sent = wire_.send_pending(fd); wire_.at_end())
          errno = EPIPE;
        else if (sent || !is_out_of_memory(errno))
          errno = EAGAIN;
        if (const int code = wire_.take_read_error(); code != 0)
          errno = code;
        return false;
      case SSL_ERROR_ZERO_RETURN:
        fail(fd, {errc::peer_closed, "the other end has ended TLS inside the handshake"});
        errno = EPROTO;
        return false;
      default:
        fail_as_queued(fd);
        errno = EPROTO;
        return false;
    }
  }
}

void tls_socket::message_seen(int writing, int /*version*/, int type, const void* bytes,
                              std::size_t size, ssl_st* session, void* self) noexcept {
  if (writing != 0 || type != SSL3_RT_HANDSHAKE || size == 0)
    return;
  auto& of = *static_cast<tls_socket*>(self);
  ++of.silence_;
  if (*static_cast<const unsigned char*>(bytes) != SSL3_MT_KEY_UPDATE)
    of.unexpected_ = true;
  // OpenSSL goes on with the messages in its read buffer, of which there may be thousands. It stops at the
  // next one if it believes that the peer has ended.
  if (of.unexpected_ || of.silence_ > silence_max)
    SSL_set_shutdown(session, SSL_get_shutdown(session) | SSL_RECEIVED_SHUTDOWN);
}

bool tls_socket::accepts_silence(int fd) noexcept {
  if (unexpected_) {
    fail(fd,
         {errc::protocol_error, "the other end has sent a handshake message after the handshake"});
    return false;
  }
  if (silence_ > silence_max) {
    fail(fd, {errc::protocol_error, "the other end renews its keys again and again without data"});
    return false;
  }
  return true;
}

std::size_t tls_socket::read_records(int fd, mutable_bytes place) noexcept {
  wire_.allow_reading(fd, place.size());
  std::size_t filled = 0;
  starved_ = false;
  std::uint32_t steps = 0;  // without data, so that the loop ends whatever OpenSSL does
  while (filled != place.size() && steps <= silence_max) {
    ERR_clear_error();
    std::size_t n = 0;
    const int done = SSL_read_ex(session_.get(), place.data() + filled, place.size() - filled, &n);
    if (done == 1) {
      filled += n;
      silence_ = 0;
      steps = 0;
      // OpenSSL would allocate a read buffer only to find this out.
      if (wire_.drained() && SSL_has_pending(session_.get()) == 0)
        break;
      continue;
    }
    const int cause = SSL_get_error(session_.get(), done);
    if (cause != SSL_ERROR_WANT_READ && cause != SSL_ERROR_WANT_WRITE &&
        cause != SSL_ERROR_ZERO_RETURN) {
      fail_as_queued(fd);
      break;
    }
    // Answers fill the output buffer. Waiting for room would leave bytes in the kernel that wake the owner again
    // and again.
    if (cause == SSL_ERROR_WANT_WRITE && wire_.pending() != 0) {
      fail(fd, {errc::protocol_error, "the other end renews its keys and reads no answer"});
      break;
    }
    if (!accepts_silence(fd))
      break;
    starved_ = cause == SSL_ERROR_WANT_WRITE;
    peer_ended_ = cause == SSL_ERROR_ZERO_RETURN;
    if (cause != SSL_ERROR_WANT_READ || wire_.asked_in_vain())
      break;
    ++steps;
  }
  waits_for_peer_ = SSL_in_init(session_.get()) != 0;
  return filled;
}

ssize_t tls_socket::nothing_read() noexcept {
  if (state_ == state::failed) {
    errno = EPROTO;
    return -1;
  }
  if (const int code = wire_.take_read_error(); code != 0) {
    errno = code;
    return -1;
  }
  if (starved_) {
    errno = ENOMEM;
    return -1;
  }
  if (peer_ended_ || wire_.at_end())
    return 0;
  errno = EAGAIN;
  return -1;
}

ssize_t tls_socket::read(int fd, mutable_bytes place) noexcept {
  assert(!place.empty());
  if (!advance(fd, true))
    return state_ == state::handshaking && wire_.at_end() ? 0 : -1;
  const std::size_t filled = peer_ended_ ? 0 : read_records(fd, place);
  // Answers to key updates.
  if (pending() != 0 && is_open())
    (void)wire_.send_pending(fd);
  return filled != 0 ? static_cast<ssize_t>(filled) : nothing_read();
}

bool tls_socket::holds_unread() const noexcept {
  return is_open() && !peer_ended_ && SSL_has_pending(session_.get()) == 1;
}

bool tls_socket::prepare_keys(int fd) noexcept {
  if (records_ < records_per_key)
    return true;
  // Until the peer's own message is complete, OpenSSL can't write one.
  if (SSL_in_init(session_.get()) != 0)
    return true;
  ERR_clear_error();
  if (SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
    fail_as_queued(fd);
    errno = EPROTO;
    return false;
  }
  records_ = 0;
  return true;
}

std::size_t tls_socket::write_record(int fd, plaintext& from) noexcept {
  if (!prepare_keys(fd))
    return 0;
  std::array<std::byte, tls_record_plain_max> place;
  const bytes_view record = from.next(place);
  ERR_clear_error();
  std::size_t n = 0;
  const int done = SSL_write_ex(session_.get(), record.data(), record.size(), &n);
  if (done == 1) {
    ++records_;
    wire_.end_record(n);
    from.taken(n);
    return n;
  }
  // Part of the peer's key update is missing. Nothing of the record has been taken, because there is room
  // for it.
  if (SSL_get_error(session_.get(), done) == SSL_ERROR_WANT_READ) {
    waits_for_peer_ = true;
    errno = EAGAIN;
    return 0;
  }
  fail_as_queued(fd);
  errno = EPROTO;
  return 0;
}

ssize_t tls_socket::write(int fd, std::span<const iovec> parts) noexcept {
  if (!flush(fd))
    return -1;
  if (ended_writing_) {
    errno = EPIPE;
    return -1;
  }
  constexpr std::size_t room_for_record = tls_record_plain_max + tls_record_added_max + 1024;
  wire_.allow_reading(fd, 0);
  plaintext from{parts};
  std::size_t taken = 0;
  while (!from.empty()) {
    if (!wire_.open_output()) {
      errno = ENOMEM;
      break;
    }
    std::size_t n = 1;
    while (!from.empty() && wire_.room() >= room_for_record && n != 0) {
      n = write_record(fd, from);
      taken += n;
    }
    const int code = errno;
    if (!wire_.send_pending(fd))
      break;
    if (n == 0) {
      errno = code;
      break;
    }
  }
  return taken != 0 || parts.empty() ? static_cast<ssize_t>(taken) : -1;
}

bool tls_socket::flush(int fd) noexcept {
  return advance(fd, false) && wire_.send_pending(fd);
}

void tls_socket::shut_down(int fd) noexcept {
  if (!is_open() || std::exchange(ended_writing_, true))
    return;
  ERR_clear_error();
  (void)SSL_shutdown(session_.get());
  ERR_clear_error();
  (void)wire_.send_pending(fd);
  end_writing();  // nothing can leave behind the end of the stream
}

bool tls_socket::export_key(std::string_view label, std::span<std::byte, 32> key) const noexcept {
  if (!is_open())
    return false;
  ERR_clear_error();
  const bool done =
      SSL_export_keying_material(session_.get(), reinterpret_cast<unsigned char*>(key.data()),
                                 key.size(), label.data(), label.size(), nullptr, 0, 0) == 1;
  ERR_clear_error();
  return done;
}

const X509* tls_socket::peer_certificate() const noexcept {
  return is_open() && context_->verifies_peer() ? SSL_get0_peer_certificate(session_.get())
                                                : nullptr;
}

bool tls_socket::has_peer_certificate() const noexcept {
  return peer_certificate() != nullptr;
}

bool tls_socket::is_trusted_by(const tls_context& context) const noexcept {
  if (peer_certificate() == nullptr)
    return true;
  ERR_clear_error();
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> check{X509_STORE_CTX_new(),
                                                                              &X509_STORE_CTX_free};
  // What can't be found out for want of memory is no reason to end a link.
  if (check == nullptr ||
      X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(&context.get()),
                          SSL_get0_peer_certificate(session_.get()),
                          SSL_get_peer_cert_chain(session_.get())) != 1 ||
      X509_STORE_CTX_set_default(
          check.get(), SSL_is_server(session_.get()) == 1 ? "ssl_client" : "ssl_server") != 1) {
    ERR_clear_error();
    return true;
  }
  const bool trusted = X509_verify_cert(check.get()) == 1 ||
                       X509_STORE_CTX_get_error(check.get()) == X509_V_ERR_OUT_OF_MEM;
  ERR_clear_error();
  return trusted;
}

std::vector<std::string> tls_socket::peer_names() const {
  std::vector<std::string> names;
  const X509* const certificate = peer_certificate();
  if (certificate == nullptr)
    return names;
  ERR_clear_error();
  const general_names found{static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr))};
  for (int i = 0; found != nullptr && i < sk_GENERAL_NAME_num(found.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(found.get(), i);
    if (name->type == GEN_DNS)
      add_name(names, "DNS:", name->d.dNSName);
    else if (name->type == GEN_URI)
      add_name(names, "URI:", name->d.uniformResourceIdentifier);
    else if (name->type == GEN_IPADD)
      add_ip(names, name->d.iPAddress);
  }
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at >= 0)
    add_name(names, "CN:", X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  ERR_clear_error();
  return names;
}

std::optional<std::chrono::system_clock::time_point> tls_socket::peer_expires() const noexcept {
  const X509* const certificate = peer_certificate();
  return certificate == nullptr ? std::nullopt : expiry_of(*certificate);
}

std::string_view tls_socket::cipher() const noexcept {
  return is_open() ? SSL_get_cipher_name(session_.get()) : "";
}

std::string_view tls_socket::version() const noexcept {
  return is_open() ? SSL_get_version(session_.get()) : "";
}

}  // namespace atbus::detail
