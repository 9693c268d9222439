#include "node/core/gathering.h"

#include <new>
#include <utility>

namespace atbus::detail {

status gathering::begin(const std::vector<bus_id>& to, std::uint32_t type, bytes_view bytes,
                        std::chrono::nanoseconds timeout) {
  if (to.empty() || enough_ == 0 || timeout < std::chrono::nanoseconds{0} || !call_)
    return errc::invalid_argument;
  try {
    all_.reserve(to.size());
    for (const bus_id id : to)
      all_.emplace_back(response{errc::cancelled, id, {}});  // until it has its own
    sent_.reserve(to.size());
    for (std::size_t at = 0; at != to.size(); ++at) {
      // Each keeps this alive.
      sent_.push_back(requests_.ask(
          to[at], type, bytes, timeout, std::nullopt,
          [self = shared_from_this(), at](const response& how) { self->ended(at, how); }));
      if (const status refused = sent_.back().why(); !refused) {
        all_[at] = kept_response{response{refused, to[at], {}}};
        ++outcomes_;
      }
    }
    if (outcomes_ == all_.size()) {
      if (const status why = all_.front().how(); why == errc::closed)
        return why;
      events_.tell_call([self = shared_from_this()](status) { self->finish(); }, {});
    }
    return {};
  } catch (const std::bad_alloc&) {
    cancel();
    return errc::out_of_memory;
  }
}

void gathering::ended(std::size_t which, const response& how) {
  if (!call_)
    return;
  all_[which] = kept_response{how};
  sent_[which] = {};
  ++outcomes_;
  replies_ += how ? 1 : 0;
  if (is_enough())
    finish();
}

void gathering::finish() {
  if (!call_)
    return;
  const auto self = shared_from_this();  // also without the requests that are cancelled here
  const gather_call call = std::exchange(call_, nullptr);
  for (const request_handle& one : sent_)
    requests_.forget(one);
  call(std::move(all_));
}

void gathering::cancel() noexcept {
  const auto self = shared_from_this();
  call_ = nullptr;
  if (!*open_)
    return;
  for (const request_handle& one : sent_)
    requests_.forget(one);
}

}  // namespace atbus::detail
