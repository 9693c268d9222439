#include "failure.h"

#include <string>

#include "atbus/bus_id.hpp"

namespace atbus::c_api {
namespace {

// The text of a status is made when it is asked for: a full queue is nothing that takes memory.
struct failure {
  status how;
  error said;
  std::string text;
};

failure& last() noexcept {
  thread_local failure of_this_thread;
  return of_this_thread;
}

constexpr atbus_code to_code(errc code) noexcept {
  return static_cast<atbus_code>(code);
}

static_assert(sizeof(atbus_code) == sizeof(int), "its size is part of the interface");
static_assert(to_code(errc::ok) == ATBUS_OK && to_code(errc::would_block) == ATBUS_WOULD_BLOCK &&
              to_code(errc::used_after_fork) == ATBUS_USED_AFTER_FORK &&
              to_code(errc::invalid_argument) == ATBUS_INVALID_ARGUMENT &&
              to_code(errc::not_found) == ATBUS_NOT_FOUND &&
              to_code(errc::version_mismatch) == ATBUS_VERSION_MISMATCH &&
              to_code(errc::quarantined) == ATBUS_QUARANTINED &&
              to_code(errc::outcome_unknown) == ATBUS_OUTCOME_UNKNOWN &&
              to_code(errc::no_route) == ATBUS_NO_ROUTE && to_code(errc::denied) == ATBUS_DENIED &&
              to_code(errc::out_of_memory) == ATBUS_OUT_OF_MEMORY &&
              to_code(errc::unknown_request) == ATBUS_UNKNOWN_REQUEST &&
              to_code(errc::cancelled) == ATBUS_CANCELLED &&
              to_code(errc::malformed) == ATBUS_MALFORMED && errc_count == ATBUS_MALFORMED + 1);

}  // namespace

thread_local char this_thread;

atbus_code keep_failure(const status& how) noexcept {
  last().how = how;
  last().said = {};
  return to_code(how.code());
}

atbus_code code_of(error how) noexcept {
  const errc code = how.code();
  if (!how) {
    last().how = code;
    last().said = std::move(how);
  }
  return to_code(code);
}

bool refuse_handle(bool is_null) noexcept {
  if (is_null)
    refuse_null("the handle");
  else
    code_of(
        error{errc::invalid_argument,
              "the handle belongs to another thread: adopt it, or send through a thread sender"});
  return false;
}

atbus_code refuse_null(const char* what) noexcept {
  return guard([&] {
    return code_of(error{errc::invalid_argument, std::string{what} + " is NULL"});
  });
}

}  // namespace atbus::c_api

using namespace atbus;

const char* atbus_code_name(int code) {
  return code < 0 || code >= static_cast<int>(errc_count) ? "unknown"
                                                          : name(static_cast<errc>(code)).data();
}

const char* atbus_code_text(int code) {
  return code < 0 || code >= static_cast<int>(errc_count) ? "no code of atbus has this number"
                                                          : explain(static_cast<errc>(code)).data();
}

const char* atbus_last_error(void) {
  c_api::failure& failed = c_api::last();
  if (!failed.said)
    return failed.said.text().c_str();
  if (failed.how)
    return "";
  try {
    failed.text = failed.how.text();
    return failed.text.c_str();
  } catch (const std::bad_alloc&) {
    return atbus_code_text(static_cast<int>(failed.how.code()));
  }
}

const char* atbus_version(void) {
  return ATBUS_C_VERSION;
}

atbus_code atbus_parse_id(const char* text, uint64_t* id) {
  if (text == nullptr || id == nullptr)
    return c_api::refuse_null(text == nullptr ? "the text" : "the place for the id");
  return c_api::guard([&] {
    const result<bus_id> read = bus_id::parse(text);
    if (read)
      *id = read->value();
    return c_api::code_of(read.error());
  });
}
