// atbus: lanes of shared memory, TCP, Unix sockets with and without a lane, and within one process.
//
// Variants: "no_checksum" (TCP) for comparison with what sends none; "each": each message is sent by itself.
#include <optional>

#include "systems/atbus_outlet.h"

namespace atbus::compare {
namespace {

bool through_socket(std::string_view address) noexcept {
  return address.starts_with("ip") || address.find("shm=false") != std::string_view::npos;
}

template <class Options>
Options make_options(const options& run) {
  Options made;
  made.message_limit = std::max(run.bytes_max, build_settings::message_limit);
  if (run.variant == "no_checksum") {
    made.socket.checksums = false;
  }
  return made;
}

receiver open_receiver(const options& run, const std::string& address) {
  auto settings = make_options<receiver_options>(run);
  settings.lanes = static_cast<std::uint32_t>(std::max<std::uint64_t>(run.senders, 64));
  auto opened = receiver::open(address, settings);
  if (!opened) {
    require("open", opened.error());
  }
  return std::move(opened).value();
}

sender connect(const options& run, const std::string& address) {
  return retry([&] { return sender::open(address, make_options<sender_options>(run)); }).value();
}

struct atbus_channel {
  static constexpr bool has_threads = false;

  class inbox {
   public:
    inbox(const options& run, const std::string& address) : in_{open_receiver(run, address)} {}
    ~inbox() { static_cast<void>(in_.remove()); }

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      if (in_.poll(handler) == 0 && patience.count() != 0 && in_.wait(patience)) {
        in_.poll(handler);
      }
    }

   private:
    receiver in_;
  };

  class outlet : outlet_base {
   public:
    outlet(const options& run, const std::string& address)
        : outlet_base{run, through_socket(address)}, out_{connect(run, address)} {}

    // Through a socket, what is sent together leaves in one system call; into a lane, a message is
    // there when it is written.
    template <class Compose>
    bool send(std::size_t length, Compose&& compose) {
      if (!by_socket()) {
        return write(out_, length, compose);
      }
      if (!batch_) {
        batch_.emplace(out_.batch());
      }
      if (!write(*batch_, length, compose)) {
        return false;
      }
      batched_ += length;
      if (is_enough(batched_)) {
        publish();
      }
      return true;
    }

    void publish() noexcept {
      if (batch_) {
        batch_.reset();
        batched_ = 0;
      }
    }

    void wait_for_room() {
      publish();
      pause([&](auto time) { return out_.wait_writable(time); });
    }

    // The receiver ends when it has everything; that may be before this is told so.
    void finish() {
      publish();
      if (const status flushed = out_.flush(std::chrono::seconds{8});
          flushed != errc::peer_closed) {
        require("flush", flushed);
      }
    }

   private:
    sender out_;
    std::optional<message_batch> batch_;
    std::size_t batched_ = 0;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  return atbus::compare::run<atbus::compare::atbus_channel>(argc, argv);
}
