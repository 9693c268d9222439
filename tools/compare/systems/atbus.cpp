// atbus: lanes of shared memory, TCP, Unix sockets with and without a lane, and within one process.
//
// Variants: "no_checksum" (TCP) for comparison with what sends none.
#include "atbus/atbus.hpp"

#include <sched.h>

#include <optional>

#include "harness/roles.h"

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
    throw std::runtime_error("open: " + opened.error().text());
  }
  return std::move(opened).value();
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

  class outlet {
   public:
    outlet(const options& run, const std::string& address)
        : out_{retry([&] {
                 return sender::open(address, make_options<sender_options>(run));
               }).value()},
          own_(run.bytes_max),
          claim_{run.claim},
          socket_{through_socket(address)},
          shares_core_{run.senders > 1} {}

    // Through a socket, what is sent together leaves in one system call; into a lane, a message is
    // there when it is written.
    template <class Compose>
    bool send(std::size_t length, Compose&& compose) {
      if (!socket_) {
        return write(out_, length, compose);
      }
      if (!batch_) {
        batch_.emplace(out_.batch());
      }
      if (!write(*batch_, length, compose)) {
        return false;
      }
      batched_ += length;
      if (batched_ >= batch_bytes) {
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

    // Alone on its core a sender just tries again; otherwise it lets the others run. One that waits
    // for the kernel sleeps: there is enough to write until it wakes up.
    void wait_for_room() noexcept {
      publish();
      if (socket_) {
        static_cast<void>(out_.wait_writable(std::chrono::milliseconds{10}));
      } else if (shares_core_) {
        sched_yield();
      } else {
        bench::spin_pause();
      }
    }

    // The receiver ends when it has everything; that may be before this is told so.
    void finish() {
      publish();
      const status flushed = out_.flush(std::chrono::seconds{8});
      if (!flushed && flushed != errc::peer_closed) {
        throw std::runtime_error("flush: " + flushed.text());
      }
    }

   private:
    static constexpr std::size_t batch_bytes = 240 * 1024;

    template <class Target, class Compose>
    bool write(Target& target, std::size_t length, Compose&& compose) {
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

    static bool sent(const status& what) {
      if (!what && what != errc::would_block) [[unlikely]] {
        throw std::runtime_error("send: " + what.text());
      }
      return static_cast<bool>(what);
    }

    sender out_;
    std::optional<message_batch> batch_;
    std::size_t batched_ = 0;
    std::vector<std::byte> own_;
    bool claim_;
    bool socket_;
    bool shares_core_;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  return atbus::compare::run<atbus::compare::atbus_channel>(argc, argv);
}
