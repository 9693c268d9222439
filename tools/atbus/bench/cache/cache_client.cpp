// A client of `bench cache` that is a node: keeps so many gets in flight, each followed by a set if
// it is a miss.
#include <cstring>
#include <numeric>
#include <vector>

#include "atbus/bench/cache/cache_load.h"
#include "atbus/bench/cache/cache_node.h"
#include "atbus/bench/tasks.h"
#include "cache_protocol.h"

namespace atbus::bench {
namespace {

class cache_client {
 public:
  explicit cache_client(worker& self)
      : self_{self},
        load_{self},
        server_{node_of_worker(self.work(), 0)},
        body_(value_at + load_.cases().longest(), std::byte{0x5a}),
        slots_(load_.work().in_flight),
        free_(load_.work().in_flight),
        at_{open_cache_node(self)} {
    std::iota(free_.begin(), free_.end(), std::uint32_t{0});
  }

  // False: the run was stopped first.
  [[nodiscard]] bool connect() { return bench::connect(self_, at_); }

  void run() {
    while (!is_over_ || free_.size() != slots_.size()) {
      if (self_.stopped() && patience_ended()) {
        break;
      }
      const bool has_sent = send();
      if (at_.poll() == 0 && !has_sent) {
        static_cast<void>(at_.wait(longest_rest));
      }
    }
    load_.end(free_.size() == slots_.size());
    at_.close();
    self_.finish(load_.figures());
  }

 private:
  static constexpr std::size_t value_at = sizeof(cache::set_head) + cache_key_bytes;
  static constexpr std::chrono::seconds patience{20};
  static constexpr std::chrono::milliseconds longest_rest{1};  // also after would_block

  // Once the run was stopped: answers that come soon still count.
  [[nodiscard]] bool patience_ended() noexcept {
    constexpr std::int64_t after_stop_ns = 2 * ns_per_s;
    if (stopped_ns_ == 0) {
      stopped_ns_ = now_ns();
    }
    return now_ns() - stopped_ns_ > after_stop_ns;
  }

  // Sets first: their gets came first. False: nothing was sent.
  bool send() {
    bool has_sent = false;
    while (!unsent_sets_.empty()) {
      const std::uint32_t slot = unsent_sets_.back();
      if (!send_set(slot)) {
        return has_sent;
      }
      unsent_sets_.pop_back();
      has_sent = true;
    }
    while (!free_.empty() && !is_over_) {
      if (!waiting_) {
        waiting_ = load_.next();
        is_over_ = !waiting_;
        if (is_over_) {
          break;
        }
      }
      if (!send_get(*waiting_)) {
        break;
      }
      waiting_.reset();
      has_sent = true;
    }
    return has_sent;
  }

  // False: there is no room for it now.
  bool send_get(const cache_case& of) {
    const cache_key key = cache_cases::key(of.number);
    const std::uint32_t slot = free_.back();
    const request_handle sent =
        at_.request(server_, cache::request_type::get, std::string_view{key.data(), key.size()},
                    patience, [this, slot](const response& r) { got(slot, r); });
    if (!sent) {
      require_full(sent.why());
      return false;
    }
    free_.pop_back();
    slots_[slot] = of;
    return true;
  }

  bool send_set(std::uint32_t slot) {
    const std::uint64_t number = slots_[slot].number;
    const std::size_t length = load_.cases().value_bytes(number);
    const cache_stamp stamp = load_.cases().stamp(number);
    const cache_key key = cache_cases::key(number);
    mutable_bytes to{body_};
    cache::put(to, cache::set_head{.key_bytes = cache_key_bytes});
    cache::put(to, key);
    cache::put(to, stamp.first);
    std::memcpy(to.data() + length - 2 * cache_stamp_half, stamp.last.data(), cache_stamp_half);
    const request_handle sent =
        at_.request(server_, cache::request_type::set, bytes_view{body_}.first(value_at + length),
                    patience, [this, slot](const response& r) { was_set(slot, r); });
    // The next value may be longer.
    std::memset(to.data() + length - 2 * cache_stamp_half, 0x5a, cache_stamp_half);
    if (!sent) {
      require_full(sent.why());
      return false;
    }
    return true;
  }

  void got(std::uint32_t slot, const response& r) {
    bytes_view rest = r.bytes();
    cache::answer_head head;
    if (!r || !cache::take(rest, head)) {
      load_.failed();
      free_.push_back(slot);
    } else if (head.found == 1) {
      load_.hit(slots_[slot], rest.data(), rest.size());
      free_.push_back(slot);
    } else {
      load_.miss(slots_[slot]);
      unsent_sets_.push_back(slot);
    }
  }

  void was_set(std::uint32_t slot, const response& r) {
    if (r) {
      load_.stored(slots_[slot]);
    } else if (r.how() == errc::request_failed) {
      load_.refused();
    } else {
      load_.failed();
    }
    free_.push_back(slot);
  }

  worker& self_;
  cache_load load_;
  bus_id server_;
  std::vector<std::byte> body_;  // of a set: head, key, value
  std::vector<cache_case> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> unsent_sets_;
  std::optional<cache_case> waiting_;  // found no room
  std::int64_t stopped_ns_ = 0;
  bool is_over_ = false;
  node at_;  // ends first: its calls use the others
};

}  // namespace

void ask_cache(worker& self) {
  if (!self.wait_for(0, worker_state::listening)) {
    return;
  }
  cache_client client{self};
  if (client.connect() && self.wait_for_start()) {
    client.run();
  }
}

}  // namespace atbus::bench
