// Access of src/testing and of the functions of C to a node beyond its verbs. Exported, because src/testing is a library of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "atbus/detail/export.hpp"
#include "atbus/node.hpp"
#include "node/node_platform.h"

namespace atbus::detail {

struct ATBUS_API node_access {
  [[nodiscard]] static node make(bus_id id, const node_options& options,
                                 std::shared_ptr<node_platform> platform);
  // Of a node that is open.
  [[nodiscard]] static node_core& core(node& of) noexcept;
  // Calls this at the beginning of each poll, also of those within run() and shutdown(). It must not throw, nor end
  // the node.
  static void before_polls(node& of, std::function<void()> call);
  // Polls within shutdown() deliver no more messages of other nodes than this says, each time. It must not throw.
  static void limit_shutdown(node& of, std::function<std::size_t()> room);
  // Whether stop() was called; and whether run() would return now.
  [[nodiscard]] static bool is_stopping(node& of) noexcept;
  [[nodiscard]] static bool is_over(node& of) noexcept;
  // Whether close() was called.
  [[nodiscard]] static bool is_released(const node& of) noexcept;
  // Whether a function of it that polls or waits has not returned; of a node that is not released.
  [[nodiscard]] static bool is_in_use(const node& of) noexcept;
};

}  // namespace atbus::detail
