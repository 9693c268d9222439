#include "node/core/interests.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "core/first_exception.h"
#include "core/text.h"

namespace atbus::detail {
namespace {

// When a link had no room for what a neighbour is to be told.
constexpr std::chrono::nanoseconds tell_again_interval = std::chrono::milliseconds{10};
// What a relay asks for in the name of others.
constexpr std::size_t relay_waiting = 1024;

bool makes_sense(const interest_body& said) noexcept {
  if (said.topic.empty())
    return !said.wanted && (said.fresh || said.whole);
  return is_topic_name(said.topic) &&
         (!said.wanted || (said.slow < static_cast<std::uint8_t>(overflow_policy::disconnect) &&
                           said.waiting != 0 && said.waiting <= topic_waiting_max));
}

}  // namespace

topic_neighbour* interests::find(const peer& of) noexcept {
  const auto known = neighbours_.find(&of);
  return known != neighbours_.end() ? known->second.get() : nullptr;
}

topic_neighbour& interests::find_or_make(peer& of) {
  if (topic_neighbour* const known = find(of); known != nullptr)
    return *known;
  listed_.reserve(neighbours_.size() + 1);
  auto made = std::make_unique<topic_neighbour>(of, node_.timers);
  made->as = of.as;
  made->account.bytes_max = node_.options.send_buffer_size();
  made->gone.replace([this, one = made.get()] {
    end_wishes_if(*one, [one](const topic_wish& wish) {
      return one->told_by_link == 0 || wish.generation != one->generation;
    });
    tell_room(*one);
  });
  made->retry.replace([this, one = made.get()] { list(*one); });
  return *neighbours_.emplace(&of, std::move(made)).first->second;
}

// Without memory for it the link ends, and the two register anew: nothing would ever be told there.
topic_neighbour& interests::make_for(peer& of, session& link) {
  try {
    return find_or_make(of);
  } catch (const std::bad_alloc&) {
    sessions_.drop(link, false, errc::out_of_memory, {});
    throw;
  }
}

bool interests::has_begun(const peer& of, const topic_entry& topic) noexcept {
  const topic_neighbour* const known = find(of);
  return known != nullptr && topic.place < known->told.size() && known->told[topic.place].begun;
}

void interests::set_begun(const peer& of, const topic_entry& topic, std::uint64_t turn) noexcept {
  topic_neighbour* const known = find(of);
  if (known == nullptr || topic.place >= known->told.size())
    return;
  told_state& state = known->told[topic.place];
  if (state.as != told_as::nothing && state.turn == turn)
    state.begun = true;
}

// As broadcasts do: what comes from above or from a peer does not go where it may have come from already.
bool interests::goes_on(const peer* from, const peer& to) noexcept {
  if (from == nullptr)
    return to.as != relation::sibling;
  switch (to.as) {
    case relation::child:
      return &to != from && (from->as == relation::child || from->as == relation::parent);
    case relation::parent:
      return from->as == relation::child;
    case relation::peer:
    case relation::sibling:
      break;
  }
  return false;
}

// What neighbours want.

bool interests::is_late(const session& from, const interest_body& said) noexcept {
  topic_neighbour* const by = from.of != nullptr ? find(*from.of) : nullptr;
  if (by == nullptr || by->told_by_link == from.registration)
    return false;
  if (said.fresh && said.turn != 0 && said.turn < by->told_turn &&
      from.instance.incarnation == by->told_by_incarnation)
    by->told_by_newest = std::max(by->told_by_newest, from.registration);  // nor what follows there
  else if (said.fresh)
    return false;
  return from.registration <= by->told_by_newest;
}

topic_wish* interests::take(session& from, const interest_body& said) {
  if (!from.is_direct || !from.knows_topics)
    return nullptr;  // as what is not known
  peer& of = *from.of;
  topic_neighbour& by = find_or_make(of);
  if (!makes_sense(said) || (!said.fresh && by.told_by_link != from.registration)) {
    sessions_.violation(from, {errc::protocol_error, "an interest in a topic makes no sense"});
    return nullptr;
  }
  if (said.fresh) {
    by.told_by_link = from.registration;
    by.told_by_newest = std::max(by.told_by_newest, from.registration);
    ++by.generation;
    if (std::exchange(by.told_by_incarnation, from.instance.incarnation) !=
        from.instance.incarnation)
      by.told_turn = 0;
  }
  by.told_turn = std::max(by.told_turn, said.turn);
  topic_wish* made = nullptr;
  if (said.wanted) {
    made = find_or_make_wish(from, by, said);
    if (from.stage == session_stage::dropped)
      return nullptr;
  } else if (topic_entry* const topic = table_.find(said.topic); topic != nullptr) {
    end_wish(*topic, by);
    erase_if_unused(*topic);
  }
  if (said.whole) {
    by.gone.cancel();
    end_wishes_if(by, [&](const topic_wish& wish) { return wish.generation != by.generation; });
  }
  return made;
}

std::size_t* interests::count_of(topic_entry& of, relation as) noexcept {
  return as == relation::child    ? &of.by_children
         : as == relation::parent ? &of.by_parents
                                  : nullptr;
}

topic_wish* interests::find_or_make_wish(session& from, topic_neighbour& by,
                                         const interest_body& said) {
  const auto slow = static_cast<overflow_policy>(said.slow);
  const auto most = static_cast<std::size_t>(said.waiting);
  if (topic_entry* const topic = table_.find(said.topic); topic != nullptr) {
    if (topic_wish* const known = find_wish(*topic, by); known != nullptr) {
      known->waiting.set(slow, most);
      known->may_block = slow == overflow_policy::would_block;
      known->generation = by.generation;
      return known;
    }
  }
  if (by.wishes == of_link_max)  // some may be those of an earlier incarnation
    end_wishes_if(by, [&](const topic_wish& wish) { return wish.generation != by.generation; });
  if (by.wishes == of_link_max) {
    sessions_.violation(from, {errc::protocol_error,
                               "it wants more than " + std::to_string(of_link_max) + " topics"});
    return nullptr;
  }
  topic_entry* const topic = wishes_ < wishes_max ? table_.find_or_make(said.topic) : nullptr;
  if (topic == nullptr)
    return nullptr;
  topic_entry& of = *topic;
  begin(of);
  try {
    by.waiting.reserve(by.wishes + 1);
    by.blocking.reserve(by.wishes + 1);
    of.wanted_by.push_back(std::make_unique<topic_wish>(of, by, slow, most));
  } catch (const std::bad_alloc&) {
    erase_if_unused(of);
    throw;
  }
  topic_wish& wish = *of.wanted_by.back();
  wish.generation = by.generation;
  ++by.wishes;
  by.of.wants_topics = true;
  ++wishes_;
  if (std::size_t* const count = count_of(of, by.as); count != nullptr)
    ++*count;
  changed(of);
  return &wish;
}

topic_wish* interests::find_wish(const topic_entry& of, const topic_neighbour& by) noexcept {
  if (by.wishes == 0)
    return nullptr;
  const auto known =
      std::ranges::find_if(of.wanted_by, [&](const auto& one) { return &one->by == &by; });
  return known != of.wanted_by.end() ? known->get() : nullptr;
}

void interests::end_wish(topic_entry& of, topic_neighbour& by) noexcept {
  topic_wish* const wish = find_wish(of, by);
  if (wish == nullptr)
    return;
  wish->waiting.clear(by.account);
  std::erase(by.waiting, wish);
  by.owes_room = std::erase(by.blocking, wish) != 0 || by.owes_room;
  std::erase_if(of.wanted_by, [&](const auto& one) { return one.get() == wish; });
  --by.wishes;
  by.of.wants_topics = by.wishes != 0;
  --wishes_;
  if (std::size_t* const count = count_of(of, by.as); count != nullptr)
    --*count;
  changed(of);
}

template <class Which>
void interests::end_wishes_if(topic_neighbour& by, const Which& ends) noexcept {
  for (std::size_t place = 0; by.wishes != 0 && place != table_.all().size(); ++place) {
    topic_entry* const topic = table_.at(place);
    if (topic == nullptr)
      continue;
    const topic_wish* const wish = find_wish(*topic, by);
    if (wish == nullptr || !ends(*wish))
      continue;
    end_wish(*topic, by);
    erase_if_unused(*topic);
  }
}

void interests::end_wishes(topic_neighbour& by) noexcept {
  end_wishes_if(by, [](const topic_wish&) { return true; });
}

void interests::tell_room(topic_neighbour& of) {
  if (!of.owes_room)
    return;
  try {
    events_.tell_writable(of.of.id);
  } catch (const std::bad_alloc&) {
    of.of.copies_wait = true;  // so that drain() comes here again
    output_.try_again(of.of);
    throw;
  }
  of.owes_room = false;
}

// What it wants may be told on another link meanwhile.
void interests::left(const session& from) noexcept {
  topic_neighbour* const by = find(*from.of);
  if (by != nullptr && (by->told_by_link == 0 || by->told_by_link == from.registration))
    end_wishes(*by);
}

void interests::forget(peer& of) noexcept {
  topic_neighbour* const by = find(of);
  if (by == nullptr)
    return;
  end_wishes(*by);
  for (std::size_t place = 0; place != by->told.size(); ++place) {
    if (topic_entry* const topic = table_.at(place); topic != nullptr) {
      set_told(*by, *topic, told_as::nothing);
      erase_if_unused(*topic);
    }
  }
  std::erase(listed_, by);
  neighbours_.erase(&of);
}

// A place in the tree has been given or taken: what goes where is another matter now.
void interests::count_as(topic_neighbour& by, relation now) noexcept {
  const relation before = std::exchange(by.as, now);
  if (before == now)
    return;
  for (topic_entry* const topic : table_.all()) {
    if (topic == nullptr)
      continue;
    const bool wants = find_wish(*topic, by) != nullptr;
    std::size_t* const less = wants ? count_of(*topic, before) : nullptr;
    std::size_t* const more = wants ? count_of(*topic, now) : nullptr;
    if (more != nullptr)
      begin(*topic);
    if (less != nullptr)
      --*less;
    if (more != nullptr)
      ++*more;
    if (less != nullptr || more != nullptr)
      changed(*topic);
    list_topic(by, *topic);
  }
}

void interests::link_ended(peer& of, const session& gone) {
  topic_neighbour* const by = find(of);
  if (by != nullptr && by->told_by_link == gone.registration && by->told_by_link != 0) {
    by->told_by_link = 0;
    if (by->wishes != 0)
      by->gone.set(node_.idle_deadline());
  }
}

void interests::link_changed(peer& of) {
  if (of.id == bus_id{} || node_.is_client())
    return;
  session* const link = reach_.link_to(of);
  topic_neighbour* by = find(of);
  if (by != nullptr)
    count_as(*by, of.as);
  if (link == nullptr) {
    if (by != nullptr)
      by->tells_link = 0;
    return;
  }
  if (!link->knows_topics) {
    if (!table_.empty() && link->registered_at == node_.now())
      events_.log_about(
          of.id, of.id.to_string() + " does not know topics: none reach it, or those behind it");
    if (by != nullptr) {
      end_wishes(*by);
      tell_room(*by);
    }
    return;
  }
  if (by == nullptr)
    by = &make_for(of, *link);
  if (by->tells_link == link->registration || (table_.empty() && !by->has_told))
    return;
  try {
    begin_to_tell(*by, *link);
  } catch (const std::bad_alloc&) {
    by->retry.set(node_.now() + tell_again_interval);
    throw;
  }
}

// What neighbours are told.

told_as interests::wanted_from(const topic_entry& of, const topic_neighbour& from) const noexcept {
  bool by_others = false;
  switch (from.as) {
    case relation::sibling:
      return told_as::nothing;
    case relation::peer:
      break;
    case relation::parent:
      by_others = of.by_children != 0;
      break;
    case relation::child:
      by_others = of.by_parents != 0 || of.by_children > 1 ||
                  (of.by_children == 1 && find_wish(of, from) == nullptr);
      break;
  }
  if (by_others)
    return told_as::relay;
  return of.own != nullptr ? told_as::subscriber : told_as::nothing;
}

// Where the neighbour is gone, it may be another one that is in its place now.
bool interests::is_wanted_from(const topic_entry& of, bus_id neighbour) noexcept {
  const peer* const known = peers_.find(neighbour);
  const auto at = known != nullptr ? neighbours_.find(known) : neighbours_.end();
  return at != neighbours_.end() ? wanted_from(of, *at->second) != told_as::nothing
                                 : of.own != nullptr || of.by_children + of.by_parents != 0;
}

void interests::list(topic_neighbour& of) noexcept {
  if (std::exchange(of.is_listed, true))
    return;
  listed_.push_back(&of);  // find_or_make() has made room
}

// Callers use entries, so nothing begins anew here, which erases some.
void interests::list_topic(topic_neighbour& of, const topic_entry& topic) noexcept {
  if (of.tells_link == 0)
    return list(of);  // tell() tells all, where there is a link
  try {
    if (of.told.size() <= topic.place)
      of.told.resize(topic.place + 1);
    if (of.told[topic.place].pending)
      return;
    of.pending.push_back(topic.place);
    of.told[topic.place].pending = true;
  } catch (const std::bad_alloc&) {
    of.tells_link = 0;  // all is told anew once there is memory
  }
  list(of);
}

void interests::changed(topic_entry& of) noexcept {
  for (const auto& [id, one] : neighbours_) {
    const bool is_known = of.place < one->told.size();
    const told_as before = is_known ? one->told[of.place].as : told_as::nothing;
    if (wanted_from(of, *one) != before)
      list_topic(*one, of);
  }
}

void interests::begin(topic_entry& of) noexcept {
  if (!of.is_wanted())
    of.passed.clear();
  else
    of.passed.forget_from([&](bus_id from) { return !is_wanted_from(of, from); });
  if (of.own == nullptr)
    of.told_own.clear();
  for (const auto& [id, one] : neighbours_) {
    if (wanted_from(of, *one) == told_as::nothing)
      tell_again(*one, of);
  }
}

void interests::tell_subscribed(topic_entry& of) noexcept {
  for (const auto& [id, one] : neighbours_) {
    if (wanted_from(of, *one) == told_as::subscriber)
      tell_again(*one, of);
  }
}

// If it has been told on this link what was wanted before, the words are the same, and it would not be told again.
void interests::tell_again(topic_neighbour& whom, topic_entry& of) noexcept {
  if (of.place >= whom.told.size())
    return;
  told_state& state = whom.told[of.place];
  state.begun = false;
  if (state.as == told_as::nothing)
    return;
  state.as = told_as::outdated;
  state.turn = 0;
  list_topic(whom, of);
}

void interests::erase_if_unused(topic_entry& of) noexcept {
  if (!of.is_used())
    table_.erase(of);
}

void interests::set_told(topic_neighbour& of, topic_entry& topic, told_as now) noexcept {
  if (topic.place >= of.told.size())
    return;
  told_state& state = of.told[topic.place];
  const told_as before = std::exchange(state.as, now);
  state.begun = state.begun && now != told_as::nothing;
  state.turn = turns_;
  const bool was = before != told_as::nothing;
  const bool is = now != told_as::nothing;
  topic.told = topic.told - (was ? 1 : 0) + (is ? 1 : 0);
  of.topics_told = of.topics_told - (was ? 1 : 0) + (is ? 1 : 0);
}

void interests::begin_to_tell(topic_neighbour& of, const session& on) {
  of.told.resize(std::max(of.told.size(), table_.all().size()));
  of.pending.clear();
  of.pending.reserve(of.told.size());
  of.tells_link = on.registration;  // from here on nothing takes memory
  // It knows still what it was told on the link before, and has kept what came meanwhile.
  const bool is_same =
      std::exchange(of.tells_incarnation, on.instance.incarnation) == on.instance.incarnation;
  for (std::size_t place = 0; place != of.told.size(); ++place) {
    topic_entry* const topic = table_.at(place);
    if (topic == nullptr) {
      of.told[place] = {};
      continue;
    }
    const bool has_begun = is_same && of.told[place].begun;
    set_told(of, *topic, told_as::nothing);
    of.told[place].pending = wanted_from(*topic, of) != told_as::nothing;
    of.told[place].begun = has_begun && of.told[place].pending;
    if (of.told[place].pending)
      of.pending.push_back(place);
    else
      erase_if_unused(*topic);
  }
  of.owes_fresh = of.owes_whole = true;
  if (of.has_told || !of.pending.empty())
    list(of);
}

void interests::tell() {
  std::vector<topic_neighbour*> all;
  all.reserve(neighbours_.size() + 1);
  std::swap(all, listed_);
  for (topic_neighbour* const one : all)
    one->is_listed = false;
  first_exception thrown;
  for (topic_neighbour* const one : all) {
    bool done = false;
    thrown.keep([&] { done = tell(*one); });
    one->of.interest_waits = !done;
    if (!done)
      one->retry.set(node_.now() + tell_again_interval);
  }
  thrown.rethrow();
}

bool interests::use_room(peer& of) {
  topic_neighbour* const known = find(of);
  if (known == nullptr)
    return true;
  session* const link = reach_.link_to(of);
  if (link == nullptr || link->registration != known->tells_link) {
    list(*known);
    return true;
  }
  try {
    of.interest_waits = !tell(*known, *link);
  } catch (const std::bad_alloc&) {
    output_.try_again(of);  // what was to come behind it waits too
    throw;
  }
  if (of.interest_waits)
    known->retry.set(node_.now() + tell_again_interval);
  return !of.interest_waits || link != of.current;
}

bool interests::tell(topic_neighbour& of) {
  session* const link = reach_.link_to(of.of);
  if (link != nullptr && link->registration == of.tells_link)
    return tell(of, *link);
  link_changed(of.of);
  return true;
}

bool interests::tell(topic_neighbour& of, session& on) {
  std::size_t done = 0;
  while (done != of.pending.size() && tell_topic(of, on, of.pending[done]))
    ++done;
  const bool is_all = done == of.pending.size();
  of.pending.erase(of.pending.begin(), of.pending.begin() + static_cast<std::ptrdiff_t>(done));
  if (!is_all)
    return false;
  if (!of.owes_whole)
    return true;
  if (!say(of, on, {.whole = true}))
    return false;
  of.owes_whole = false;
  return true;
}

bool interests::tell_topic(topic_neighbour& of, session& on, std::size_t place) {
  topic_entry* const topic = table_.at(place);
  told_state& state = of.told[place];
  if (topic == nullptr) {
    state = {};
    return true;
  }
  const told_as now = wanted_from(*topic, of);
  if (now == state.as) {
    state.pending = false;
    return true;
  }
  if (state.as == told_as::nothing && of.topics_told == of_link_max) {
    state.pending = false;
    if (!std::exchange(of.is_told_in_part, true)) {
      events_.log_about(of.of.id, of.of.id.to_string() + " is not asked for all topics: " +
                                      std::to_string(of_link_max) + " are the most of one link");
    }
    return true;
  }
  interest_body word{.topic = topic->name, .wanted = now != told_as::nothing, .turn = ++turns_};
  if (now == told_as::subscriber) {
    word.slow = static_cast<std::uint8_t>(topic->own->options.slow);
    word.waiting = topic->own->options.waiting;
  } else if (now == told_as::relay) {
    word.slow = static_cast<std::uint8_t>(overflow_policy::drop_oldest);
    word.waiting = relay_waiting;
  }
  if (!say(of, on, std::move(word)))
    return false;
  state.pending = false;
  set_told(of, *topic, now);
  erase_if_unused(*topic);
  return true;
}

bool interests::say(topic_neighbour& of, session& on, interest_body what) {
  what.fresh = of.owes_fresh;
  if (what.fresh && what.turn == 0)
    what.turn = ++turns_;
  if (!output_.say(on, what, message_purpose::data))
    return false;
  of.owes_fresh = false;
  of.has_told = true;
  return true;
}

}  // namespace atbus::detail
