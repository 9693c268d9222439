#include <string.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "handles.h"
#include "options.h"

namespace atbus::c_api {
namespace {

using std::chrono::nanoseconds;

atbus_message to_c(const message& from) noexcept {
  return {.source = from.source().value(),
          .destination = from.destination().value(),
          .type = from.type(),
          .redelivered = from.redelivered() ? 1 : 0,
          .bytes = from.bytes().data(),
          .size = from.bytes().size()};
}

atbus_undelivered to_c(const undelivered& from) noexcept {
  return {.destination = from.destination().value(),
          .number = from.number(),
          .count = from.count(),
          .type = from.type(),
          .outcome = static_cast<atbus_code>(from.outcome()),
          .reason = static_cast<atbus_code>(from.reason()),
          .bytes = from.bytes().data(),
          .size = from.bytes().size()};
}

atbus_endpoint to_c(const endpoint& from) noexcept {
  return {.id = from.id().value(),
          .incarnation = from.incarnation(),
          .address = from.address().c_str(),
          .round_trip_ns = from.round_trip().count(),
          .connected = from.connected() ? 1 : 0};
}

template <class Response>
atbus_response to_c(const Response& from) noexcept {
  return {.code = static_cast<atbus_code>(from.how().code()),
          .source = from.source().value(),
          .bytes = from.bytes().data(),
          .size = from.bytes().size()};
}

// Calls `use` with the node, if it can be used here; that returns an atbus_code.
template <class Node, class Use>
atbus_code with(Node* node, Use&& use) noexcept {
  if (!is_usable(node)) [[unlikely]]
    return ATBUS_INVALID_ARGUMENT;
  return guard([&] { return use(*node); });
}

// The same for what sets a callback: `set` gets the node.
template <class Set>
atbus_code with_open(atbus_node* node, Set&& set) noexcept {
  return with(node, [&](atbus_node& of) {
    if (!of.self.is_open())
      return code_of(status{errc::closed});
    set(of.self);
    return ATBUS_OK;
  });
}

// The library's own copies of secrets do not stay in its memory.
template <class Wipe>
class wiped_behind {
 public:
  explicit wiped_behind(Wipe wipe) : wipe_(std::move(wipe)) {}
  wiped_behind(const wiped_behind&) = delete;
  wiped_behind& operator=(const wiped_behind&) = delete;
  ~wiped_behind() { wipe_(); }

 private:
  Wipe wipe_;
};

result<id_range> range_of(std::uint64_t prefix, unsigned length) {
  return id_range::make(bus_id{prefix}, length);
}

// An id is a number.
static_assert(std::is_standard_layout_v<bus_id> && sizeof(bus_id) == sizeof(std::uint64_t));
const std::uint64_t* numbers_of(const std::vector<bus_id>& ids) noexcept {
  return reinterpret_cast<const std::uint64_t*>(ids.data());
}

static_assert(std::is_trivially_copyable_v<request_handle> &&
              sizeof(request_handle) == sizeof(atbus_request_handle));

}  // namespace

result<std::vector<std::string>> words_of(const char* const* words, std::size_t count) {
  if (words == nullptr && count != 0)
    return error{errc::invalid_argument, "the words are NULL"};
  std::vector<std::string> made;
  made.reserve(count);
  for (std::size_t i = 0; i != count; ++i) {
    if (words[i] == nullptr)
      return error{errc::invalid_argument, "word " + std::to_string(i) + " is NULL"};
    made.emplace_back(words[i]);
  }
  return made;
}

}  // namespace atbus::c_api

using namespace atbus;
using namespace atbus::c_api;

atbus_code atbus_node_new(uint64_t id, const atbus_node_options* options, atbus_node** node) {
  if (node == nullptr)
    return refuse_null("the place for the node");
  *node = nullptr;
  return guard([&] {
    result<node_options> wanted = to_node_options(options);
    if (!wanted)
      return code_of(wanted.error());
    const wiped_behind wipe{[&] { wanted->wipe_tokens(); }};
    auto made = std::make_unique<atbus_node>(bus_id{id}, *wanted);
    if (error bad = made->self.fault(); !bad)
      return code_of(std::move(bad));
    *node = made.release();
    return ATBUS_OK;
  });
}

