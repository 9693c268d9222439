#include "channel/shm/attach.h"

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "channel/shm/channel_address.h"
#include "channel/shm/taken_lane.h"

namespace atbus::detail {
namespace {

// Builds a new segment, locks it, then names it. receiver_exists: another process was faster; open its
// segment.
result<segment> make_segment(const segment_address& wanted) {
  auto geometry = choose_geometry(wanted);
  if (!geometry)
    return geometry.error();
  auto built = build_segment(wanted.name, *geometry);
  if (!built)
    return built;
  if (try_lock_byte(built->fd.get(), receiver_lock_byte) != lock_state::taken) {
    const int code = errno;
    return error{errc::system_error,
                 wanted.name.text() + ": can't lock the new segment" + lock_hint, code};
  }
  test_hook(step::receiver_locked);
  if (auto e = link_segment(*built); !e)
    return e;
  return built;
}

// Opens and locks the existing segment. `retired` means: the name has changed, try again.
result<segment> take_segment(const segment_address& wanted) {
  auto opened = open_segment(wanted.name);
  if (!opened)
    return opened;
  const lock_state lock = try_lock_byte(opened->fd.get(), receiver_lock_byte);
  if (lock == lock_state::failed) {
    const int code = errno;
    return error{errc::system_error, wanted.name.text() + ": can't lock it" + lock_hint, code};
  }
  // Lock first, then check: only under the lock does this file keep the name.
  if (!is_named(*opened))
    return error{errc::retired, wanted.name.text() + ": replaced while it was opened"};
  if (lock == lock_state::held_elsewhere) {
    return error{errc::receiver_exists, wanted.name.text() + ": it has a living receiver, " +
                                            opened->describe_receiver() +
                                            "; stop that one, or choose another name"};
  }
  test_hook(step::receiver_locked);
  if (opened->header().retired.load(std::memory_order_acquire) != 0) {
    // The process that removed it died before it unlinked the name.
    if (auto e = retire_segment(*opened); !e)
      return e;
    return error{errc::retired, wanted.name.text() + ": removed"};
  }
  if (auto e = compare_geometry(*opened, wanted); !e)
    return e;
  return opened;
}

// Deleter of a state that no other object owns yet.
struct let_go {
  template <class State>
  void operator()(State* of) const noexcept {
    of->release();
  }
};
template <class State>
using owned = std::unique_ptr<State, let_go>;

struct opened_segment {
  segment opened;
  bool made = false;  // this call built it
};

// The address, completed by the options, and its segment with all lanes mapped.
result<opened_segment> make_or_take_name(const segment_address& wanted) {
  for (int round = 0; round < name_rounds_max; ++round) {
    auto taken = take_segment(wanted);
    if (taken)
      return opened_segment{std::move(*taken), false};
    if (taken.error() == errc::retired)
      continue;
    if (!(taken.error() == errc::not_found))
      return taken.error();
    auto made = make_segment(wanted);
    if (made)
      return opened_segment{std::move(*made), true};
    if (!(made.error() == errc::receiver_exists))
      return made.error();
  }
  return error{errc::system_error, wanted.name.text() +
                                       ": its name keeps changing hands; is something creating and "
                                       "removing it in a loop?"};
}

// `options` gets what the address says.
result<opened_segment> make_or_take(const address& where, receiver_options& options) {
  auto wanted = to_segment_address(where, options.directory);
  if (!wanted)
    return wanted.error();
  if (wanted->lanes == 0)
    wanted->lanes = options.lanes;
  if (wanted->lane_size == 0)
    wanted->lane_size = options.lane_size;
  if (wanted->message_limit == 0)
    wanted->message_limit = options.message_limit;
  options.prefault |= wanted->prefault;
  auto segment = make_or_take_name(*wanted);
  if (!segment)
    return segment;
  // From here on, a failure removes a segment that this call made; an existing one stays.
  if (auto e = map_all_lanes(segment->opened); !e) {
    if (segment->made)
      (void)retire_segment(segment->opened);
    return e;
  }
  return segment;
}

}  // namespace

result<receiver_state*> open_lane_receiver(const address& where, const receiver_options& options) {
  receiver_options resolved = options;
  const fork_pause no_fork;
  auto segment = make_or_take(where, resolved);
  if (!segment)
    return segment.error();
  owned<receiver_state> state{new receiver_state(std::move(segment->opened), resolved)};
  if (auto e = state->start(); !e) {
    if (segment->made)
      (void)state->remove();
    return e;
  }
  return state.release();
}

result<std::vector<receiver_state*>> open_lane_shards(const address& where, std::uint32_t count,
                                                      const receiver_options& options) {
  receiver_options resolved = options;
  const fork_pause no_fork;
  auto first = make_or_take(where, resolved);
  if (!first)
    return first.error();
  std::vector<owned<receiver_state>> states;
  const auto fail = [&](error why) {
    if (first->made && states.empty())
      (void)retire_segment(first->opened);
    for (const auto& each : states) {
      if (first->made)
        (void)each->remove();  // the last one removes the segment
    }
    return why;
  };
  const std::uint32_t lanes = first->opened.geometry.lane_count;
  if (lanes < count) {
    return fail({errc::invalid_argument, first->opened.name.text() + ": " + std::to_string(lanes) +
                                             " lanes are too few for " + std::to_string(count) +
                                             " shards"});
  }
  const auto shards = std::make_shared<lane_shards>(count, lanes);
  if (auto e = shards->open(first->opened); !e)
    return fail(std::move(e));
  std::vector<segment> parts;
  std::vector<receiver_state*> opened;
  parts.reserve(count);
  opened.reserve(count);
  states.reserve(count);
  for (std::uint32_t i = 1; i < count; ++i) {
    auto part = duplicate_segment(first->opened);
    if (!part)
      return fail(part.error());
    parts.push_back(std::move(*part));
  }
  parts.insert(parts.begin(), std::move(first->opened));
  for (std::uint32_t i = 0; i < count; ++i)
    states.emplace_back(new receiver_state(std::move(parts[i]), resolved, shards, i));
  for (const auto& each : states) {
    if (auto e = each->start(); !e)
      return fail(std::move(e));
  }
  for (auto& each : states)
    opened.push_back(each.release());
  return opened;
}

result<sender_state*> open_lane_sender(const address& where, const sender_options& options) {
  const auto wanted = to_segment_address(where, options.directory);
  if (!wanted)
    return wanted.error();
  const fork_pause no_fork;
  auto taken = take_lane(*wanted);
  if (!taken)
    return taken.error();
  if (options.prefault || wanted->prefault)
    prefault_lane(*taken);
  const std::uint32_t lane = taken->lane;
  const bool was_unused = taken->was_unused;
  std::string text;
  owned<sender_state> state;
  try {
    text = taken->opened.name.text();
    // It takes its memory before it takes the segment.
    state.reset(new sender_state(std::move(taken->opened), lane, options));
  } catch (const std::bad_alloc&) {
    if (was_unused)
      give_lane_memory_back(taken->opened, lane);
    return error{errc::out_of_memory};
  }
  if (auto s = state->start(); !s) {
    const int code = errno;
    if (was_unused)
      state->give_memory_back();
    if (s == errc::system_error)
      return error{s.code(), text + ": can't connect to its doorbell", code};
    return error{s.code(), text + ": can't announce itself in lane " + std::to_string(lane) +
                               (s == errc::would_block
                                    ? ": a dead sender's messages fill it; start the receiver"
                                    : ": another process wrote into its control words")};
  }
  return state.release();
}

}  // namespace atbus::detail
