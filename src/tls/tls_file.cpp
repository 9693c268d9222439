#include "tls/tls_file.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <utility>

#include "core/text.h"
#include "system/fork_guard.h"
#include "system/kernel.h"

namespace atbus::detail {
namespace {

// The bytes of a file that may hold a key: wiped in the end.
class file_content {
 public:
  file_content() : bytes_(pem_file_max + 1) {}
  file_content(const file_content&) = delete;
  file_content& operator=(const file_content&) = delete;
  ~file_content() { OPENSSL_cleanse(bytes_.data(), size_); }

  [[nodiscard]] error read(const std::string& path);
  [[nodiscard]] bio_handle open() const noexcept {
    return bio_handle{BIO_new_mem_buf(bytes_.data(), static_cast<int>(size_))};
  }

 private:
  std::vector<std::byte> bytes_;
  std::size_t size_ = 0;
};

error unreadable(const std::string& path, int code) {
  const errc cause = code == ENOENT                    ? errc::not_found
                     : code == EACCES || code == EPERM ? errc::denied
                                                       : errc::system_error;
  return {cause, "can't read " + in_quotes(path), code};
}

error file_content::read(const std::string& path) {
  const fork_pause no_fork;
  const file from{kernel().open(path.c_str(), O_RDONLY | O_CLOEXEC, 0)};
  if (!from)
    return unreadable(path, errno);
  while (size_ != bytes_.size()) {
    const ssize_t n = kernel().read(from.get(), bytes_.data() + size_, bytes_.size() - size_);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return unreadable(path, errno);
    if (n == 0)
      return {};
    size_ += static_cast<std::size_t>(n);
  }
  return {errc::invalid_argument, in_quotes(path) + " is longer than 1 MiB: it is no PEM file"};
}

// No password: without this, OpenSSL would ask the terminal.
int no_password(char* /*place*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

bool lacks_memory() noexcept {
  return ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE ||
         ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE;
}

bool at_end_of_pem() noexcept {
  const unsigned long last = ERR_peek_last_error();
  return ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
}

std::string printed(const ASN1_TIME& time) {
  std::tm parts{};
  std::array<char, 32> text{};
  if (ASN1_TIME_to_tm(&time, &parts) != 1 ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts) == 0)
    return "an unknown time";
  return text.data();
}

}  // namespace

result<std::vector<certificate_handle>> read_certificates(const std::string& path) {
  file_content content;
  if (error problem = content.read(path); !problem)
    return problem;
  ERR_clear_error();
  const bio_handle from = content.open();
  std::vector<certificate_handle> found;
  while (from != nullptr) {
    bool asked = false;
    certificate_handle one{PEM_read_bio_X509(from.get(), nullptr, no_password, &asked)};
    if (one == nullptr)
      break;
    found.push_back(std::move(one));
  }
  const bool complete = at_end_of_pem();
  const bool starved = from == nullptr || lacks_memory();
  ERR_clear_error();
  if (starved)
    return error{errc::out_of_memory};
  if (!complete) {
    return error{errc::invalid_argument, in_quotes(path) + ": certificate " +
                                             std::to_string(found.size() + 1) +
                                             " is damaged; make the file anew"};
  }
  if (found.empty()) {
    return error{errc::invalid_argument,
                 in_quotes(path) + " holds no certificate; it must be a PEM file"};
  }
  return found;
}

result<key_handle> read_private_key(const std::string& path) {
  file_content content;
  if (error problem = content.read(path); !problem)
    return problem;
  ERR_clear_error();
  const bio_handle from = content.open();
  bool asked = false;
  key_handle key{from == nullptr
                     ? nullptr
                     : PEM_read_bio_PrivateKey(from.get(), nullptr, no_password, &asked)};
  const bool starved = from == nullptr || (key == nullptr && lacks_memory());
  ERR_clear_error();
  if (starved)
    return error{errc::out_of_memory};
  if (key == nullptr && asked) {
    return error{errc::invalid_argument,
                 "the key in " + in_quotes(path) +
                     " is protected by a password; give one without, readable by this user only"};
  }
  if (key == nullptr) {
    return error{errc::invalid_argument,
                 in_quotes(path) + " holds no private key; it must be a PEM file"};
  }
  return key;
}

std::optional<time_of_day> expiry_of(const X509& certificate) noexcept {
  std::tm parts{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &parts) != 1)
    return std::nullopt;
  // A certificate may be valid for longer than the clock counts.
  constexpr std::time_t latest =
      std::chrono::duration_cast<std::chrono::seconds>(time_of_day::max().time_since_epoch())
          .count();
  const std::time_t seconds = timegm(&parts);
  return seconds >= latest ? time_of_day::max() : std::chrono::system_clock::from_time_t(seconds);
}

error check_validity(const X509& certificate, const std::string& path) {
  const ASN1_TIME& begin = *X509_get0_notBefore(&certificate);
  const ASN1_TIME& end = *X509_get0_notAfter(&certificate);
  if (X509_cmp_current_time(&end) <= 0) {
    return {errc::invalid_argument, "the certificate in " + in_quotes(path) + " expired at " +
                                        printed(end) + "; replace it with a new one"};
  }
  if (X509_cmp_current_time(&begin) >= 0) {
    return {errc::invalid_argument, "the certificate in " + in_quotes(path) +
                                        " is not valid before " + printed(begin) +
                                        "; check the clock of this machine"};
  }
  return {};
}

}  // namespace atbus::detail
