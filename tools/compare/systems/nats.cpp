// NATS core: a subject on a nats-server on loopback, C client.
//
// Settings: a synchronous subscription (NextMsg) without limit of pending messages, because core
// NATS drops what a slow subscriber leaves; the client's 64 KiB buffer filled and written by its
// flusher (its default, for throughput), natsOptions_SetSendAsap for round trips and paced messages.
#include <nats/nats.h>

#include "harness/roles.h"

namespace atbus::compare {
namespace {

constexpr char subject[] = "atbus.compare";
constexpr char reply_subject[] = "atbus.compare.back";

void require(natsStatus status, const char* what) {
  if (status != NATS_OK) {
    throw std::runtime_error(std::string{what} + ": " + natsStatus_GetText(status));
  }
}

// The address is the server's; a reply goes to the same server, by another subject.
class connection {
 public:
  connection(const options& run, const std::string& address) {
    natsOptions* settings = nullptr;
    require(natsOptions_Create(&settings), "options");
    natsOptions_SetURL(settings, run.address.c_str());
    const bool latency = run.rate > 0 || run.what == role::ping || run.what == role::pong;
    natsOptions_SetSendAsap(settings, latency);
    retry([&] { return natsConnection_Connect(&connection_, settings) == NATS_OK; });
    natsOptions_Destroy(settings);
    subject_ = address == run.address ? subject : reply_subject;
  }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection() { natsConnection_Destroy(connection_); }

  natsConnection* get() const noexcept { return connection_; }
  const char* subject_name() const noexcept { return subject_; }

 private:
  natsConnection* connection_ = nullptr;
  const char* subject_ = nullptr;
};

struct nats_core {
  static constexpr bool has_threads = true;

  class inbox {
   public:
    inbox(const options& run, const std::string& address) : connection_{run, address} {
      require(natsConnection_SubscribeSync(&subscription_, connection_.get(),
                                           connection_.subject_name()),
              "subscribe");
      require(natsSubscription_SetPendingLimits(subscription_, -1, -1), "limits");
      require(natsConnection_Flush(connection_.get()), "flush");
    }
    ~inbox() { natsSubscription_Destroy(subscription_); }

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      natsMsg* message = nullptr;
      const natsStatus status = natsSubscription_NextMsg(&message, subscription_, patience.count());
      if (status == NATS_TIMEOUT) {
        return;
      }
      require(status, "next");
      handler(std::span{reinterpret_cast<const std::byte*>(natsMsg_GetData(message)),
                        static_cast<std::size_t>(natsMsg_GetDataLength(message))});
      natsMsg_Destroy(message);
    }

   private:
    connection connection_;
    natsSubscription* subscription_ = nullptr;
  };

  class outlet {
   public:
    outlet(const options& run, const std::string& address)
        : connection_{run, address}, own_(run.bytes_max) {}

    template <class Compose>
    bool send(std::size_t length, Compose&& compose) {
      compose(own_.data());
      require(natsConnection_Publish(connection_.get(), connection_.subject_name(), own_.data(),
                                     static_cast<int>(length)),
              "publish");
      return true;
    }

    void publish() noexcept {}
    void wait_for_room() noexcept {}
    void finish() { require(natsConnection_FlushTimeout(connection_.get(), 8000), "flush"); }

   private:
    connection connection_;
    std::vector<std::byte> own_;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  const int code = atbus::compare::run<atbus::compare::nats_core>(argc, argv);
  nats_Close();
  return code;
}
