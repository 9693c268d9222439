// The topics that a node knows: those that it publishes to or has subscribed to, and those that its neighbours want
// from it.
//
// An entry keeps its address until it is erased, and its place in tables that are indexed by place. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "atbus/subscription.hpp"
#include "node/peer/peer.h"
#include "node/topic/copy_queue.h"
#include "node/topic/stream_positions.h"

namespace atbus::detail {

struct topic_entry;
struct topic_neighbour;

// A neighbour wants a topic.
struct topic_wish {
  topic_wish(topic_entry& what, topic_neighbour& who, overflow_policy slow, std::size_t most)
      : of(what), by(who), may_block(slow == overflow_policy::would_block), waiting(slow, most) {}

  topic_entry& of;
  topic_neighbour& by;
  bool may_block;                 // it asks publishers to wait
  std::uint64_t generation = 0;   // of topic_neighbour, when it was told last
  std::uint64_t incarnation = 0;  // of the neighbour, when it was answered last
  bool is_listed = false;         // in topic_neighbour::waiting
  std::size_t refused = 0;        // bytes, by publish(): in topic_neighbour::blocking then
  copy_queue waiting;
};

// This node's own.
struct topic_subscription {
  std::function<void(const topic_message&)> handler;
  subscription_options options;
  bool ended = false;
};

struct topic_entry {
  explicit topic_entry(std::size_t& all_positions)
      : passed(all_positions), told_own(all_positions) {}

  std::string name;
  std::size_t place = 0;
  std::shared_ptr<topic_subscription> own;
  std::vector<std::unique_ptr<topic_wish>> wanted_by;
  // Of these, those of children, and of the parent, as topic_neighbour::as says.
  std::size_t by_children = 0;
  std::size_t by_parents = 0;
  // Of what has come from the parent or a child, which is what goes on; and of what the subscription has been told.
  stream_positions passed;
  stream_positions told_own;
  // What this node publishes there.
  std::uint64_t stream = 0;
  std::uint64_t number = 0;
  std::size_t publishers = 0;  // objects of this program's
  std::size_t told = 0;        // neighbours that have been told that this node wants it

  // Whether this node has use for what is published there.
  [[nodiscard]] bool is_wanted() const noexcept { return own != nullptr || !wanted_by.empty(); }
  [[nodiscard]] bool is_used() const noexcept {
    return is_wanted() || publishers != 0 || told != 0;
  }
};

// In which words a neighbour was told that a topic is wanted from it.
enum class told_as : std::uint8_t {
  nothing,
  subscriber,  // this node alone wants it, as its subscription says
  relay,       // others want it from this node
  outdated,    // in other words than now
};

// What is known of a topic at the end of a link.
struct told_state {
  told_as as = told_as::nothing;
  bool begun = false;      // it has answered, and knows since then that this node wants it
  bool pending = false;    // it is to be told
  std::uint64_t turn = 0;  // interest_body::turn, when it was told last
};

struct topic_neighbour {
  topic_neighbour(peer& whom, timer_queue& timers)
      : of(whom), gone(timers, nullptr), retry(timers, nullptr) {}

  peer& of;
  relation as = relation::peer;  // as counted in entries
  // What it wants.
  std::size_t wishes = 0;
  std::uint64_t generation = 0;      // counts how often it has begun to tell all
  std::uint64_t told_by_link = 0;    // session::registration of the link where it does
  std::uint64_t told_by_newest = 0;  // of the newest link where it has
  // The highest interest_body::turn that has counted, of that incarnation.
  std::uint64_t told_turn = 0;
  std::uint64_t told_by_incarnation = 0;
  std::vector<topic_wish*> waiting;  // those for which copies wait
  std::size_t next = 0;              // whose turn it is, of these; may be too high
  copy_queue::account account;
  std::vector<topic_wish*> blocking;  // those for which publish() has refused a message
  bool owes_room = false;             // one of these blocks no more: on_writable is owed
  timer gone;                         // when its wishes end: it has no link, or did not repeat them
  // What it is told.
  std::uint64_t tells_link = 0;  // session::registration; 0: none
  std::uint64_t tells_incarnation = 0;
  std::vector<told_state> told;      // by topic_entry::place
  std::vector<std::size_t> pending;  // places
  std::size_t topics_told = 0;
  bool is_told_in_part = false;  // and that was logged
  bool owes_fresh = false;
  bool owes_whole = false;
  bool has_told = false;   // ever, to this peer
  bool is_listed = false;  // among those to be told
  timer retry;             // there was no room for that
};

class topic_table {
 public:
  static constexpr std::size_t topics_max = 16384;

  [[nodiscard]] topic_entry* find(std::string_view name) const noexcept {
    const auto known = entries_.find(name);
    return known != entries_.end() ? known->second.get() : nullptr;
  }
  // Null: there are too many.
  topic_entry* find_or_make(std::string_view name) {
    if (topic_entry* const known = find(name); known != nullptr)
      return known;
    if (entries_.size() == topics_max)
      return nullptr;
    auto made = std::make_unique<topic_entry>(positions_);
    made->name = name;
    if (free_.empty()) {
      if (places_.size() == places_.capacity())
        places_.reserve(2 * places_.size() + 16);
      free_.reserve(places_.capacity());  // so that erase() takes no memory
      made->place = places_.size();
    } else {
      made->place = free_.back();
    }
    topic_entry& entry = *entries_.emplace(made->name, std::move(made)).first->second;
    if (entry.place == places_.size()) {
      places_.push_back(&entry);
    } else {
      free_.pop_back();
      places_[entry.place] = &entry;
    }
    return &entry;
  }
  void erase(topic_entry& of) noexcept {
    places_[of.place] = nullptr;
    free_.push_back(of.place);
    entries_.erase(entries_.find(of.name));
  }
  // Null: there is none.
  [[nodiscard]] topic_entry* at(std::size_t place) const noexcept {
    return place < places_.size() ? places_[place] : nullptr;
  }
  // By place; some are null.
  [[nodiscard]] const std::vector<topic_entry*>& all() const noexcept { return places_; }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

 private:
  std::size_t positions_ = 0;  // of all entries
  // The keys are the names in the entries.
  std::unordered_map<std::string_view, std::unique_ptr<topic_entry>> entries_;
  std::vector<topic_entry*> places_;
  std::vector<std::size_t> free_;
};

}  // namespace atbus::detail
