#include "node/core/topics.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "core/first_exception.h"
#include "core/text.h"

namespace atbus::detail {

// What the user does.

error topics::subscribe(std::string_view name, std::function<void(const topic_message&)> handler,
                        const subscription_options& options) {
  if (!is_topic_name(name)) {
    return {errc::invalid_argument, "the name of a topic has 1 to " +
                                        std::to_string(topic_name_max) + " printable characters"};
  }
  if (!handler)
    return {errc::invalid_argument, "there is no handler for the topic " + in_quotes(name)};
  if (options.slow == overflow_policy::disconnect || options.waiting == 0 ||
      options.waiting > subscription_options::waiting_max) {
    return {errc::invalid_argument,
            "the subscription to " + in_quotes(name) + ": `slow` can't be disconnect, and 1 to " +
                std::to_string(subscription_options::waiting_max) + " messages may wait"};
  }
  const topic_entry* const known = table_.find(name);
  if ((known == nullptr || known->own == nullptr) && subscriptions_ == interests::of_link_max) {
    return {errc::invalid_argument, "a node may subscribe to " +
                                        std::to_string(interests::of_link_max) + " topics at most"};
  }
  auto made = std::make_shared<topic_subscription>(topic_subscription{std::move(handler), options});
  topic_entry* const topic = table_.find_or_make(name);
  if (topic == nullptr) {
    return {errc::invalid_argument,
            "this node has " + std::to_string(topic_table::topics_max) + " topics already"};
  }
  if (topic->own != nullptr) {
    topic->own->ended = true;
    topic->own = std::move(made);
    interests_.tell_subscribed(*topic);
    return {};
  }
  interests_.begin(*topic);
  std::optional<stream_positions> heard;
  try {
    heard.emplace(topic->passed);
    if (topic->number != 0) {  // what is published from here on is not missed
      (void)heard->take({.publisher = node_.self.id,
                         .stream = topic->stream,
                         .number = topic->number,
                         .base = topic->number,
                         .what = topic_part::mark},
                        true, relation::peer);
    }
  } catch (const std::bad_alloc&) {
    interests_.erase_if_unused(*topic);
    throw;
  }
  topic->own = std::move(made);
  ++subscriptions_;
  interests_.changed(*topic);
  heard->swap(topic->told_own);
  return {};
}

error topics::unsubscribe(std::string_view name) {
  topic_entry* const topic = table_.find(name);
  if (topic == nullptr || topic->own == nullptr)
    return {errc::not_found, "there is no subscription to " + in_quotes(name)};
  topic->own->ended = true;
  topic->own = nullptr;
  --subscriptions_;
  interests_.changed(*topic);
  interests_.erase_if_unused(*topic);
  return {};
}

topic_entry* topics::hold(std::string_view name) {
  topic_entry* const topic = is_topic_name(name) ? table_.find_or_make(name) : nullptr;
  if (topic == nullptr)
    return nullptr;
  ++topic->publishers;
  while (topic->stream == 0)
    topic->stream = node_.on.random.word();
  return topic;
}

void topics::release(topic_entry& of) noexcept {
  --of.publishers;
  interests_.erase_if_unused(of);  // else the next one goes on with the stream: others know it
}

std::size_t topics::links(const topic_entry& of) const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
             of.wanted_by,
             [](const auto& one) { return interests::goes_on(nullptr, one->by.of); })) +
         (of.own != nullptr ? 1 : 0);
}

status topics::publish(topic_entry& to, bool waits, std::uint32_t type, bytes_view bytes,
                       std::size_t& links) {
  outbox_.give_up_claim();
  if (node_.closed || node_.leaving)
    return errc::closed;
  if (node_.is_forked())
    return errc::used_after_fork;
  if (!node_.fault)
    return node_.fault.code();
  if (node_.is_client())
    return errc::not_supported;
  const std::size_t size = topic_head_size(to.name) + bytes.size();
  if (size > node_.options.message_limit()) {
    return {errc::message_too_large, bytes.size(),
            node_.options.message_limit() -
                std::min(node_.options.message_limit(), topic_head_size(to.name))};
  }
  if (!to.is_wanted()) {
    ++to.number;
    ++node_.stats.published;
    return {};
  }
  if (topic_wish* const full = waits ? copies_.find_full(to, size) : nullptr; full != nullptr) {
    topic_copies::block(*full, size);
    ++node_.stats.would_block;
    return {errc::would_block, size};
  }
  const topic_head head{
      .publisher = node_.self.id, .stream = to.stream, .number = to.number + 1, .name = to.name};
  outgoing_copy what{head, type, bytes};
  std::list<held_message> own;
  if (to.own != nullptr) {
    if (!loopback_.has_room(size)) {
      ++node_.stats.would_block;
      return {errc::would_block, size};
    }
    held_message& message = own.emplace_back();
    message.type = type;
    message.flags = flag_topic;
    message.bytes.resize(size);
    what.write(message.bytes.data());
  }
  ++to.number;
  ++node_.stats.published;
  links = copies_.spread(to, what, nullptr);
  if (!own.empty()) {
    loopback_.push(own);
    ++links;
  }
  return {};
}

