/// @class cache::cache_service
/// Answers the requests of cache clients out of a store. A value goes from the arena into the
/// channel with one copy. While a client does not read its answers, its gets wait here as keys, and
/// no more of them than the client may have outstanding.
///
/// Ownership: refers to the node and the store, which outlive it. Threads: the node's.
#pragma once

#include <atbus/node.hpp>
#include <cstddef>
#include <deque>
#include <vector>

#include "cache_store.h"

namespace cache {

class cache_service {
 public:
  /// Sets the node's handlers of requests and of on_writable. `message_limit` is that of the node.
  cache_service(atbus::node& node, cache_store& store, std::size_t message_limit);
  cache_service(const cache_service&) = delete;
  cache_service& operator=(const cache_service&) = delete;

  /// Removes expired items now and then, until the node ends: for node::spawn.
  atbus::task<> sweep();

 private:
  // A get whose answer found no room.
  struct waiting {
    atbus::request what;
    std::vector<std::byte> key;
  };

  void get(atbus::request& r);
  void get_many(atbus::request& r);
  void set(atbus::request& r);
  void erase(atbus::request& r);
  void stats(atbus::request& r);
  // False: there is no room for the answer.
  bool answer_get(atbus::request& r, atbus::bytes_view key);
  void answer_waiting();

  atbus::node& node_;
  cache_store& store_;
  std::size_t message_limit_;
  std::deque<waiting> waiting_;
};

}  // namespace cache
