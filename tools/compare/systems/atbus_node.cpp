// Nodes of atbus: what the bus costs beside the bare channels it stands on.
#include <sched.h>

#include "atbus/atbus.hpp"
#include "harness/roles.h"

namespace atbus::compare {
namespace {

constexpr bus_id receiving_node{1};
constexpr std::uint32_t type_of_messages = 1;

node open_node(const options& run, bus_id id) {
  node_options settings;
  settings.allow_unauthenticated();
  settings.message_limit(std::max<std::size_t>(settings.message_limit(), run.bytes_max));
  return node{id, settings};
}

template <class Status>
void require(const char* verb, const Status& what) {
  if (!what) {
    throw std::runtime_error(std::string{verb} + ": " + std::string{what.text()});
  }
}

struct atbus_node {
  static constexpr bool has_threads = false;

  class inbox {
   public:
    inbox(const options& run, const std::string& address) : at_{open_node(run, receiving_node)} {
      require("listen", at_.listen(address));
    }
    // Its senders learn that everything has been handled.
    ~inbox() { static_cast<void>(at_.shutdown(std::chrono::seconds{2})); }

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      at_.on_message([&handler](const message& taken) { handler(taken.bytes()); });
      if (at_.poll() == 0 && patience.count() != 0 && at_.wait(patience)) {
        at_.poll();
      }
    }

   private:
    node at_;
  };

  class outlet {
   public:
    outlet(const options& run, const std::string& address)
        : from_{open_node(run, bus_id{receiving_node.value() + 1 + run.sender})},
          own_(run.bytes_max),
          claim_{run.claim},
          lane_{address.starts_with("shm:")},
          shares_core_{run.senders > 1} {
      require("connect", from_.connect(receiving_node, address));
      static_cast<void>(retry([&] {
        from_.poll();
        return from_.endpoints().front().connected();
      }));
    }

    // A node is polled now and then: so it sends what is queued, and learns what has arrived.
    template <class Compose>
    bool send(std::size_t length, Compose&& compose) {
      if (!write(length, compose)) {
        return false;
      }
      unpolled_ += length;
      if (unpolled_ >= bytes_between_polls) {
        publish();
      }
      return true;
    }

    void publish() {
      from_.poll();
      unpolled_ = 0;
    }

    // As a sender of a bare channel waits.
    void wait_for_room() {
      publish();
      if (!lane_) {
        static_cast<void>(from_.wait(std::chrono::milliseconds{10}));
      } else if (shares_core_) {
        sched_yield();
      } else {
        bench::spin_pause();
      }
    }

    void finish() { require("shutdown", from_.shutdown(std::chrono::seconds{8})); }

   private:
    static constexpr std::size_t bytes_between_polls = 240 * 1024;

    template <class Compose>
    bool write(std::size_t length, Compose&& compose) {
      if (!claim_) {
        compose(own_.data());
        return sent(from_.send(receiving_node, type_of_messages, bytes_view{own_.data(), length}));
      }
      auto slot = from_.claim(receiving_node, type_of_messages, length);
      if (!slot) [[unlikely]] {
        return sent(slot.why());
      }
      compose(slot.bytes().data());
      slot.commit();
      return true;
    }

    static bool sent(const status& what) {
      if (what != errc::would_block) [[likely]] {
        require("send", what);
      }
      return static_cast<bool>(what);
    }

    node from_;
    std::size_t unpolled_ = 0;
    std::vector<std::byte> own_;
    bool claim_;
    bool lane_;
    bool shares_core_;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  return atbus::compare::run<atbus::compare::atbus_node>(argc, argv);
}
