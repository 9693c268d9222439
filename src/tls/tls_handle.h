// Owners of OpenSSL's objects.
//
// Only for the sources of this folder: no header includes OpenSSL.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>

namespace atbus::detail {

template <auto Free>
struct openssl_free {
  template <class T>
  void operator()(T* object) const noexcept {
    Free(object);
  }
};

using bio_handle = std::unique_ptr<BIO, openssl_free<BIO_free>>;
using certificate_handle = std::unique_ptr<X509, openssl_free<X509_free>>;
using key_handle = std::unique_ptr<EVP_PKEY, openssl_free<EVP_PKEY_free>>;

}  // namespace atbus::detail