void atbus_node_free(atbus_node* node) {
  if (node != nullptr && is_usable(node))
    delete node;
}

atbus_code atbus_node_adopt(atbus_node* node) {
  if (node == nullptr)
    return refuse_null("the handle");
  node->owner = *node->shared_owner = &this_thread;
  return ATBUS_OK;
}

atbus_code atbus_node_close(atbus_node* node) {
  return with(node, [](atbus_node& of) {
    of.claimed.reset();
    of.self.close();
    return ATBUS_OK;
  });
}

int atbus_node_is_open(const atbus_node* node) {
  return is_usable(node) && node->self.is_open() ? 1 : 0;
}

uint64_t atbus_node_id(const atbus_node* node) {
  return is_usable(node) ? node->self.id().value() : 0;
}

uint64_t atbus_node_incarnation(const atbus_node* node) {
  return is_usable(node) ? node->self.incarnation() : 0;
}

uint64_t atbus_node_parent(const atbus_node* node) {
  return is_usable(node) ? node->self.parent().value() : 0;
}

atbus_code atbus_node_listen(atbus_node* node, const char* address) {
  return with(node, [&](atbus_node& of) {
    return address != nullptr ? code_of(of.self.listen(address)) : refuse_null("the address");
  });
}

const char* atbus_node_address(atbus_node* node, size_t index) {
  const char* found = nullptr;
  with(node, [&](atbus_node& of) {
    auto all = of.self.addresses();
    if (index >= all.size())
      return ATBUS_NOT_FOUND;
    of.address = std::move(all[index]);
    found = of.address.c_str();
    return ATBUS_OK;
  });
  return found;
}

atbus_code atbus_node_connect(atbus_node* node, uint64_t id, const char* address) {
  return with(node, [&](atbus_node& of) {
    return address != nullptr ? code_of(of.self.connect(bus_id{id}, address))
                              : refuse_null("the address");
  });
}

atbus_code atbus_node_disconnect(atbus_node* node, uint64_t id) {
  return with(node, [&](atbus_node& of) { return code_of(of.self.disconnect(bus_id{id})); });
}

atbus_code atbus_node_set_policy(atbus_node* node, uint64_t id, int overflow, int64_t deadline_ns) {
  return with(node, [&](atbus_node& of) {
    if (overflow < 0 || overflow > ATBUS_OVERFLOW_DISCONNECT)
      return code_of(error{errc::invalid_argument, "there is no such policy"});
    return code_of(
        of.self.set_policy(bus_id{id}, {.overflow = static_cast<overflow_policy>(overflow),
                                        .message_deadline = nanoseconds{deadline_ns}}));
  });
}

atbus_code atbus_node_set_tokens(atbus_node* node, const char* const* tokens) {
  return with(node, [&](atbus_node& of) {
    std::vector<std::string> secrets;
    const wiped_behind wipe{[&] {
      for (std::string& one : secrets)
        explicit_bzero(one.data(), one.size());
    }};
    for (; tokens != nullptr && *tokens != nullptr; ++tokens)
      secrets.emplace_back(*tokens);
    return code_of(of.self.set_tokens(secrets));
  });
}

atbus_code atbus_node_send(atbus_node* node, uint64_t to, uint32_t type, const void* bytes,
                           size_t size) {
  if (!is_usable(node) || !are_bytes(bytes, size)) [[unlikely]]
    return ATBUS_INVALID_ARGUMENT;
  return code_of(node->self.send(bus_id{to}, type, view_of(bytes, size)));
}

atbus_code atbus_node_send_required(atbus_node* node, uint64_t to, uint32_t type, const void* bytes,
                                    size_t size) {
  if (!is_usable(node) || !are_bytes(bytes, size))
    return ATBUS_INVALID_ARGUMENT;
  return code_of(node->self.send(bus_id{to}, type, view_of(bytes, size), delivery_policy::require));
}

namespace {

// Makes the slot where it stays, without a move.
struct claim_of {
  atbus::node& of;
  bus_id to;
  std::uint32_t type;
  std::size_t size;

  // NOLINTNEXTLINE(google-explicit-constructor)
  operator node_slot() const noexcept { return of.claim(to, type, size); }
};

}  // namespace

