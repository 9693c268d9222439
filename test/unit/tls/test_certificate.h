// Certificates that a test makes for itself.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "tls/tls_handle.h"

namespace atbus::test {

using detail::certificate_handle;
using detail::key_handle;

struct certificate_wish {
  std::string common_name = "node";
  std::string alternative_names =
      {};  // as OpenSSL's configuration has them: "DNS:a,IP:::1,URI:x:y"
  bool is_authority = false;
  long begins_s = -3600;  // from now
  long ends_s = 3600;
  std::size_t padding = 0;  // bytes of a comment that makes it long
};

// A certificate and its key. Signed by `by`, or by itself.
class test_certificate {
 public:
  explicit test_certificate(const certificate_wish& wish, const test_certificate* by = nullptr,
                            bool rsa = false)
      : key_(rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256")), certificate_(X509_new()) {
    static long serial = 0;
    X509* const made = certificate_.get();
    X509_set_version(made, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made), wish.begins_s);
    X509_gmtime_adj(X509_getm_notAfter(made), wish.ends_s);
    X509_set_pubkey(made, key_.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(wish.common_name.c_str()), -1,
                               -1, 0);
    X509_set_issuer_name(made, X509_get_subject_name(by == nullptr ? made : by->get()));
    add(NID_basic_constraints, wish.is_authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
    if (!wish.alternative_names.empty())
      add(NID_subject_alt_name, wish.alternative_names);
    if (wish.padding != 0)
      add(NID_netscape_comment, std::string(wish.padding, 'x'));
    if (X509_sign(made, by == nullptr ? key_.get() : by->key_.get(), EVP_sha256()) == 0)
      throw std::runtime_error("can't sign a certificate");
  }

  [[nodiscard]] X509* get() const { return certificate_.get(); }
  [[nodiscard]] EVP_PKEY* key() const { return key_.get(); }

  void write(const std::string& path, bool append = false) const {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> to{
        std::fopen(path.c_str(), append ? "a" : "w"), std::fclose};
    PEM_write_X509(to.get(), certificate_.get());
  }
  void write_key(const std::string& path, const char* password = nullptr) const {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> to{std::fopen(path.c_str(), "w"),
                                                             std::fclose};
    PEM_write_PrivateKey(to.get(), key_.get(), password == nullptr ? nullptr : EVP_aes_256_cbc(),
                         nullptr, 0, nullptr, const_cast<char*>(password));
  }

 private:
  void add(int kind, const std::string& value) {
    const std::unique_ptr<X509_EXTENSION, detail::openssl_free<X509_EXTENSION_free>> made{
        X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str())};
    if (made == nullptr || X509_add_ext(certificate_.get(), made.get(), -1) != 1)
      throw std::runtime_error("can't add an extension");
  }

  key_handle key_;
  certificate_handle certificate_;
};

}  // namespace atbus::test
