/// @class cache::cache_service
/// Answers the requests of cache clients out of a store. A value goes from the arena into the
/// channel with one copy. While a client does not read its answers, they wait here: a get as its
/// key, and no more of them than the client may have outstanding. Bodies that wait have
/// waiting_bytes_max together; a request for which that is not enough fails.
///
/// Ownership: refers to the node and the store, which outlive it. Threads: the node's.
#pragma once

#include <atbus/node.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "cache_store.h"

namespace cache {

class cache_service {
 public:
  /// Sets the node's handlers of requests and of on_writable. `message_limit` is that of the node.
  cache_service(atbus::node& node, cache_store& store, std::size_t message_limit);
  /// Bytes of keys and of short answers that may wait.
  static constexpr std::size_t waiting_bytes_max = std::size_t{16} << 20;

  cache_service(const cache_service&) = delete;
  cache_service& operator=(const cache_service&) = delete;

  /// Now and then removes expired items, and answers of clients that are gone, until the node ends:
  /// for node::spawn.
  atbus::task<> sweep();

 private:
  // What an answer is made of.
  enum class from : std::uint8_t { key, keys, reply, reason };

  // A request whose answer found no room.
  struct waiting {
    atbus::request what;
    from kind;
    std::vector<std::byte> bytes;
  };

  void get(atbus::request& r) { answer(r, from::key, r.bytes()); }
  void get_many(atbus::request& r) { answer(r, from::keys, r.bytes()); }
  void set(atbus::request& r);
  void erase(atbus::request& r);
  void stats(atbus::request& r);
  // Answers now, or once there is room.
  void answer(atbus::request& r, from kind, atbus::bytes_view bytes);
  void fail(atbus::request& r, std::string_view why) {
    answer(r, from::reason, atbus::as_bytes(why));
  }
  // False: there is no room for the answer.
  bool try_answer(atbus::request& r, from kind, atbus::bytes_view bytes);
  bool try_value(atbus::request& r, atbus::bytes_view key);
  bool try_values(atbus::request& r, atbus::bytes_view keys);
  void answer_waiting();
  void drop_unwanted();

  atbus::node& node_;
  cache_store& store_;
  std::size_t message_limit_;
  std::deque<waiting> waiting_;
  std::size_t waiting_bytes_ = 0;
};

}  // namespace cache
