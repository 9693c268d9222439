// The threads of this process on which lines to NATS servers run. The end of the process stops them, and waits for
// them for a while.
//
// Any thread.
#pragma once

#include <memory>

#include "atbus/status.hpp"

namespace atbus::detail {

class line_threads {
 public:
  class worker {
   public:
    // On its thread, until it is stopped and has ended its work.
    virtual void run() = 0;
    virtual void stop() noexcept = 0;

   protected:
    ~worker() = default;
  };

  // Starts a thread, which keeps the worker alive. Errors: system_error; closed: the process ends.
  [[nodiscard]] static error start(const std::shared_ptr<worker>& made);
  // How many threads this process has.
  [[nodiscard]] static int running() noexcept;
  // Stops all, and no other is started.
  static void stop_all() noexcept;
};

}  // namespace atbus::detail
