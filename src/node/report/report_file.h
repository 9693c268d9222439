// The file in which a node reports on itself: its writer.
//
// The file has its name from when the first report is in it, and until the node ends. A killed process leaves
// it. A lock says that the writer lives. One thread; in a forked child it is the parent's, and closed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "atbus/node_report.hpp"
#include "atbus/status.hpp"
#include "core/node_instance.h"
#include "system/fork_guard.h"
#include "system/kernel.h"

namespace atbus::detail {

inline constexpr std::uint64_t report_lock_byte = 0;

// "atbus-node.0x2a-0x...": the id, so that a successor finds it, and the incarnation.
[[nodiscard]] std::string report_name(const node_instance& of);

class report_file final : public fork_guard {
 public:
  // Destroys it inside a fork_pause.
  struct destroy {
    void operator()(report_file* of) const noexcept;
  };
  using owner = std::unique_ptr<report_file, destroy>;

  // With the report of a new node. Removes what dead incarnations of its id have left, but for the newest.
  [[nodiscard]] static result<owner> make(const std::string& directory, const node_report& first);

  // False: there was no room, or no memory; the report before is still there.
  bool write(const node_report& report) noexcept;

  void abandon_in_child() noexcept override;

 private:
  report_file(file directory, file at, std::string name)
      : directory_(std::move(directory)), at_(std::move(at)), name_(std::move(name)) {}
  ~report_file();

  file directory_;
  file at_;
  std::string name_;
  bool linked_ = false;
  std::uint64_t sequence_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace atbus::detail
