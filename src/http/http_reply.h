// An answer that many requests can get: its bytes exist once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

struct MHD_Response;

namespace atbus::detail {

class http_reply {
 public:
  // Throws std::bad_alloc.
  http_reply(unsigned code, const char* content_type, std::string_view body);

  // One more header.
  http_reply&& with(const char* name, const char* value) &&;

  [[nodiscard]] unsigned code() const noexcept { return code_; }
  [[nodiscard]] MHD_Response* get() const noexcept { return response_.get(); }

 private:
  struct destroy {
    void operator()(MHD_Response* of) const noexcept;
  };

  unsigned code_;
  std::unique_ptr<MHD_Response, destroy> response_;
};

inline constexpr const char* text_type = "text/plain; charset=utf-8";

}  // namespace atbus::detail
