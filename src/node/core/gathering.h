// One request to many nodes, with one call for all of their outcomes.
//
// Nothing of it is on the wire: each is a request of its own. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "atbus/request.hpp"
#include "node/core/event_queue.h"
#include "node/core/request_exchange.h"

namespace atbus::detail {

class gathering : public std::enable_shared_from_this<gathering> {
 public:
  using gather_call = std::function<void(std::vector<kept_response>&&)>;

  gathering(request_exchange& requests, event_queue& events, std::size_t enough,
            gather_call call) noexcept
      : requests_(requests),
        open_(requests.is_open()),
        events_(events),
        enough_(enough),
        call_(std::move(call)) {}

  // See node::gather. The call is never made from within.
  status begin(const std::vector<bus_id>& to, std::uint32_t type, bytes_view bytes,
               std::chrono::nanoseconds timeout);
  // Nobody waits for it any more: no call is made.
  void cancel() noexcept;

 private:
  void ended(std::size_t which, const response& how);
  void finish();
  [[nodiscard]] bool is_enough() const noexcept {
    return replies_ >= enough_ || outcomes_ == all_.size();
  }

  request_exchange& requests_;
  const std::shared_ptr<const bool> open_;  // in a forked child nothing else tells that it is not
  event_queue& events_;
  std::size_t enough_;
  gather_call call_;  // null: it was made
  std::vector<kept_response> all_;
  std::vector<request_handle> sent_;
  std::size_t outcomes_ = 0;
  std::size_t replies_ = 0;
};

}  // namespace atbus::detail