void topics::link_ended(peer& of, const session& gone) {
  interests_.link_ended(of, gone);
  if (topic_neighbour* const by = interests_.find(of); by != nullptr)
    copies_.tell_all_blocked(*by);
}

// Interest of neighbours.

void topics::take_interest(session& from, const interest_body& said) {
  if (interests_.is_late(from, said))
    return;
  topic_wish* const wish = interests_.take(from, said);
  if (wish != nullptr)
    answer(*wish, said.turn);
  else if (said.wanted && from.stage == session_stage::registered && from.knows_topics &&
           from.is_direct)
    refuse(from, said);
  if (topic_neighbour* const by = interests_.find(*from.of); by != nullptr)
    copies_.tell_blocked(*by);
}

// It is told where each stream begins for it, behind what waits for an earlier incarnation of its. If it is the same one
// it does not know a stream yet whose first messages were dropped.
void topics::answer(topic_wish& to, std::uint64_t turn) {
  to.waiting.drop_marks(to.by.account);
  if (std::exchange(to.incarnation, to.by.told_by_incarnation) != to.by.told_by_incarnation)
    to.waiting.forget_lost(to.by.account);
  const auto say = [&](const topic_head& head) {
    outgoing_copy word{head};
    copies_.copy_to(to, word);
  };
  say({.number = turn, .what = topic_part::begin, .name = to.of.name});
  copies_.for_each_stream(to, [&](bus_id publisher, std::uint64_t stream, std::uint64_t number) {
    say({.publisher = publisher,
         .stream = stream,
         .number = number,
         .base = to.waiting.base_of(publisher, stream, number),
         .what = topic_part::mark,
         .name = to.of.name});
  });
}

void topics::refuse(session& from, const interest_body& said) {
  ++node_.stats.subscriptions_refused;
  events_.log_about(from.of->id, from.of->id.to_string() + " can't have the topic " +
                                     in_quotes(said.topic) + ": there are too many");
  const topic_head head{.number = said.turn, .what = topic_part::refused, .name = said.topic};
  copies_.try_to_put(*from.of, head);
}

// What comes.

// Which node has published it is checked against what its link may say.
bool topics::may_publish(const topic_head& head, const peer& from) const noexcept {
  return routes_.may_come_from(head.publisher, from) && head.publisher != node_.self.id;
}

bool topics::take(session& from, const message_head& outer, bytes_view payload, bool redelivered) {
  topic_head head;
  if ((outer.flags & payload_flags) != flag_topic || !decode(payload, head))
    return false;
  const peer& by = *from.of;
  topic_entry* const topic = table_.find(head.name);
  if (head.what == topic_part::begin || head.what == topic_part::refused) {
    if (head.what == topic_part::refused)
      events_.log_about(by.id, by.id.to_string() + " has no room for the topic " +
                                   in_quotes(head.name) + ": nothing of it comes from there");
    else if (topic != nullptr)
      interests_.set_begun(by, *topic, head.number);
    return true;
  }
  if (topic == nullptr || !topic->is_wanted() || !may_publish(head, by)) {
    ++node_.stats.topic_strays;
    if (!routes_.may_come_from(head.publisher, by))
      events_.log_cause(errc::denied, "node " + by.id.to_string() +
                                          " passes on a message of a topic in the name of " +
                                          head.publisher.to_string());
    return true;
  }
  head.unproven = head.unproven || reach_.is_unproven_link(from);
  take(*topic, head, &by, interests_.has_begun(by, *topic), outer.type, payload, redelivered);
  return true;
}

bool topics::take_inherited(const node_instance& source, const peer* from,
                            const message_head& outer, bytes_view payload, bool redelivered) {
  topic_head head;
  if ((outer.flags & payload_flags) != flag_topic || !decode(payload, head))
    return false;
  const bool is_of_tree = routes_.own() || !node_.options.parents().empty();
  topic_entry* const topic = table_.find(head.name);
  const bool has_place = from != nullptr && !from->sessions.empty();
  const bool may_come =
      has_place ? may_publish(head, *from) : head.publisher == source.id || is_of_tree;
  if (head.what > topic_part::mark || topic == nullptr || !topic->is_wanted() || !may_come) {
    node_.stats.topic_strays += head.what > topic_part::mark ? 0 : 1;
    return true;
  }
  take(*topic, head, from, false, outer.type, payload, redelivered);
  return true;
}

