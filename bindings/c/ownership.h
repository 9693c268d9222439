// Which thread the requests and commands of a node belong to. It outlives the node.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "failure.h"

namespace atbus::c_api {

class ownership;

// A request or command, which its node's thread has to end.
struct answerable {
  explicit answerable(std::shared_ptr<ownership> by) noexcept : owner(std::move(by)) {}
  answerable(const answerable&) = delete;
  answerable& operator=(const answerable&) = delete;
  virtual ~answerable() = default;

  std::shared_ptr<ownership> owner;
  answerable* next = nullptr;  // of those that another thread has freed
};

// Any thread may free a handle, as garbage collectors do. What others than the node's thread free waits here
// until that thread polls, or until the node ends; it is answered then.
class ownership {
 public:
  explicit ownership(const char* thread) noexcept : thread_(thread) {}
  ownership(const ownership&) = delete;
  ownership& operator=(const ownership&) = delete;

  [[nodiscard]] const char* thread() const noexcept {
    return thread_.load(std::memory_order_relaxed);
  }
  // No other thread uses the node at this moment.
  void set_thread(const char* thread) noexcept { thread_.store(thread, std::memory_order_relaxed); }

  static void free(answerable* handle) noexcept {
    const std::shared_ptr<ownership> by = handle->owner;
    if (by->thread() == &this_thread || !by->keep(handle))
      delete handle;
  }

  // On the node's thread: ends what other threads have freed.
  void collect() noexcept {
    // A handle that is missed here is found by the next call: the mutex orders what is in it.
    if (has_freed_.load(std::memory_order_relaxed)) [[unlikely]]
      delete_all(take());
  }
  // The node has ended: handles that are still there do nothing, and any thread can delete them.
  void end() noexcept {
    {
      const std::lock_guard lock{mutex_};
      ended_ = true;
    }
    delete_all(take());
  }

 private:
  // False: the node has ended.
  bool keep(answerable* handle) noexcept {
    const std::lock_guard lock{mutex_};
    if (ended_)
      return false;
    handle->next = std::exchange(freed_, handle);
    has_freed_.store(true, std::memory_order_relaxed);
    return true;
  }
  answerable* take() noexcept {
    const std::lock_guard lock{mutex_};
    has_freed_.store(false, std::memory_order_relaxed);
    return std::exchange(freed_, nullptr);
  }
  static void delete_all(answerable* first) noexcept {
    while (first != nullptr)
      delete std::exchange(first, first->next);
  }

  std::atomic<const char*> thread_;
  std::atomic<bool> has_freed_{false};
  std::mutex mutex_;  // of what follows
  answerable* freed_ = nullptr;
  bool ended_ = false;
};

}  // namespace atbus::c_api
