// What the outlets of channels and of nodes share: how they write a message and wait for room.
#pragma once

#include <sched.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "atbus/atbus.hpp"
#include "harness/roles.h"

namespace atbus::compare {

template <class Status>
void require(const char* verb, const Status& what) {
  if (!what) {
    throw std::runtime_error(std::string{verb} + ": " + std::string{what.text()});
  }
}

class outlet_base {
 protected:
  static constexpr std::size_t bytes_together = 240 * 1024;

  outlet_base(const options& run, bool by_socket)
      : own_(run.bytes_max),
        claim_{run.claim},
        by_socket_{by_socket},
        each_{run.variant == "each"},
        shares_core_{run.senders > 1} {}

  bool by_socket() const noexcept { return by_socket_; }
  // Whether what was sent leaves now.
  bool is_enough(std::size_t bytes) const noexcept { return each_ || bytes >= bytes_together; }

  // `target` has send(bytes) and claim(length). False: there is no room.
  template <class Target, class Compose>
  bool write(Target&& target, std::size_t length, Compose&& compose) {
    if (!claim_) {
      compose(own_.data());
      return sent(target.send({own_.data(), length}));
    }
    auto slot = target.claim(length);
    if (!slot) [[unlikely]] {
      return sent(slot.why());
    }
    compose(slot.bytes().data());
    slot.commit();
    return true;
  }

  // Alone on its core a sender just tries again; otherwise it lets the others run. One that waits
  // for the kernel sleeps: there is enough to write until it wakes up.
  template <class Sleep>
  void pause(Sleep&& sleep) const {
    if (by_socket_) {
      static_cast<void>(sleep(std::chrono::milliseconds{10}));
    } else if (shares_core_) {
      sched_yield();
    } else {
      bench::spin_pause();
    }
  }

 private:
  static bool sent(const status& what) {
    if (!what && what != errc::would_block) [[unlikely]] {
      require("send", what);
    }
    return static_cast<bool>(what);
  }

  std::vector<std::byte> own_;
  bool claim_;
  bool by_socket_;
  bool each_;
  bool shares_core_;
};

}  // namespace atbus::compare