void* atbus_node_claim(atbus_node* node, uint64_t to, uint32_t type, size_t size,
                       atbus_code* code) {
  atbus_code how = ATBUS_INVALID_ARGUMENT;
  if (is_usable(node)) [[likely]] {
    const node_slot& slot = node->claimed.emplace(claim_of{node->self, bus_id{to}, type, size});
    if (slot) [[likely]] {
      if (code != nullptr)
        *code = ATBUS_OK;
      return slot.bytes().data();
    }
    how = code_of(slot.why());
    node->claimed.reset();
  }
  if (code != nullptr)
    *code = how;
  return nullptr;
}

atbus_code atbus_node_commit(atbus_node* node, size_t size) {
  if (!is_usable(node)) [[unlikely]]
    return ATBUS_INVALID_ARGUMENT;
  return commit(node->claimed, size);
}

atbus_code atbus_node_broadcast(atbus_node* node, uint64_t prefix, unsigned length, uint32_t type,
                                const void* bytes, size_t size) {
  return with(node, [&](atbus_node& of) {
    const result<id_range> to = range_of(prefix, length);
    if (!to)
      return code_of(to.error());
    return are_bytes(bytes, size) ? code_of(of.self.broadcast(*to, type, view_of(bytes, size)))
                                  : ATBUS_INVALID_ARGUMENT;
  });
}

atbus_code atbus_node_broadcast_confirmed(atbus_node* node, uint64_t prefix, unsigned length,
                                          uint32_t type, const void* bytes, size_t size,
                                          int64_t timeout_ns, atbus_reached_callback reached,
                                          void* user) {
  return with(node, [&](atbus_node& of) {
    const result<id_range> to = range_of(prefix, length);
    if (!to)
      return code_of(to.error());
    if (reached == nullptr)
      return refuse_null("the callback");
    if (!are_bytes(bytes, size))
      return ATBUS_INVALID_ARGUMENT;
    return code_of(of.self.broadcast(*to, type, view_of(bytes, size), nanoseconds{timeout_ns},
                                     [reached, user](const std::vector<bus_id>& ids) {
                                       reached(user, numbers_of(ids), ids.size());
                                     }));
  });
}

atbus_code atbus_node_request(atbus_node* node, uint64_t to, uint32_t type, const void* bytes,
                              size_t size, int64_t timeout_ns, atbus_response_callback call,
                              void* user, atbus_request_handle* handle) {
  return with(node, [&](atbus_node& of) {
    if (call == nullptr)
      return refuse_null("the callback");
    if (!are_bytes(bytes, size))
      return ATBUS_INVALID_ARGUMENT;
    const request_handle made =
        of.self.request(bus_id{to}, type, view_of(bytes, size), nanoseconds{timeout_ns},
                        [call, user](const response& r) {
                          const atbus_response outcome = to_c(r);
                          call(user, &outcome);
                        });
    if (handle != nullptr)
      *handle = std::bit_cast<atbus_request_handle>(made);
    return code_of(made.why());
  });
}

atbus_code atbus_node_cancel(atbus_node* node, const atbus_request_handle* handle) {
  return with(node, [&](atbus_node& of) {
    if (handle == nullptr)
      return refuse_null("the handle of the request");
    return code_of(of.self.cancel(std::bit_cast<request_handle>(*handle)));
  });
}

atbus_code atbus_node_gather(atbus_node* node, const uint64_t* to, size_t count, uint32_t type,
                             const void* bytes, size_t size, size_t enough, int64_t timeout_ns,
                             atbus_gather_callback call, void* user) {
  return with(node, [&](atbus_node& of) {
    if (to == nullptr || call == nullptr)
      return refuse_null(to == nullptr ? "the ids" : "the callback");
    if (!are_bytes(bytes, size))
      return ATBUS_INVALID_ARGUMENT;
    const std::vector<bus_id> ids{to, to + count};
    // Here, where it may fail: the callback has to be called, whatever there is no memory for then.
    const auto place = std::make_shared<std::vector<atbus_response>>();
    place->reserve(count);
    return code_of(of.self.gather(ids, type, view_of(bytes, size), enough, nanoseconds{timeout_ns},
                                  [call, user, place](const std::vector<kept_response>& all) {
                                    for (const kept_response& one : all)
                                      place->push_back(to_c(one));
                                    call(user, place->data(), place->size());
                                  }));
  });
}

