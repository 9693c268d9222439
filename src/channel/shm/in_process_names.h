// The table of mem:// segments of this process.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "channel/shm/segment.h"
#include "system/fork_guard.h"

namespace atbus::detail {

// Each entry has a descriptor of its own, which holds no locks, and the mapping that all openers in this
// process share.
struct in_process_entry {
  file fd;
  std::shared_ptr<mapping> memory;
  std::string bell;
};

class in_process_names final : public fork_guard {
 public:
  static in_process_names& instance();

  void abandon_in_child() noexcept override;

  // A forked child starts with no names. Not done in the fork handler, because erasing frees memory.
  void forget_if_forked() {
    if (std::exchange(forked, false))
      entries.clear();
  }

  std::mutex mutex;  // locked only inside a fork_pause: no fork sees the map half changed
  std::map<std::string, in_process_entry> entries;
  bool forked = false;
};

// The abstract socket name of an in-process segment's bell; "" if unknown.
[[nodiscard]] std::string in_process_bell(const std::string& name);
void in_process_bell(const std::string& name, std::string address);

}  // namespace atbus::detail
