// nng: PUSH and PULL over ipc and tcp.
//
// Settings: messages are written where they leave from (nng_msg_alloc, nng_sendmsg: "zero-copy" in
// nng_sendmsg(3)); queues of 128 messages at both ends (NNG_OPT_SENDBUF, NNG_OPT_RECVBUF, of which
// nng_options(5) says that they trade memory for throughput).
#include <nng/nng.h>
#include <nng/protocol/pipeline0/pull.h>
#include <nng/protocol/pipeline0/push.h>

#include "harness/roles.h"

namespace atbus::compare {
namespace {

constexpr int queued_messages = 128;

void require(int code, const char* what) {
  if (code != 0) {
    throw std::runtime_error(std::string{what} + ": " + nng_strerror(code));
  }
}

class socket_owner {
 public:
  explicit socket_owner(int (*open)(nng_socket*)) { require(open(&socket_), "open"); }
  socket_owner(const socket_owner&) = delete;
  socket_owner& operator=(const socket_owner&) = delete;
  ~socket_owner() { nng_close(socket_); }
  nng_socket get() const noexcept { return socket_; }

 private:
  nng_socket socket_{};
};

struct nng_pipeline {
  static constexpr bool has_threads = true;

  class inbox {
   public:
    inbox(const options&, const std::string& address) : socket_{nng_pull0_open} {
      require(nng_socket_set_int(socket_.get(), NNG_OPT_RECVBUF, queued_messages), "recvbuf");
      require(nng_socket_set_ms(socket_.get(), NNG_OPT_RECVTIMEO,
                                static_cast<nng_duration>(sleep_at_most.count())),
              "timeout");
      require(nng_socket_set_size(socket_.get(), NNG_OPT_RECVMAXSZ, 0), "size");
      require(nng_listen(socket_.get(), address.c_str(), nullptr, 0), "listen");
    }

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      nng_msg* message = nullptr;
      const int code =
          nng_recvmsg(socket_.get(), &message, patience.count() != 0 ? 0 : NNG_FLAG_NONBLOCK);
      if (code == NNG_ETIMEDOUT || code == NNG_EAGAIN || code == NNG_EINTR) {
        return;
      }
      require(code, "recvmsg");
      handler(
          std::span{static_cast<const std::byte*>(nng_msg_body(message)), nng_msg_len(message)});
      nng_msg_free(message);
    }

   private:
    socket_owner socket_;
  };

  class outlet {
   public:
    outlet(const options&, const std::string& address) : socket_{nng_push0_open} {
      require(nng_socket_set_int(socket_.get(), NNG_OPT_SENDBUF, queued_messages), "sendbuf");
      retry([&] { return nng_dial(socket_.get(), address.c_str(), nullptr, 0) == 0; });
    }

    // Measured here, trying again is faster than to block until there is room.
    template <class Compose>
    bool send(std::size_t length, Compose&& compose) {
      nng_msg* message = nullptr;
      require(nng_msg_alloc(&message, length), "msg_alloc");
      compose(static_cast<std::byte*>(nng_msg_body(message)));
      const int code = nng_sendmsg(socket_.get(), message, NNG_FLAG_NONBLOCK);
      if (code == 0) {
        return true;
      }
      nng_msg_free(message);
      if (code != NNG_EAGAIN) {
        require(code, "sendmsg");
      }
      return false;
    }

    void publish() noexcept {}
    void wait_for_room() noexcept { std::this_thread::yield(); }
    // What is queued goes on leaving while the socket is open; closing does not wait (nng_close(3)).
    void finish() { std::this_thread::sleep_for(std::chrono::milliseconds{500}); }

   private:
    socket_owner socket_;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  return atbus::compare::run<atbus::compare::nng_pipeline>(argc, argv);
}