namespace {

// The values of a reply, each of which ends with a zero byte. False: there is no memory.
bool list_values(const command_reply& from, std::vector<const char*>& to) noexcept try {
  to.reserve(from.values().size());
  for (const std::string& one : from.values())
    to.push_back(one.c_str());
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace

atbus_code atbus_node_command(atbus_node* node, uint64_t to, const char* const* words, size_t count,
                              int64_t timeout_ns, atbus_reply_callback call, void* user) {
  return with(node, [&](atbus_node& of) {
    if (call == nullptr)
      return refuse_null("the callback");
    result<std::vector<std::string>> all = words_of(words, count);
    if (!all)
      return code_of(all.error());
    return code_of(of.self.command(
        bus_id{to}, command_words{*std::move(all)}, nanoseconds{timeout_ns},
        [call, user](status how, const command_reply& reply) {
          std::vector<const char*> values;
          const bool listed = list_values(reply, values);
          call(user, listed ? static_cast<atbus_code>(how.code()) : ATBUS_OUT_OF_MEMORY,
               values.data(), values.size());
        }));
  });
}

atbus_code atbus_node_on_message(atbus_node* node, atbus_message_callback call, void* user) {
  return with(node, [&](atbus_node& of) {
    if (of.taker != nullptr && of.taker->holds())
      return code_of(error{errc::invalid_argument,
                           "messages wait for atbus_node_receive, which has to give them first"});
    if (!of.self.is_open())
      return code_of(status{errc::closed});
    if (of.taker != nullptr) {
      of.taker->set_callback(call, user);
      return ATBUS_OK;
    }
    if (call == nullptr) {
      of.self.on_message({});
      return ATBUS_OK;
    }
    of.self.on_message([call, user](const message& what) {
      const atbus_message arrived = to_c(what);
      call(user, &arrived);
    });
    return ATBUS_OK;
  });
}

namespace {

std::function<void(request&)> handler_of(const atbus_node& by, atbus_request_callback call,
                                         void* user) {
  if (call == nullptr)
    return {};
  return [call, user, owner = by.shared_owner](request& what) {
    atbus_request arrived{what, owner};
    call(user, &arrived);
  };
}

std::function<void(command&)> handler_of(const atbus_node& by, atbus_command_callback call,
                                         void* user) {
  if (call == nullptr)
    return {};
  return [call, user, owner = by.shared_owner](command& what) {
    atbus_command arrived{what, owner};
    call(user, &arrived);
  };
}

}  // namespace

atbus_code atbus_node_on_request(atbus_node* node, uint32_t type, atbus_request_callback call,
                                 void* user) {
  return with_open(
      node, [&](atbus::node& self) { self.on_request(type, handler_of(*node, call, user)); });
}

atbus_code atbus_node_on_any_request(atbus_node* node, atbus_request_callback call, void* user) {
  return with_open(node,
                   [&](atbus::node& self) { self.on_request(handler_of(*node, call, user)); });
}

atbus_code atbus_node_on_command(atbus_node* node, const char* name, atbus_command_callback call,
                                 void* user) {
  return with_open(node, [&](atbus::node& self) {
    if (name != nullptr)
      self.on_command(name, handler_of(*node, call, user));
    else
      self.on_command(handler_of(*node, call, user));
  });
}

atbus_code atbus_node_on_undelivered(atbus_node* node, atbus_undelivered_callback call,
                                     void* user) {
  return with_open(node, [&](atbus::node& self) {
    if (call == nullptr)
      return self.on_undelivered({});
    self.on_undelivered([call, user](const undelivered& what) {
      const atbus_undelivered reported = to_c(what);
      call(user, &reported);
    });
  });
}

atbus_code atbus_node_on_endpoint(atbus_node* node, atbus_endpoint_callback call, void* user) {
  return with_open(node, [&](atbus::node& self) {
    if (call == nullptr)
      return self.on_endpoint({});
    self.on_endpoint([call, user](const endpoint& which, endpoint_event event) {
      const atbus_endpoint seen = to_c(which);
      call(user, &seen, static_cast<atbus_endpoint_event>(event));
    });
  });
}

atbus_code atbus_node_on_writable(atbus_node* node, atbus_writable_callback call, void* user) {
  return with_open(node, [&](atbus::node& self) {
    if (call == nullptr)
      return self.on_writable({});
    self.on_writable([call, user](bus_id id) { call(user, id.value()); });
  });
}

atbus_code atbus_node_on_log(atbus_node* node, atbus_log_callback call, void* user) {
  return with_open(node, [&](atbus::node& self) {
    if (call == nullptr)
      return self.on_log({});
    self.on_log([call, user](std::string_view line) { call(user, line.data(), line.size()); });
  });
}

atbus_code atbus_node_on_ready(atbus_node* node, uint64_t id, int64_t timeout_ns,
                               atbus_ready_callback call, void* user) {
  return with(node, [&](atbus_node& of) {
    if (call == nullptr)
      return refuse_null("the callback");
    return code_of(of.self.on_ready(bus_id{id}, nanoseconds{timeout_ns}, [call, user](status how) {
      call(user, static_cast<atbus_code>(how.code()));
    }));
  });
}

atbus_code atbus_node_poll(atbus_node* node, size_t messages, int64_t time_ns, size_t* delivered) {
  if (delivered != nullptr)
    *delivered = 0;
  return with(node, [&](atbus_node& of) {
    if (!of.self.is_open())
      return code_of(status{errc::closed});
    poll_limits limits{.time = nanoseconds{time_ns}};
    if (messages != 0)
      limits.messages = messages;
    const std::size_t count = of.self.poll(limits);  // a callback may have freed the node
    if (delivered != nullptr)
      *delivered = count;
    return ATBUS_OK;
  });
}

namespace {

void take_batches(atbus_node& of) {
  if (of.taker == nullptr) {
    auto made = std::make_shared<message_taker>(of.message_limit);
    // Within a callback this takes effect behind it; what comes before that goes to the callback of messages.
    of.self.on_message([made](const message& what) { made->take(to_c(what)); });
    of.taker = std::move(made);
  }
  of.taker->set_batches();
}

// Polls for no more messages than there is room for, however long they are.
void poll_for_batch(atbus_node& of, message_taker& into, std::size_t most) {
  struct polling {
    explicit polling(message_taker& taker) noexcept : of(taker) { of.is_polling = true; }
    ~polling() { of.is_polling = false; }
    message_taker& of;
  } const here{into};
  for (std::size_t room = into.room(most); room != 0; room = into.room(most)) {
    const std::size_t before = into.count();
    (void)of.self.poll({.messages = room});
    if (into.is_over || !of.self.is_open() || into.count() == before)
      return;
  }
}

}  // namespace

atbus_code atbus_node_receive(atbus_node* node, size_t messages, const atbus_message** array,
                              size_t* count, const void** bytes, size_t* size) {
  if (array == nullptr || count == nullptr || bytes == nullptr || size == nullptr)
    return refuse_null("a place for what has come");
  *array = nullptr;
  *bytes = nullptr;
  *count = *size = 0;
  return with(node, [&](atbus_node& of) {
    if (of.taker != nullptr && !of.taker->is_at_home())
      return code_of(status{errc::used_after_fork});
    const bool waits = of.taker != nullptr && of.taker->holds();
    if (!waits && !of.self.is_open())
      return code_of(status{errc::closed});
    if (of.taker != nullptr && of.taker->is_polling)
      return ATBUS_OK;
    take_batches(of);
    const std::shared_ptr<message_taker> taker = of.taker;  // callbacks may free the node
    const std::size_t most = messages != 0 ? messages : poll_limits{}.messages;
    taker->begin_batch(most);
    if (!waits)
      poll_for_batch(of, *taker, most);
    if (taker->is_over)
      return code_of(status{errc::closed});
    if (!taker->is_at_home())
      return code_of(status{errc::used_after_fork});
    bytes_view all;
    const std::span<const atbus_message> given = taker->give(most, all);
    *array = given.data();
    *count = given.size();
    *bytes = all.data();
    *size = all.size();
    return ATBUS_OK;
  });
}

atbus_code atbus_node_wait(atbus_node* node, int64_t timeout_ns) {
  return with(node, [&](atbus_node& of) { return code_of(of.self.wait(nanoseconds{timeout_ns})); });
}

atbus_code atbus_node_run(atbus_node* node) {
  return with(node, [](atbus_node& of) { return code_of(of.self.run()); });
}

atbus_code atbus_node_stop(atbus_node* node) {
  return with_open(node, [](atbus::node& self) { self.stop(); });
}

atbus_code atbus_node_shutdown(atbus_node* node, int64_t deadline_ns) {
  return with(node,
              [&](atbus_node& of) { return code_of(of.self.shutdown(nanoseconds{deadline_ns})); });
}

atbus_code atbus_node_flush(atbus_node* node) {
  return with_open(node, [](atbus::node& self) { self.flush(); });
}

int atbus_node_descriptor(const atbus_node* node) {
  return is_usable(node) ? node->self.descriptor() : -1;
}

int atbus_node_prepare_sleep(atbus_node* node) {
  bool ready = false;
  with(node, [&](atbus_node& of) {
    ready = of.self.prepare_sleep();
    return ATBUS_OK;
  });
  return ready ? 1 : 0;
}

atbus_code atbus_node_finish_sleep(atbus_node* node) {
  return with_open(node, [](atbus::node& self) { self.finish_sleep(); });
}

int64_t atbus_node_longest_sleep(const atbus_node* node) {
  return is_usable(node) ? node->self.longest_sleep().count() : 0;
}

atbus_code atbus_node_get_stats(const atbus_node* node, atbus_node_stats* stats) {
  return with(node, [&](const atbus_node& of) {
    if (stats == nullptr)
      return refuse_null("the place for the counters");
    const std::size_t room = stats->size;
    if (room < sizeof(std::size_t) || room > 16 * sizeof(atbus_node_stats))
      return code_of(error{errc::invalid_argument, "the size of the counters is not set"});
    const node_stats all = of.self.stats();
    const atbus_node_stats made = {.size = room,
                                   .accepted = all.accepted,
                                   .accepted_bytes = all.accepted_bytes,
                                   .delivered = all.delivered,
                                   .delivered_bytes = all.delivered_bytes,
                                   .redelivered = all.redelivered,
                                   .commands = all.commands,
                                   .replies = all.replies,
                                   .stray_replies = all.stray_replies,
                                   .requests = all.requests,
                                   .expired_requests = all.expired_requests,
                                   .responses = all.responses,
                                   .late_responses = all.late_responses,
                                   .malformed = all.malformed,
                                   .would_block = all.would_block,
                                   .refused = all.refused,
                                   .not_delivered = all.not_delivered,
                                   .outcome_unknown = all.outcome_unknown,
                                   .deadline_drops = all.deadline_drops,
                                   .overflow_drops = all.overflow_drops,
                                   .duplicates = all.duplicates,
                                   .broadcast_drops = all.broadcast_drops,
                                   .registrations = all.registrations,
                                   .registrations_failed = all.registrations_failed,
                                   .strangers_silent = all.strangers.silent,
                                   .strangers_late = all.strangers.late,
                                   .strangers_crowded = all.strangers.crowded,
                                   .strangers_talkative = all.strangers.talkative,
                                   .strangers_faulty = all.strangers.faulty,
                                   .strangers_delayed = all.strangers.delayed,
                                   .links_lost = all.links_lost,
                                   .violations = all.violations,
                                   .dials = all.dials,
                                   .relayed = all.relayed,
                                   .relay_drops = all.relay_drops,
                                   .access_denied = all.access_denied,
                                   .acknowledgements = all.acknowledgements,
                                   .sessions_forgotten = all.sessions_forgotten};
    std::memset(stats, 0, room);
    std::memcpy(stats, &made, std::min(room, sizeof(made)));
    return ATBUS_OK;
  });
}

atbus_code atbus_node_endpoints(const atbus_node* node, atbus_endpoint_callback each, void* user) {
  return with(node, [&](const atbus_node& of) {
    if (each == nullptr)
      return refuse_null("the callback");
    for (const endpoint& one : of.self.endpoints()) {
      const atbus_endpoint seen = to_c(one);
      each(user, &seen, one.connected() ? ATBUS_ENDPOINT_CONNECTED : ATBUS_ENDPOINT_DISCONNECTED);
    }
    return ATBUS_OK;
  });
}
