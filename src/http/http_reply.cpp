#include "http/http_reply.h"

#include <microhttpd.h>

#include <new>

namespace atbus::detail {

http_reply::http_reply(unsigned code, const char* content_type, std::string_view body)
    : code_(code),
      // It copies the bytes.
      response_(MHD_create_response_from_buffer(body.size(), const_cast<char*>(body.data()),
                                                MHD_RESPMEM_MUST_COPY)) {
  if (response_ == nullptr)
    throw std::bad_alloc{};
  std::move(*this)
      .with(MHD_HTTP_HEADER_CONTENT_TYPE, content_type)
      .with(MHD_HTTP_HEADER_CACHE_CONTROL, "no-store")
      .with("X-Content-Type-Options", "nosniff")
      .with(MHD_HTTP_HEADER_CONNECTION, "close");
}

http_reply&& http_reply::with(const char* name, const char* value) && {
  if (MHD_add_response_header(response_.get(), name, value) != MHD_YES)
    throw std::bad_alloc{};
  return std::move(*this);
}

void http_reply::destroy::operator()(MHD_Response* of) const noexcept {
  MHD_destroy_response(of);
}

}  // namespace atbus::detail
