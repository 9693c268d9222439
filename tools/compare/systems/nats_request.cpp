// NATS requests: a subject, and an inbox for all replies, on a nats-server on loopback; C client.
//
// Settings: synchronous subscriptions without limit of pending messages. With more than a few requests in
// flight the client's buffer is written by its flusher (its default, for throughput), else at once
// (natsOptions_SetSendAsap).
#include <nats/nats.h>

#include "harness/asking.h"

namespace atbus::compare {
namespace {

constexpr char subject[] = "atbus.compare.ask";
constexpr char inbox_subject[] = "atbus.compare.inbox";
constexpr std::uint64_t few = 8;
constexpr int messages_a_poll = 1024;

void require(natsStatus status, const char* what) {
  if (status != NATS_OK) {
    throw std::runtime_error(std::string{what} + ": " + natsStatus_GetText(status));
  }
}

// A connection that listens to a subject.
class nats_end {
 public:
  nats_end(const options& run, const char* listens_to) {
    natsOptions* settings = nullptr;
    require(natsOptions_Create(&settings), "options");
    natsOptions_SetURL(settings, run.address.c_str());
    natsOptions_SetSendAsap(settings, run.in_flight <= few);
    retry([&] { return natsConnection_Connect(&connection_, settings) == NATS_OK; });
    natsOptions_Destroy(settings);
    require(natsConnection_SubscribeSync(&subscription_, connection_, listens_to), "subscribe");
    require(natsSubscription_SetPendingLimits(subscription_, -1, -1), "limits");
    require(natsConnection_Flush(connection_), "flush");
  }
  nats_end(const nats_end&) = delete;
  nats_end& operator=(const nats_end&) = delete;
  ~nats_end() {
    natsSubscription_Destroy(subscription_);
    natsConnection_Destroy(connection_);
  }

  // handler(natsMsg*)
  template <class Handler>
  void poll(Handler&& handler, std::chrono::milliseconds patience) {
    for (int i = 0; i != messages_a_poll; ++i) {
      natsMsg* message = nullptr;
      const natsStatus status =
          natsSubscription_NextMsg(&message, subscription_, i == 0 ? patience.count() : 0);
      if (status == NATS_TIMEOUT) {
        return;
      }
      require(status, "next");
      handler(message);
      natsMsg_Destroy(message);
    }
  }
  natsConnection* get() const noexcept { return connection_; }

 private:
  natsConnection* connection_ = nullptr;
  natsSubscription* subscription_ = nullptr;
};

std::span<const std::byte> body_of(natsMsg* message) noexcept {
  return {reinterpret_cast<const std::byte*>(natsMsg_GetData(message)),
          static_cast<std::size_t>(natsMsg_GetDataLength(message))};
}

struct nats_request {
  class client {
   public:
    explicit client(const options& run) : end_{run, inbox_subject} {}

    bool ask(std::span<const std::byte> body) {
      require(natsConnection_PublishRequest(end_.get(), subject, inbox_subject, body.data(),
                                            static_cast<int>(body.size())),
              "request");
      return true;
    }
    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      end_.poll([&](natsMsg* message) { handler(body_of(message)); }, patience);
    }

   private:
    nats_end end_;
  };

  class service {
   public:
    using caller = std::string;  // where the reply is expected

    explicit service(const options& run) : end_{run, subject} {}

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      end_.poll(
          [&](natsMsg* message) {
            handler(std::string{natsMsg_GetReply(message)}, body_of(message));
          },
          patience);
    }
    void reply(const caller& to, std::span<const std::byte> body) {
      require(natsConnection_Publish(end_.get(), to.c_str(), body.data(),
                                     static_cast<int>(body.size())),
              "reply");
    }

   private:
    nats_end end_;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  const int code = atbus::compare::run_asking<atbus::compare::nats_request>(argc, argv);
  nats_Close();
  return code;
}
