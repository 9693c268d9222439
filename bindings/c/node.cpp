// A node: how it begins and ends, whom it knows, its counters.
#include <string.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "node_calls.h"
#include "options.h"

namespace atbus::c_api {
namespace {

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
using std::chrono::nanoseconds;

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
  if (node == nullptr || !is_usable(node) || std::exchange(node->is_freed, true))
    return;                      // a callback of the close below frees it too
  (void)atbus_node_close(node);  // while its callbacks can still use the handle
  delete node;
}

atbus_code atbus_node_adopt(atbus_node* node) {
  if (node == nullptr)
    return refuse_null("the handle");
  if (node->process != nullptr && node->owner != &this_thread)
    return code_of(error{errc::invalid_argument, "the node is simulated: adopt its simulation"});
  node->set_thread(&this_thread);
  return ATBUS_OK;
}

atbus_code atbus_node_close(atbus_node* node) {
  return with(node, [](atbus_node& of) {
    of.claimed.reset();
    of.answers->collect();
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
    std::size_t count = 0;
    while (tokens != nullptr && tokens[count] != nullptr)
      ++count;
    secrets.reserve(count);  // a vector that grows leaves short ones in the memory that it had
    for (std::size_t i = 0; i != count; ++i)
      secrets.emplace_back(tokens[i]);
    return code_of(of.self.set_tokens(secrets));
  });
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
