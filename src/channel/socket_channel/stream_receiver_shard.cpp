// A receiver that is one of several shards of its address.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "channel/handover/handed_lanes.h"
#include "channel/socket_channel/stream_receiver.h"
#include "core/error_text.h"

namespace atbus::detail {
namespace {

constexpr const char* overtaken =
    "a connection is closed whose sender has a newer one already, or for which there is no memory";

}  // namespace

result<std::vector<receiver_backend*>> stream_receiver::open_shards(
    const atbus::address& where, std::uint32_t count, const receiver_options& options) {
  const fork_pause no_fork;
  auto door = listen(where, options);
  if (!door)
    return door.error();
  const auto shards = std::make_shared<stream_shards>(std::move(door->listener), count,
                                                      std::max(options.connections, 1U));
  if (auto e = shards->open(); !e)
    return e;
  std::vector<std::unique_ptr<stream_receiver, release_end>> made;
  std::vector<receiver_backend*> opened;
  made.reserve(count);
  opened.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto shared = shards->share_listener();
    if (!shared)
      return shared.error();
    auto one = make(where, options, {std::move(*shared), door->tls}, shards, i);
    if (!one)
      return one.error();
    made.emplace_back(*one);
  }
  for (auto& one : made)
    opened.push_back(one.release());
  return opened;
}

bool stream_receiver::join(std::shared_ptr<stream_shards> shards, std::uint32_t shard) noexcept {
  shards_ = std::move(shards);
  shard_ = shard;
  epoll_event interest{.events = EPOLLIN, .data = {.u64 = box_tag}};
  return kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, shards_->box_descriptor(shard_),
                            &interest) == 0;
}

void stream_receiver::greet(connection& stranger) noexcept {
  stranger.has_read = true;
  walk_end ended = walk_end::needs_more;
  if (stranger.link.receive()) {
    frame_run none;  // it stops behind the hello
    ended = stranger.link.lend(none);
  }
  if (ended == walk_end::failed)
    found_faulty(stranger);
  if (!stranger.link.opened() || stranger.link.now() == stream_link::state::closed)
    return watch(stranger);
  const auto to = shards_->arrived(stranger.link.peer_session(), stranger.asked_at);
  if (!to) {
    refused(error_at(errc::peer_closed, address_, overtaken));
    return drop(stranger);
  }
  // Also if it belongs here: an earlier one of its sender may be in the box, and comes first.
  pass(stranger, *to);
  if (*to == shard_)
    take_passed();
}

void stream_receiver::refused(error why) noexcept {
  ++dropped_;
  report(std::move(why));
}

void stream_receiver::pass(connection& one, std::uint32_t to) noexcept {
  const fork_pause no_fork;
  (void)kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one.link.descriptor(), nullptr);
  unlist(one);
  one.is_late = false;
  std::unique_ptr<connection> moved = std::move(slots_[one.number]);
  if (!moved->link.leave_space())
    moved->link.close({errc::out_of_memory});
  if (!shards_->pass(std::move(moved), shard_, to)) {
    refused(
        error_at(errc::would_block, address_,
                 "a connection is closed whose shard has been closed meanwhile, or has too many "
                 "that wait for it (connections), or for which there is no memory"));
  }
}

void stream_receiver::take_passed() noexcept {
  const fork_pause no_fork;
  while (auto one = shards_->take(shard_))
    adopt(std::move(one));
}

void stream_receiver::adopt(std::unique_ptr<connection> one) noexcept {
  one->link.settle_in(space_, tls_buffers_);
  const auto refuse = [&](error why) {
    refused(std::move(why));
    shards_->gone(sender_identity(one->link.peer_session()), shard_);
    one.reset();
  };
  if (one->link.now() == stream_link::state::closed)
    return refuse(error_at(address_, one->link.why()));
  // Strangers keep nobody out who is known.
  if (open_.size() - newcomers_.size() >= most_connections_) {
    return refuse(error_at(errc::would_block, address_,
                           "a shard has as many connections as it may (connections), one more "
                           "sender of it is closed"));
  }
  if (!shards_->begins(one->link.peer_session()))
    return refuse(error_at(errc::peer_closed, address_, overtaken));
  if (open_.size() >= most_connections_) {
    // None may go before it was read once: then it is one more for a moment.
    if (newcomer* const goes = newcomers_.next_to_go())
      turn_away(static_cast<connection&>(*goes), stranger_end::crowded);
  }
  connection* settled = nullptr;
  try {
    settled = &settle(one);
  } catch (const std::bad_alloc&) {
    return refuse(error{errc::out_of_memory});
  }
  connection& c = *settled;
  c.watched = EPOLLIN;
  c.confirmed = true;
  epoll_event interest{.events = EPOLLIN, .data = {.u64 = c.tag}};
  if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c.link.descriptor(), &interest) != 0) {
    refused(
        error_at(errc::system_error, address_, "can't watch a connection, it is closed", errno));
    return drop(c);
  }
  c.has_read = false;
  c.more = true;
  busy_.join(c);
  opening_moved(c);
}

}  // namespace atbus::detail
