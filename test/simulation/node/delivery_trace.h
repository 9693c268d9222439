// Follows each message of simulated nodes: what their programs see, and what goes into and out of their links. Each
// step is taken in delivery_model too; one that the model does not allow fails the run, whatever comes of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "atbus/node_options.hpp"
#include "delivery_model.h"
#include "ledger.h"
#include "protocol/control.h"
#include "testing/simulated_network.h"
#include "testing/simulated_node.h"

namespace atbus::detail {

class delivery_trace final : public link_watcher {
 public:
  explicit delivery_trace(ledger& book) : book_(book) {}

  void born(simulated_node& process, restart_policy policy);
  // The next message is about to be sent; then what came of it.
  void offers(const node_instance& from, bus_id to);
  void refused(const node_instance& from, bus_id to);
  void handled(const node_instance& by, const message& what);
  void told(const node_instance& whom, const undelivered& what);

  void committed(const place& at, bytes_view message) override;
  void released(const place& at, bytes_view message) override;
  void taken_back(const place& at, bytes_view message, errc fate) override;
  void left_behind(const place& at) override;

 private:
  struct flow {
    test::delivery_model model;
    std::uint64_t path = 0;
    // Where the other end has said that it takes nothing more: the link opens, and carries nothing.
    std::optional<place> last_word;
  };
  // Of one incarnation to one destination.
  using flow_key = std::pair<std::size_t, std::uint64_t>;
  // Calls `step` with the flow's model and the number of the message, if it is one of the program's.
  template <class Step>
  void follow(const place& at, bytes_view message, Step&& step);
  // Whose end it is; none: somebody speaks in a node's name.
  [[nodiscard]] std::optional<std::size_t> life_at(const place& at) const;
  void answered(const place& at, const resume_point& answer);
  void announced(const place& at);
  // `at`: the end that sends.
  void open(const flow_key& which, const place& at);
  void look_at(const flow_key& which, const flow& of);

  ledger& book_;
  struct life {
    const simulated_transport* process = nullptr;
    restart_policy policy{};
  };
  std::map<std::size_t, life> lives_;  // in the order of birth
  std::map<flow_key, flow> flows_;
  // The session that each end of a link has told.
  std::map<std::pair<std::uint64_t, std::size_t>, std::uint64_t> sessions_;
};

}  // namespace atbus::detail
