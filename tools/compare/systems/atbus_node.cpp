// Nodes of atbus: what the bus costs beside the bare channels it stands on.
//
// Variant "each": a poll after each message, with a write_delay.
#include "systems/atbus_outlet.h"

namespace atbus::compare {
namespace {

constexpr bus_id receiving_node{1};
constexpr std::uint32_t type_of_messages = 1;

node open_node(const options& run, bus_id id) {
  node_options settings;
  settings.allow_unauthenticated();
  if (run.variant == "each")
    settings.write_delay(std::chrono::microseconds{5});
  settings.message_limit(std::max<std::size_t>(settings.message_limit(), run.bytes_max));
  return node{id, settings};
}

// The receiving node as something to write to.
struct node_target {
  node& from;

  status send(bytes_view bytes) { return from.send(receiving_node, type_of_messages, bytes); }
  node_slot claim(std::size_t length) {
    return from.claim(receiving_node, type_of_messages, length);
  }
};

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

  class outlet : outlet_base {
   public:
    outlet(const options& run, const std::string& address)
        : outlet_base{run, !address.starts_with("shm:")},
          from_{open_node(run, bus_id{receiving_node.value() + 1 + run.sender})} {
      require("connect", from_.connect(receiving_node, address));
      static_cast<void>(retry([&] {
        from_.poll();
        return from_.endpoints().front().connected();
      }));
    }

    // A node is polled now and then: so it sends what is queued, and learns what has arrived.
    template <class Compose>
    bool send(std::size_t length, Compose&& compose) {
      if (!write(node_target{from_}, length, compose)) {
        return false;
      }
      unpolled_ += length;
      if (is_enough(unpolled_)) {
        publish();
      }
      return true;
    }

    void publish() {
      from_.poll();
      unpolled_ = 0;
    }

    void wait_for_room() {
      publish();
      pause([&](auto time) { return from_.wait(time); });
    }

    void finish() { require("shutdown", from_.shutdown(std::chrono::seconds{8})); }

   private:
    node from_;
    std::size_t unpolled_ = 0;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  return atbus::compare::run<atbus::compare::atbus_node>(argc, argv);
}
