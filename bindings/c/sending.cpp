// What a node sends: messages and broadcasts.
#include <chrono>
#include <type_traits>
#include <vector>

#include "node_calls.h"

using namespace atbus;
using namespace atbus::c_api;
using std::chrono::nanoseconds;

namespace {

result<id_range> range_of(std::uint64_t prefix, unsigned length) {
  return id_range::make(bus_id{prefix}, length);
}

// An id is a number.
static_assert(std::is_standard_layout_v<bus_id> && sizeof(bus_id) == sizeof(std::uint64_t));
const std::uint64_t* numbers_of(const std::vector<bus_id>& ids) noexcept {
  return reinterpret_cast<const std::uint64_t*>(ids.data());
}

}  // namespace

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
