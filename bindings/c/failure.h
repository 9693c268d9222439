// What the functions for C do with errors and exceptions: nothing is thrown across them.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "atbus/atbus.h"
#include "atbus/status.hpp"

namespace atbus::c_api {

// The code of a result. A failure is kept for atbus_last_error().
atbus_code keep_failure(const status& how) noexcept;
inline atbus_code code_of(const status& how) noexcept {
  return how ? ATBUS_OK : keep_failure(how);
}
atbus_code code_of(error how) noexcept;

// Each thread has its own: its address identifies the thread.
extern thread_local char this_thread __attribute__((tls_model("initial-exec")));

// The thread that a handle belongs to.
template <class Handle>
[[nodiscard]] const char* owner_of(const Handle& handle) noexcept {
  return handle.owner;
}

// Whether the handle can be used here. If not, that is kept as the last failure.
bool refuse_handle(bool is_null) noexcept;
template <class Handle>
[[nodiscard]] bool is_usable(const Handle* handle) noexcept {
  if (handle != nullptr && owner_of(*handle) == &this_thread) [[likely]]
    return true;
  return refuse_handle(handle == nullptr);
}

atbus_code refuse_null(const char* what) noexcept;

// Calls `what`, which returns an atbus_code, and makes codes of exceptions.
template <class What>
atbus_code guard(What&& what) noexcept {
  try {
    return what();
  } catch (const std::bad_alloc&) {
    return code_of(status{errc::out_of_memory});
  } catch (const std::exception& thrown) {
    return code_of(error{errc::system_error, thrown.what()});
  } catch (...) {
    return code_of(error{errc::system_error, "a callback has thrown an exception"});
  }
}

}  // namespace atbus::c_api
