// OpenSSL's errors as errors of atbus, in plain words.
//
// OpenSSL keeps errors in a queue of the thread. Clear it before a call, and take them after one that has
// failed. None of these texts holds bytes of the peer or a secret.
#pragma once

#include "atbus/status.hpp"
#include "tls/tls_context.h"

namespace atbus::detail {

// Takes the errors of the thread's queue. An empty queue means that OpenSSL had no memory even for one.
[[nodiscard]] error take_library_failure(const char* what) noexcept;

// Why a call of the session has failed. `notes`: what the callbacks saw; `with_secrets`: how the ends
// authenticate.
[[nodiscard]] error take_session_failure(const ssl_st& ssl, const tls_session_notes& notes,
                                         bool with_secrets) noexcept;

}  // namespace atbus::detail
