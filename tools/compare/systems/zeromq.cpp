// ZeroMQ: PUSH and PULL over ipc, tcp and inproc.
//
// Settings: messages are written where they leave from (zmq_msg_init_size); the high-water marks are
// as many messages as fill 1 MiB, because the default of 1000 is little for small ones (the guide,
// "High-Water Marks"); measured here, 64 KiB and 16 MiB are slower. One I/O thread, which the guide
// says is enough for a gigabyte per second.
#include <zmq.h>

#include <cerrno>
#include <cstring>

#include "harness/roles.h"

namespace atbus::compare {
namespace {

constexpr std::uint64_t queued_bytes = 1 << 20;

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(std::string{what} + ": " + zmq_strerror(zmq_errno()));
}

// Of the process: inproc addresses are names in it. The driver's word to finish ends it.
void* context() {
  static void* const only = zmq_ctx_new();
  return only;
}

class zmq_socket_owner {
 public:
  zmq_socket_owner(const options& run, int kind) : socket_{::zmq_socket(context(), kind)} {
    if (socket_ == nullptr) {
      fail("zmq_socket");
    }
    const int mark = static_cast<int>(run.messages_in(queued_bytes));
    set(ZMQ_SNDHWM, mark);
    set(ZMQ_RCVHWM, mark);
    set(ZMQ_IPV6, 1);
  }
  zmq_socket_owner(const zmq_socket_owner&) = delete;
  zmq_socket_owner& operator=(const zmq_socket_owner&) = delete;
  ~zmq_socket_owner() { zmq_close(socket_); }

  void set(int option, int value) {
    if (zmq_setsockopt(socket_, option, &value, sizeof value) != 0) {
      fail("zmq_setsockopt");
    }
  }
  void* get() const noexcept { return socket_; }

 private:
  void* socket_;
};

struct zeromq {
  static constexpr bool has_threads = true;

  class inbox {
   public:
    inbox(const options& run, const std::string& address) : socket_{run, ZMQ_PULL} {
      if (zmq_bind(socket_.get(), address.c_str()) != 0) {
        fail("zmq_bind");
      }
      socket_.set(ZMQ_RCVTIMEO, static_cast<int>(sleep_at_most.count()));
      zmq_msg_init(&message_);
    }
    ~inbox() { zmq_msg_close(&message_); }

    // One at a time, as ZeroMQ gives them out; it fetches ahead by itself.
    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      const int flags = patience.count() != 0 ? 0 : ZMQ_DONTWAIT;
      if (zmq_msg_recv(&message_, socket_.get(), flags) >= 0) {
        handler(std::span{static_cast<const std::byte*>(zmq_msg_data(&message_)),
                          zmq_msg_size(&message_)});
      } else if (zmq_errno() != EAGAIN && zmq_errno() != EINTR) {
        fail("zmq_msg_recv");
      }
    }

   private:
    zmq_socket_owner socket_;
    zmq_msg_t message_;
  };

  class outlet {
   public:
    outlet(const options& run, const std::string& address) : socket_{run, ZMQ_PUSH} {
      socket_.set(ZMQ_LINGER, 8000);
      socket_.set(ZMQ_IMMEDIATE, 1);  // queue for a receiver that is there, not for a hope
      if (zmq_connect(socket_.get(), address.c_str()) != 0) {
        fail("zmq_connect");
      }
      retry([&] {
        int events = 0;
        std::size_t size = sizeof events;
        zmq_getsockopt(socket_.get(), ZMQ_EVENTS, &events, &size);
        return (events & ZMQ_POLLOUT) != 0;
      });
    }

    template <class Compose>
    bool send(std::size_t length, Compose&& compose) {
      zmq_msg_t message;
      if (zmq_msg_init_size(&message, length) != 0) {
        fail("zmq_msg_init_size");
      }
      compose(static_cast<std::byte*>(zmq_msg_data(&message)));
      if (zmq_msg_send(&message, socket_.get(), ZMQ_DONTWAIT) >= 0) {
        return true;
      }
      const int why = zmq_errno();
      zmq_msg_close(&message);
      if (why != EAGAIN && why != EINTR) {
        fail("zmq_msg_send");
      }
      return false;
    }

    void publish() noexcept {}

    void wait_for_room() noexcept {
      zmq_pollitem_t room{socket_.get(), 0, ZMQ_POLLOUT, 0};
      zmq_poll(&room, 1, 10);
    }

    // Closing waits for what is queued, once the context ends.
    void finish() noexcept {}

   private:
    zmq_socket_owner socket_;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  const int code = atbus::compare::run<atbus::compare::zeromq>(argc, argv);
  zmq_ctx_term(atbus::compare::context());
  return code;
}
