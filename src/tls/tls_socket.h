// One TLS session over a non-blocking TCP socket that the caller holds.
//
// read and write take the place of recv and writev: they count plaintext, and fail with errno as those do.
//
// Guarantees:
//  - Never blocks, never raises SIGPIPE, never throws.
//  - The handshake runs inside read, write and flush. Before it is done, write takes nothing.
//  - Only read takes bytes from the socket. Where write or flush did, records could wait here unseen by epoll.
//  - Bytes are handed out only after their record has been authenticated. What a peer did before it broke
//    the protocol is still read.
//  - Memory has a bound that the peer can't move: one read buffer and one write buffer of OpenSSL, one
//    tls_output. An idle session has none of them.
//  - Its own keys are renewed before they are worn out (RFC 8446, 5.5).
//
// The owner watches the socket for EPOLLOUT while wants_write(), and while can_write() and it has more to
// write. OpenSSL may hold complete records that epoll does not know of: after a read that filled its whole
// place the owner reads again (holds_unread()).
//
// One thread, which is that of its buffers.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/bytes.hpp"
#include "atbus/status.hpp"
#include "tls/tls_context.h"
#include "tls/tls_wire.h"

namespace atbus::detail {

enum class tls_role : std::uint8_t { client, server };

class tls_socket {
  struct passkey {};

 public:
  // `buffers` outlive the session. `expected_host`: the name or IP address that the server's certificate must have; only for a client that
  // verifies. Empty: any certificate of the CA is accepted, and peer_names() tells whose it is. Errors:
  // invalid_argument (no server can be made of this context, no such name), out_of_memory.
  [[nodiscard]] static result<std::unique_ptr<tls_socket>> make(
      std::shared_ptr<const tls_context> context, tls_buffers& buffers, tls_role role,
      const std::string& expected_host = {}) noexcept;

  tls_socket(passkey, std::shared_ptr<const tls_context> context, tls_buffers& buffers) noexcept;
  tls_socket(const tls_socket&) = delete;
  tls_socket& operator=(const tls_socket&) = delete;
  // Sends nothing.
  ~tls_socket();

  // As recv. `place` is not empty, and is filled as far as complete records are there.
  //   > 0: plaintext
  //   0: the end; truncated() tells whether the peer said so
  //   -1 and errno: EAGAIN (nothing is there); EPROTO (TLS has failed, why() says why; the peer has been sent
  //   an alert); ENOMEM and others of recv, after which the session goes on if the socket does
  [[nodiscard]] ssize_t read(int fd, mutable_bytes place) noexcept;
  // As writev. Takes less than everything only if the kernel did not take all of the ciphertext; the rest
  // of that is pending(). Takes nothing before that has left.
  //   -1 and errno: EAGAIN (the handshake is not done, or ciphertext is still pending), EPROTO, EPIPE (after
  //   shut_down, or the peer has ended the stream inside the handshake), ENOMEM and others of send
  [[nodiscard]] ssize_t write(int fd, std::span<const iovec> parts) noexcept;
  // Begins the handshake, and sends what is pending. False: some is left, and errno says why, as write.
  [[nodiscard]] bool flush(int fd) noexcept;
  // Goes to another thread, which settles it in with buffers of its own.
  void leave_buffers() noexcept { wire_.leave_buffers(); }
  void settle_in(tls_buffers& buffers) noexcept { wire_.settle_in(buffers); }

  // Ciphertext in bytes that the kernel has not taken yet.
  [[nodiscard]] std::size_t pending() const noexcept { return wire_.pending(); }
  // Plaintext in bytes that the kernel has taken with its whole record. The other end can read no more than
  // that. What write took beyond it waits here.
  [[nodiscard]] std::uint64_t sent_plain() const noexcept { return wire_.sent_plain(); }
  // Ciphertext in bytes that was read so far.
  [[nodiscard]] std::uint64_t bytes_read() const noexcept { return wire_.bytes_read(); }
  // Whether the session itself needs the socket to be writable.
  [[nodiscard]] bool wants_write() const noexcept {
    return pending() != 0 || (state_ == state::handshaking && !begun_);
  }
  // Whether write can take plaintext once nothing is pending. False: only reading brings it on.
  [[nodiscard]] bool can_write() const noexcept {
    return is_open() && !ended_writing_ && !waits_for_peer_;
  }
  // Whether bytes that have left the kernel wait here. They may be part of a record.
  [[nodiscard]] bool holds_unread() const noexcept;
  // The latest read has stopped at a message for whose answer there is no memory, maybe behind data. Until the owner
  // reads again, what has left the kernel by then waits here.
  [[nodiscard]] bool starved() const noexcept { return starved_; }

