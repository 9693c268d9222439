// The names of mem:// segments, known inside this process only.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "channel/shm/segment.h"
#include "system/fork_guard.h"

namespace atbus::detail {

// Each entry keeps a descriptor of its own (which holds no locks) and the one mapping that all
// openers in this process share.
struct in_process_entry {
  file fd;
  std::shared_ptr<mapping> memory;
  std::string bell;
};

class in_process_names final : public fork_guard {
 public:
  static in_process_names& instance();

  void abandon_in_child() noexcept override;

  // The child starts with no names. (Not in the fork handler: erasing frees memory.)
  void forget_if_forked() {
    if (std::exchange(forked, false))
      entries.clear();
  }

  std::mutex mutex;  // taken inside a fork_pause only: no fork finds the map half changed
  std::map<std::string, in_process_entry> entries;
  bool forked = false;
};

// Where the bell of an in-process segment listens (an abstract socket name); "" if unknown.
[[nodiscard]] std::string in_process_bell(const std::string& name);
void in_process_bell(const std::string& name, std::string address);

}  // namespace atbus::detail
