// A node in a process: the core, and its platform.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "atbus/node_options.hpp"
#include "atbus/task.hpp"
#include "node/core/node_core.h"
#include "node/node_platform.h"
#include "node/report_publisher.h"
#include "node/thread_inboxes.h"
#include "system/fork_guard.h"
#include "system/spin_budget.h"
#include "system/wait_deadline.h"

namespace atbus::detail {

class node_on_loop;

class node_state {
 public:
  node_state(bus_id id, const node_options& options, std::shared_ptr<node_platform> platform);
  ~node_state();

  // The public object lets go: ends the node, at once or when the handler that runs has returned.
  void release() noexcept;

  std::size_t poll(const poll_limits& limits);
  // Of each poll the first thing; see node_access.
  void set_before_poll(std::function<void()> call) { before_poll_ = std::move(call); }
  // Of messages that other nodes send meanwhile; see node_access.
  void limit_shutdown(std::function<std::size_t()> room) { shutdown_room_ = std::move(room); }
  status wait(std::chrono::nanoseconds timeout);
  status run();
  status shutdown(std::chrono::nanoseconds deadline);
  void spawn(task<> what);
  void stop() noexcept { stopping_ = true; }
  [[nodiscard]] bool is_stopping() const noexcept { return stopping_; }
  [[nodiscard]] bool is_in_use() const noexcept { return in_use_ != 0; }
  // Whether stop() was called, and what was accepted is settled or has had its time.
  [[nodiscard]] bool is_over();
  // Whether all that was accepted is settled.
  [[nodiscard]] bool settled() const noexcept { return threads_.is_empty() && core_.settled(); }
  [[nodiscard]] node_core& core() noexcept { return core_; }
  result<sender> open_thread_lane();

  // As of a receiver.
  [[nodiscard]] bool prepare_sleep();
  void finish_sleep();
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;
  // What a handler threw on the loop.
  void rethrow();
  [[nodiscard]] bool failed() const noexcept;

 private:
  friend class node_on_loop;
  // Keeps the state until the outermost verb returns.
  class use;

  // wait(), after `spin` has had its chance to see something come in the time it is given.
  template <class Spin>
  status sleep(const wait_deadline& deadline, Spin&& spin);
  // Spins with an eye on the lanes before a sleep is prepared. True: a poll has something to do.
  bool spin_at_lanes(std::chrono::nanoseconds start, const wait_deadline& deadline);
  // Whether all that was accepted is settled, and what other nodes have said of it is read: a lane shows that a
  // message is handled before the word that it was refused is read. Polls.
  bool is_settled_for_good();
  // Of messages of other nodes, in the next poll.
  [[nodiscard]] std::size_t room_for_others() const {
    return shuts_down_ && shutdown_room_ ? shutdown_room_() : SIZE_MAX;
  }
  // closed, or used_after_fork in a child, where nothing ever comes.
  [[nodiscard]] status usable() const noexcept;

  std::shared_ptr<node_platform> platform_;
  node_core core_;
  std::function<void()> before_poll_;
  std::function<std::size_t()> shutdown_room_;
  bool unfinished_ = false;  // a handler has thrown in the last poll
  thread_inboxes threads_;
  std::unique_ptr<report_publisher> reports_;  // null: none are made
  node_on_loop* on_loop_ = nullptr;
  std::size_t message_limit_;
  std::chrono::nanoseconds drain_;
  spin_budget spin_;
  const std::uint64_t forks_before_ = forks_so_far();
  unsigned in_use_ = 0;
  bool owned_ = true;
  bool shuts_down_ = false;
  bool stopping_ = false;
  std::optional<std::chrono::nanoseconds> drained_by_;  // since a stop
};

}  // namespace atbus::detail