  // Says that nothing more will be written (close_notify), and ends writing. Reading goes on. What the socket
  // does not take at once is dropped: call it when nothing is pending().
  void shut_down(int fd) noexcept;
  // For a socket that takes nothing any more: drops what is pending, and writes nothing, also no answers to
  // the other end's messages. Reading goes on.
  void end_writing() noexcept {
    ended_writing_ = true;
    wire_.end_output();
  }
  // For a forked child: only stores. The session is over; its destructor frees it and sends nothing.
  void abandon() noexcept { state_ = state::abandoned; }
  // Renews the keys for writing with the next write.
  void renew_keys() noexcept { records_ = records_per_key; }

  // The handshake is done, and the peer is who it must be.
  [[nodiscard]] bool established() const noexcept { return is_open(); }
  // The peer's stream has ended without a close_notify: bytes may be missing.
  [[nodiscard]] bool truncated() const noexcept { return wire_.at_end() && !peer_ended_; }
  // Why TLS has failed; no error if it has not.
  [[nodiscard]] const error& why() const noexcept { return why_; }

  // A key that both ends compute and nobody else can, bound to this session and `label` (RFC 8446, 7.5).
  // False: the session is not established, or there is no memory.
  [[nodiscard]] bool export_key(std::string_view label,
                                std::span<std::byte, 32> key) const noexcept;
  // Names of the verified certificate of the peer: "DNS:...", "IP:...", "URI:...", "CN:...". Empty if there
  // is none. Names with characters other than printable ASCII are left out. May throw std::bad_alloc.
  [[nodiscard]] std::vector<std::string> peer_names() const;
  // Whether the peer has shown a certificate that was verified.
  [[nodiscard]] bool has_peer_certificate() const noexcept;
  // Whether that certificate would be accepted with this context too. True without one.
  [[nodiscard]] bool is_trusted_by(const tls_context& context) const noexcept;
  // When that certificate expires.
  [[nodiscard]] std::optional<std::chrono::system_clock::time_point> peer_expires() const noexcept;
  // "TLS_AES_128_GCM_SHA256" and "TLSv1.3"; static texts.
  [[nodiscard]] std::string_view cipher() const noexcept;
  [[nodiscard]] std::string_view version() const noexcept;

 private:
  enum class state : std::uint8_t { handshaking, established, failed, abandoned };
  struct session_free {
    void operator()(ssl_st* session) const noexcept;
  };
  // AES-GCM keys are good for 2^24.5 full records (RFC 8446, 5.5).
  static constexpr std::uint64_t records_per_key = std::uint64_t{1} << 22U;

  [[nodiscard]] const x509_st* peer_certificate() const noexcept;
  [[nodiscard]] bool is_open() const noexcept { return state_ == state::established; }
  [[nodiscard]] error begin(tls_role role, const std::string& expected_host);
  // Brings the handshake on. False: it is not done; errno as for write.
  [[nodiscard]] bool advance(int fd, bool reads) noexcept;
  [[nodiscard]] bool settle_handshake(int fd) noexcept;
  // Why nothing was read: 0, or -1 and errno.
  [[nodiscard]] ssize_t nothing_read() noexcept;
  [[nodiscard]] std::size_t read_records(int fd, mutable_bytes place) noexcept;
  // Whether the message that OpenSSL has handled instead of handing out data was one it may send.
  [[nodiscard]] bool accepts_silence(int fd) noexcept;
  // Encrypts the next record of `parts`. Returns how many bytes it took; 0: none, and errno says why.
  [[nodiscard]] std::size_t write_record(int fd, class plaintext& from) noexcept;
  [[nodiscard]] bool prepare_keys(int fd) noexcept;
  void fail(int fd, error why) noexcept;
  void fail_as_queued(int fd) noexcept;
  static void message_seen(int writing, int version, int type, const void* bytes, std::size_t size,
                           ssl_st* session, void* self) noexcept;

  std::shared_ptr<const tls_context> context_;  // outlives the session, which uses its BIO methods
  tls_wire wire_;
  std::unique_ptr<ssl_st, session_free> session_;
  tls_session_notes notes_;
  error why_;
  std::uint64_t records_ = 0;  // written with the present key
  std::uint32_t silence_ = 0;  // messages without data since the last data
  state state_ = state::handshaking;
  bool begun_ = false;       // the handshake has been tried once
  bool peer_ended_ = false;  // the peer has sent close_notify
  bool ended_writing_ = false;
  bool waits_for_peer_ = false;  // a message of the peer has arrived only in part
  bool starved_ = false;
  bool unexpected_ = false;  // the peer has sent a message that is refused
};

}  // namespace atbus::detail
