// The messages of one flow as doc/design/delivery.md has them: where each is, and which steps lead from there. A
// step that the page does not allow is a fault. Knows nothing of the code that it is compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "atbus/policies.hpp"
#include "atbus/status.hpp"
#include "core/node_instance.h"

namespace atbus::test {

class delivery_model {
 public:
  enum class place : std::uint8_t { held, in_path, settled };
  struct handling {
    detail::node_instance by;
    std::uint64_t session = 0;  // 0: unknown
    bool marked = false;
  };
  struct message {
    place at = place::held;
    errc outcome = errc::ok;  // of one that is settled without being delivered
    bool doubt =
        false;  // the incarnation that was heard last may have it, and has not been asked since
    bool marked = false;            // an earlier one may have it
    bool was_uncertain = false;     // one of these, at some time
    bool is_inherited = false;      // in doubt, and the next incarnation may find it
    bool is_passed_over = false;    // a later one went before it: it goes nowhere any more
    bool is_known_handled = false;  // settled because a position said so
    std::uint64_t path = 0;         // that it was put in last
    std::vector<detail::node_instance> sent_to;
    std::vector<handling> handled;
  };

  // The next message, which is held; its number, counted from 1.
  std::uint64_t accept();
  // The last one was refused after all.
  void refuse();
  // A position was heard on that path, which is used from now on.
  void open(std::uint64_t path, const detail::node_instance& there, std::uint64_t session,
            restart_policy policy);
  // The reader of that path is gone, and its successor finds what is in it.
  void leave_behind(std::uint64_t path) { left_behind_.insert(path); }
  // A message goes into the path that was opened last.
  void put(std::uint64_t number, std::uint64_t path, bool marked, bool is_inherited = false);
  // The path says that it was handled.
  void release(std::uint64_t number);
  // It comes back from its path, which is lost.
  void take_back(std::uint64_t number, bool marked, bool may_have_arrived,
                 bool is_inherited = false);
  // Its sender is told. Who has given up a message in doubt may hear before that that it was handled.
  void tell(std::uint64_t number, errc outcome);
  // A handler gets it.
  void handle(std::uint64_t number, const handling& how);

  [[nodiscard]] const std::vector<message>& messages() const noexcept { return messages_; }
  [[nodiscard]] const message& of(std::uint64_t number) const { return messages_[number - 1]; }
  [[nodiscard]] bool is_held(std::uint64_t number) const { return of(number).at == place::held; }
  // Whether what was heard last leaves no doubt about what was sent before.
  [[nodiscard]] bool is_remembered() const noexcept { return is_remembered_; }
  [[nodiscard]] bool is_same_incarnation() const noexcept { return is_same_incarnation_; }
  // What went wrong first, and with which message.
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

 private:
  void check(bool holds, std::uint64_t number, const char* what);
  void settle(std::uint64_t number, errc outcome);

  std::vector<message> messages_;
  std::set<std::uint64_t> held_;  // and not passed over
  std::set<std::uint64_t> in_path_;
  std::set<std::uint64_t> left_behind_;
  std::map<std::pair<bus_id, std::uint64_t>, std::uint64_t>
      highest_;  // handled by each incarnation
  std::uint64_t path_ = 0;
  std::uint64_t last_put_ = 0;  // in that path
  detail::node_instance there_;
  std::uint64_t session_ = 0;
  bool is_remembered_ = false;
  bool is_same_incarnation_ = false;
  std::string fault_;
};

}  // namespace atbus::test
