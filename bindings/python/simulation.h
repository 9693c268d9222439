// What a simulation and its nodes share.
//
// Any thread may drop them, as the collector does, and in any order. atbus.Simulation refers to its nodes until they
// have ended: where another thread drops one that has not, nothing uses the simulation any more.
#pragma once

#include <atbus/atbus_simulation.h>

#include <memory>
#include <utility>
#include <vector>

#include "values.h"

namespace atbus_python {

class simulated_bus : public std::enable_shared_from_this<simulated_bus> {
 public:
  // `begun` is called with the node of a process that begins, `ended` with the id of one that has ended.
  simulated_bus(const std::uint64_t* seed, nb::object begun_one, nb::object ended_one)
      : begun(std::move(begun_one)), ended(std::move(ended_one)) {
    check(atbus_simulation_new(seed, &self_));
  }
  simulated_bus(const simulated_bus&) = delete;
  simulated_bus& operator=(const simulated_bus&) = delete;
  ~simulated_bus() {
    if (self_ != nullptr)
      adopt();
    (void)free_dropped();
    atbus_simulation_free(self_);
  }

  [[nodiscard]] atbus_simulation* self() {
    if (free_dropped() == nullptr)
      raise(ATBUS_CLOSED, "the simulation was closed");
    return self_;
  }
  void close() {
    if (free_dropped() == nullptr)
      return;
    check(atbus_simulation_free(self_));
    self_ = nullptr;
  }
  void free(atbus_node* node, bool is_closed) noexcept {
    if (owner_ != &this_thread && atbus_node_adopt(node) != ATBUS_OK) {
      if (is_closed)
        return dropped_.push_back(node);
      adopt();
    }
    atbus_node_free(node);
  }

  const nb::object begun, ended;
  raised_first raised;  // by handlers of its nodes, and by these two

 private:
  void adopt() noexcept {
    atbus_simulation_adopt(self_);
    owner_ = &this_thread;
  }
  atbus_simulation* free_dropped() noexcept {
    if (!dropped_.empty() && owner_ == &this_thread) {
      for (atbus_node* one : std::exchange(dropped_, {}))
        atbus_node_free(one);
    }
    return self_;
  }

  static inline thread_local char this_thread;  // its address identifies the thread
  const char* owner_ = &this_thread;
  atbus_simulation* self_ = nullptr;
  std::vector<atbus_node*>
      dropped_;  // by other threads, of processes of which a function is running; closed
};

// atbus._bus.Simulation.
void bind_simulation(nb::module_& in);

}  // namespace atbus_python
