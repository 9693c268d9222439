// ZeroMQ requests: a DEALER asks, a ROUTER replies.
//
// Settings: no high-water marks, because a ROUTER drops replies to a client whose queue is full; what is
// in flight bounds the queues. One I/O thread; both sides sleep in zmq_poll.
#include <zmq.h>

#include <cerrno>

#include "harness/asking.h"

namespace atbus::compare {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(std::string{what} + ": " + zmq_strerror(zmq_errno()));
}

void* context() {
  static void* const only = zmq_ctx_new();
  return only;
}

class zmq_socket_owner {
 public:
  explicit zmq_socket_owner(int kind) : socket_{::zmq_socket(context(), kind)} {
    if (socket_ == nullptr) {
      fail("zmq_socket");
    }
    set(ZMQ_SNDHWM, 0);
    set(ZMQ_RCVHWM, 0);
    set(ZMQ_LINGER, 0);
  }
  zmq_socket_owner(const zmq_socket_owner&) = delete;
  zmq_socket_owner& operator=(const zmq_socket_owner&) = delete;
  ~zmq_socket_owner() { zmq_close(socket_); }

  void* get() const noexcept { return socket_; }

  void wait(std::chrono::milliseconds patience) noexcept {
    zmq_pollitem_t item{socket_, 0, ZMQ_POLLIN, 0};
    zmq_poll(&item, 1, static_cast<long>(patience.count()));
  }

  // False: there is nothing.
  bool receive(zmq_msg_t& into) {
    if (zmq_msg_recv(&into, socket_, ZMQ_DONTWAIT) >= 0) {
      return true;
    }
    if (zmq_errno() != EAGAIN && zmq_errno() != EINTR) {
      fail("zmq_msg_recv");
    }
    return false;
  }

  // False: refused.
  bool send(std::span<const std::byte> bytes, int flags) {
    if (zmq_send(socket_, bytes.data(), bytes.size(), flags | ZMQ_DONTWAIT) >= 0) {
      return true;
    }
    if (zmq_errno() != EAGAIN && zmq_errno() != EINTR) {
      fail("zmq_send");
    }
    return false;
  }

 private:
  void set(int option, int value) {
    if (zmq_setsockopt(socket_, option, &value, sizeof value) != 0) {
      fail("zmq_setsockopt");
    }
  }

  void* socket_;
};

class zmq_message {
 public:
  zmq_message() noexcept { zmq_msg_init(&message_); }
  zmq_message(const zmq_message&) = delete;
  zmq_message& operator=(const zmq_message&) = delete;
  ~zmq_message() { zmq_msg_close(&message_); }

  zmq_msg_t& get() noexcept { return message_; }
  std::span<const std::byte> bytes() noexcept {
    return {static_cast<const std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }

 private:
  zmq_msg_t message_;
};

constexpr int messages_a_poll = 1024;

struct zeromq_request {
  class client {
   public:
    explicit client(const options& run) : socket_{ZMQ_DEALER} {
      if (zmq_connect(socket_.get(), run.address.c_str()) != 0) {
        fail("zmq_connect");
      }
    }

    bool ask(std::span<const std::byte> body) { return socket_.send(body, 0); }

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      socket_.wait(patience);
      for (int i = 0; i != messages_a_poll && socket_.receive(message_.get()); ++i) {
        handler(message_.bytes());
      }
    }

   private:
    zmq_socket_owner socket_;
    zmq_message message_;
  };

  class service {
   public:
    using caller = std::string;  // its routing id

    explicit service(const options& run) : socket_{ZMQ_ROUTER} {
      if (zmq_bind(socket_.get(), run.address.c_str()) != 0) {
        fail("zmq_bind");
      }
    }

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      socket_.wait(patience);
      for (int i = 0; i != messages_a_poll && socket_.receive(message_.get()); ++i) {
        std::string from{text_of(message_.bytes())};
        if (!socket_.receive(message_.get())) {
          fail("the body");  // the parts of a message come together
        }
        handler(std::move(from), message_.bytes());
      }
    }

    void reply(const caller& to, std::span<const std::byte> body) {
      if (!socket_.send(bytes_of(to), ZMQ_SNDMORE) || !socket_.send(body, 0)) {
        fail("reply");
      }
    }

   private:
    zmq_socket_owner socket_;
    zmq_message message_;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  return atbus::compare::run_asking<atbus::compare::zeromq_request>(argc, argv);
}
