// A receiver at a Unix socket offers lanes of shared memory, and goes on in them.
#include <cerrno>
#include <memory>
#include <utility>

#include "atbus/detail/test_hook.hpp"
#include "channel/handover/handed_lanes.h"
#include "channel/shm/segment.h"
#include "channel/socket_channel/stream_receiver.h"
#include "core/error_text.h"

namespace atbus::detail {

error stream_receiver::make_lanes() {
  receiver_options wanted = lane_options_;
  wanted.message_limit = message_limit_;
  auto opened = make_handed_receiver(address_, wanted);
  if (!opened)
    return opened.error();
  std::unique_ptr<receiver_state, release_end> made{*opened};
  made->on_problem([this](const error& what) { problem(what); });
  epoll_event interest{.events = EPOLLIN, .data = {.ptr = made.get()}};
  if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, made->descriptor(), &interest) != 0)
    return error_at(errc::system_error, address_, "can't watch its lanes", errno);
  lanes_ = made.release();
  return {};
}

void stream_receiver::offer_lane(connection& to) noexcept {
  const fork_pause no_fork;
  const auto told = [](const error& why) {
    return error_of(why.code(), [&]() -> error {
      return {why.code(), why.text() + "; messages go through the socket instead"};
    });
  };
  if (lanes_ == nullptr && !lanes_refused_) {
    const error refused = error_of(errc::out_of_memory, [this] { return make_lanes(); });
    lanes_refused_ = !refused && refused.code() != errc::out_of_memory;
    if (lanes_refused_)
      problem(told(refused));
    else if (!refused)
      report(told(refused));
  }
  const bool may_have_one = lanes_ != nullptr && to.number < own_lanes().lane_count() &&
                            is_of_our_user(to.link.descriptor());
  if (may_have_one && !own_lanes().is_free(to.number))
    own_lanes().free_ended_lanes();
  // While its lane is not free, the socket serves: that is no problem to report.
  if (may_have_one && own_lanes().is_free(to.number)) {
    const error refused = error_of(errc::out_of_memory, [&]() -> error {
      auto ends = own_lanes().hand_out(to.number);
      if (!ends)
        return ends.error();
      to.has_lane = true;
      to.link.offer_lane(to.number, std::move(ends->segment), std::move(ends->bell));
      return {};
    });
    if (refused)
      return;
    report(told(refused));
  }
  to.link.offer_lane(no_lane, {}, {});
}

void stream_receiver::move_on_to_lane(connection& from) noexcept {
  if (!from.has_lane || std::exchange(from.uses_lane, true))
    return;
  test_hook(step::switch_read);
  own_lanes().open_gate(from.number);
  moved_on_ = true;
  test_hook(step::gate_opened);
}

}  // namespace atbus::detail
