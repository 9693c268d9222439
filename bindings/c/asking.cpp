// What a node asks others: requests and commands.
#include <bit>
#include <chrono>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "node_calls.h"

using namespace atbus;
using namespace atbus::c_api;
using std::chrono::nanoseconds;

static_assert(std::is_trivially_copyable_v<request_handle> &&
              sizeof(request_handle) == sizeof(atbus_request_handle));

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
