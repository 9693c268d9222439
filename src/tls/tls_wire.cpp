#include "tls/tls_wire.h"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "system/fork_guard.h"
#include "system/kernel.h"

namespace atbus::detail {

struct wire_calls {
  static tls_wire& wire_of(BIO* bio) noexcept { return *static_cast<tls_wire*>(BIO_get_data(bio)); }
  static int read(BIO* bio, char* data, int size) noexcept {
    BIO_clear_retry_flags(bio);
    const ssize_t n = wire_of(bio).take(
        {reinterpret_cast<std::byte*>(data), static_cast<std::size_t>(std::max(size, 0))});
    if (n <= 0)
      BIO_set_retry_read(bio);
    return n > 0 ? static_cast<int>(n) : -1;
  }
  static int write(BIO* bio, const char* data, int size) noexcept {
    BIO_clear_retry_flags(bio);
    const std::size_t n = wire_of(bio).put(
        {reinterpret_cast<const std::byte*>(data), static_cast<std::size_t>(std::max(size, 0))});
    if (n == 0)
      BIO_set_retry_write(bio);
    return n != 0 ? static_cast<int>(n) : -1;
  }
  static long control(BIO* /*bio*/, int command, long /*number*/, void* /*data*/) noexcept {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }
};

void bio_method_free::operator()(bio_method_st* method) const noexcept {
  BIO_meth_free(method);
}

bio_method tls_wire::make_method() noexcept {
  const fork_pause no_fork;  // no child inherits the static half made
  // OpenSSL has 127 indexes for a whole process, and since 3.3 refuses further ones: all contexts share one.
  static const int index = BIO_get_new_index();
  if (index == -1)
    return nullptr;
  bio_method made{BIO_meth_new(index | BIO_TYPE_SOURCE_SINK, "atbus tls wire")};
  if (made == nullptr || BIO_meth_set_read(made.get(), wire_calls::read) != 1 ||
      BIO_meth_set_write(made.get(), wire_calls::write) != 1 ||
      BIO_meth_set_ctrl(made.get(), wire_calls::control) != 1)
    return nullptr;
  return made;
}

bio_st* tls_wire::make_bio(const bio_method_st& method) noexcept {
  BIO* const made = BIO_new(&method);
  if (made != nullptr) {
    BIO_set_data(made, this);
    BIO_set_init(made, 1);
  }
  return made;
}

tls_wire::~tls_wire() {
  drop_pending();
}

ssize_t tls_wire::take(mutable_bytes place) noexcept {
  if (place.empty() || allowed_ == 0 || drained_ || at_end_ || read_error_ != 0) {
    in_vain_ = true;
    return -1;
  }
  ssize_t n = 0;
  do {
    n = kernel().recv(fd_, place.data(), place.size(), MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) {
    at_end_ = n == 0;
    if (n < 0 && errno != EAGAIN)
      read_error_ = errno;
    drained_ = true;
    in_vain_ = true;
    return -1;
  }
  const auto got = static_cast<std::size_t>(n);
  drained_ = got < place.size();
  allowed_ -= std::min(allowed_, got);
  bytes_read_ += got;
  return n;
}

bool tls_wire::open_output() noexcept {
  if (output_ == nullptr)
    output_ = buffers_->take();
  return output_ != nullptr;
}

std::size_t tls_wire::put(bytes_view bytes) noexcept {
  if (output_ended_)
    return bytes.size();
  if (!open_output())
    return 0;
  const std::size_t taken = std::min(bytes.size(), room());
  if (taken != 0)
    std::memcpy(output_.get() + end_, bytes.data(), taken);
  end_ += taken;
  return taken;
}

bool tls_wire::send_pending(int fd) noexcept {
  while (pending() != 0) {
    const ssize_t n =
        kernel().send(fd, output_.get() + begin_, pending(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return false;
    begin_ += static_cast<std::size_t>(n);
    count_sent_records();
    // After a short write the socket is full: a further call would only say so.
    if (pending() != 0) {
      errno = EAGAIN;
      return false;
    }
  }
  drop_pending();
  return true;
}

void tls_wire::end_record(std::size_t plain) noexcept {
  assert(record_count_ != records_.size());
  records_[record_count_++] = {static_cast<std::uint32_t>(end_), static_cast<std::uint32_t>(plain)};
}

void tls_wire::count_sent_records() noexcept {
  while (first_record_ != record_count_ && records_[first_record_].end <= begin_)
    sent_plain_ += records_[first_record_++].plain;
}

void tls_wire::drop_pending() noexcept {
  begin_ = end_ = 0;
  first_record_ = record_count_ = 0;
  if (output_ != nullptr && buffers_ != nullptr)
    buffers_->give_back(std::move(output_));
}

}  // namespace atbus::detail