void topics::take(topic_entry& of, const topic_head& head, const peer* from, bool begun,
                  std::uint32_t type, bytes_view payload, bool redelivered) {
  const bool is_message = head.what == topic_part::message;
  const bool is_allowed =
      !is_message || access_.admits(head.publisher, message_class::message, type);
  const relation via = from != nullptr ? from->as : relation::peer;
  const bytes_view bytes = payload.subspan(topic_head_size(head.name));
  if (via == relation::child || via == relation::parent) {
    const stream_positions::arrival what = of.passed.take(head, begun, via, from->id);
    if (!what.is_old && is_allowed && head.hops_left > 1)
      pass_on(of, head, what.base, *from, type, bytes, redelivered);
    else if (!what.is_old && is_allowed && is_message)
      end_here(of, head, *from);
  }
  if (of.own == nullptr)
    return;
  const stream_positions::arrival what = of.told_own.take(head, begun, via);
  if (what.is_old) [[unlikely]] {
    node_.stats.duplicates += is_message && what.missed == 0 ? 1 : 0;
    return tell_own(of, head, what.missed, false, type, bytes, redelivered);
  }
  bool may_be_known = what.may_be_known;
  if (!what.is_settled && is_message) [[unlikely]] {
    if (has_other_way(of, head.publisher, begun, via))
      may_be_known = true;
    else
      of.told_own.settle(head.publisher);
  }
  const bool is_trusted =
      !head.unproven || !node_.tokens.empty() || node_.options.allow_unauthenticated();
  node_.stats.topic_strays += is_message && !is_trusted ? 1 : 0;
  tell_own(of, head, what.missed, is_message && is_allowed && is_trusted, type, bytes,
           redelivered || may_be_known);
}

// What a publisher that is a peer sends by itself once it has answered was published since. Until then, what the tree brings
// may have come from it before, and what it sends by the tree: as long as what was published before this node began can be
// under way. It may never answer.
bool topics::has_other_way(const topic_entry& of, bus_id publisher, bool begun,
                           relation via) noexcept {
  const auto under_way = moment_after(began_at_, node_.options.retry_longest());
  if (node_.now() >= moment_after(under_way, node_.options.first_idle_timeout()))
    return false;
  if (via == relation::peer)
    return !begun && (routes_.own() || !node_.options.parents().empty());
  const peer* const direct = peers_.find(publisher);
  return direct != nullptr && direct->as == relation::peer && !interests_.has_begun(*direct, of) &&
         (std::ranges::any_of(direct->sessions,
                              [](const session* one) { return one->is_direct; }) ||
          std::ranges::any_of(direct->dials, [](const dial& one) { return !one.is_relayed(); }));
}

// `base`: others can't know either where this stream begins, unless it is 0.
void topics::pass_on(topic_entry& of, topic_head head, std::uint64_t base, const peer& from,
                     std::uint32_t type, bytes_view bytes, bool redelivered) {
  --head.hops_left;
  if (base != 0) {
    topic_head begins = head;
    begins.what = topic_part::mark;
    begins.number = begins.base = base;
    outgoing_copy word{begins};
    (void)copies_.spread(of, word, &from);
  }
  outgoing_copy copy{head, type, bytes, redelivered};
  node_.stats.relayed += copies_.spread(of, copy, &from);
}

// It has come over as many links as one may. Who wants it behind the next one is not told.
void topics::end_here(const topic_entry& of, const topic_head& head, const peer& from) noexcept {
  const auto links = std::ranges::count_if(
      of.wanted_by, [&](const auto& one) { return interests::goes_on(&from, one->by.of); });
  if (links == 0)
    return;
  node_.stats.topic_drops += static_cast<std::uint64_t>(links);
  try {
    events_.log_cause(errc::hop_limit, "messages of the topic " + in_quotes(head.name) +
                                           " have come over as many links as they may: node " +
                                           node_.self.id.to_string() + " passes none on");
  } catch (const std::bad_alloc&) {  // they are counted
  }
}

void topics::take_own(std::uint32_t type, bytes_view payload) {
  topic_head head;
  if (!decode(payload, head))
    return;
  topic_entry* const topic = table_.find(head.name);
  if (topic == nullptr || topic->own == nullptr)
    return;
  const auto what = topic->told_own.take(head, true, relation::peer);
  if (!what.is_old)
    tell_own(*topic, head, what.missed, true, type, payload.subspan(topic_head_size(head.name)),
             false);
}

// After a handler has run, the topic may be gone.
void topics::tell_own(const topic_entry& of, const topic_head& head, std::uint64_t missed,
                      bool is_message, std::uint32_t type, bytes_view bytes, bool redelivered) {
  const std::shared_ptr<topic_subscription> own = of.own;
  if (own == nullptr)
    return;
  first_exception thrown;
  if (missed != 0) {
    node_.stats.topic_missed += missed;
    if (own->options.on_missed)
      thrown.keep([&] { own->options.on_missed(head.publisher, missed); });
  }
  if (is_message && !node_.closed && !own->ended) {
    inbox_.note(head.publisher, type, bytes, redelivered);
    ++node_.stats.topic_messages;
    const topic_message message{head.name, head.publisher, head.number, type, bytes, redelivered};
    thrown.keep([&] { own->handler(message); });
  }
  thrown.rethrow();
}

}  // namespace atbus::detail
