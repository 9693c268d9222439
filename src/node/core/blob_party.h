// What a node knows of the blobs to and from one other node.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "atbus/blob.hpp"
#include "core/timer_queue.h"
#include "delivery/blob_flow.h"
#include "node/core/node_context.h"

namespace atbus::detail {

struct blob_party;

// Of something that was not said: whether it can be later.
[[nodiscard]] inline bool waits_for_room(const status& said) noexcept {
  return said == errc::would_block || said == errc::out_of_memory;
}

// Without memory the text is lost, and nothing else.
inline void keep_text(std::string& in, std::string_view text) noexcept {
  try {
    in = text;
  } catch (const std::bad_alloc&) {
  }
}

struct outgoing_blob {
  enum class stage : std::uint8_t {
    waiting,  // nothing of it was sent
    begun,    // its beginning was; nobody has answered
    granted,  // that incarnation has it in hand
    over,     // it has an outcome
  };

  blob_party* party;
  std::uint64_t number;
  std::uint32_t type;
  blob_source source;
  std::function<void(const blob_outcome&)> call;
  std::string note;
  blob_sending flow;
  stage now = stage::waiting;
  std::uint64_t holder = 0;  // the incarnation that has it in hand
  bool owes_query = false;
  status how{};
  std::string text{};
};

struct receiving_blob {
  blob_party* party;
  blob_id id;
  std::uint32_t type;
  blob_receiving flow;
  std::function<void(const blob_part&)> receiver;
  bool owes_query = false;
  bool is_over = false;
  bool is_told = false;   // its receiver is; or it never had one
  status how{};           // told to the receiver
  bool owes_end = false;  // to the sender,
  errc said = errc::ok;   // with this
  std::string said_text{};
};

struct blob_party {
  blob_party(bus_id whom, timer_queue& timers, std::function<void()> on_lost)
      : id(whom), lost(timers, std::move(on_lost)) {}

  // That a blob which was begun there ends.
  struct farewell {
    std::uint64_t number;
    std::uint32_t type;
    errc how;
  };

  bus_id id;
  timer lost;          // set while there is no link: what is under way then ends
  bool ready = false;  // there may be something to send
  std::list<outgoing_blob> waiting;
  std::list<outgoing_blob> active;  // the next one in front
  std::deque<farewell> farewells;
  std::list<receiving_blob> receiving;
  std::list<receiving_blob> owing;  // they are over, and there was no room to say so
  std::size_t untold = 0;           // of both directions, that are over and not told

  [[nodiscard]] bool empty() const noexcept {
    return waiting.empty() && active.empty() && farewells.empty() && receiving.empty() &&
           owing.empty() && untold == 0;
  }
};

class blob_parties {
 public:
  explicit blob_parties(node_context& node) noexcept : node_(node) {}
  // `call` is called for each that is lost. Set once.
  void on_lost(std::function<void(blob_party&)> call) { lost_ = std::move(call); }

  [[nodiscard]] blob_party* find(bus_id id) noexcept {
    const auto known = all_.find(id.value());
    return known != all_.end() ? known->second.get() : nullptr;
  }
  [[nodiscard]] blob_party& find_or_make(bus_id id) {
    if (blob_party* const known = find(id); known != nullptr)
      return *known;
    auto made = std::make_unique<blob_party>(id, node_.timers, nullptr);
    blob_party& of = *made;
    of.lost.replace([this, &of] { lost_(of); });
    all_.emplace(id.value(), std::move(made));
    return of;
  }
  void set_ready(blob_party& of) noexcept { of.ready = any_ready_ = true; }
  [[nodiscard]] bool has_ready() const noexcept { return any_ready_; }
  // Calls `each` with those that are ready, which then are not; it returns whether that one is again. Those
  // that are of no use any more are gone afterwards.
  template <class Each>
  void for_each_ready(Each&& each) {
    if (!std::exchange(any_ready_, false))
      return;
    for (auto at = all_.begin(); at != all_.end() && !node_.closed;) {
      blob_party& one = *at->second;
      if (one.ready) {
        one.ready = false;
        try {
          if (each(one))
            set_ready(one);
        } catch (...) {
          set_ready(one);  // and those behind it have not had their turn
          throw;
        }
      }
      at = one.empty() && !node_.closed ? all_.erase(at) : std::next(at);
    }
  }
  template <class Each>
  void for_each(Each&& each) {
    for (const auto& one : all_)
      each(*one.second);
  }

 private:
  node_context& node_;
  std::function<void(blob_party&)> lost_;
  std::map<std::uint64_t, std::unique_ptr<blob_party>>
      all_;  // one is added while each has its turn
  bool any_ready_ = false;
};

}  // namespace atbus::detail
