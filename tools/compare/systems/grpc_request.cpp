// gRPC requests: unary calls through the asynchronous C++ interface, one completion queue and one thread on
// each side, no TLS.
//
// Settings: as many calls are offered by the service as are in flight; the tasks of a fan-out are alarms
// (grpc::Alarm) on the service's own completion queue.
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <unordered_set>

#include "grpc_request.grpc.pb.h"
#include "harness/asking.h"

namespace atbus::compare {
namespace {

gpr_timespec in_time(std::chrono::nanoseconds time) noexcept {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(time.count(), GPR_TIMESPAN));
}

// Something that a completion queue names when it is done.
class completion {
 public:
  completion() = default;
  completion(const completion&) = delete;
  completion& operator=(const completion&) = delete;
  virtual ~completion() = default;
  virtual void done(bool ok) = 0;
};

// Handles what is there; waits for at most `patience` if nothing is.
void poll_queue(grpc::CompletionQueue& queue, std::chrono::milliseconds patience) {
  constexpr int events_a_poll = 1024;
  for (int i = 0; i != events_a_poll; ++i) {
    void* tag = nullptr;
    bool ok = false;
    const gpr_timespec until = i == 0 ? in_time(patience) : gpr_time_0(GPR_CLOCK_MONOTONIC);
    if (queue.AsyncNext(&tag, &ok, until) != grpc::CompletionQueue::GOT_EVENT) {
      return;
    }
    static_cast<completion*>(tag)->done(ok);
  }
}

struct service_state {
  const options& run;
  Asking::AsyncService asking;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  numbered_bodies bodies;
  random_delays delays;
};

// One call, from the offer to its end. Deletes itself.
class served_call : public completion {
 public:
  explicit served_call(service_state& of) : of_{of}, writer_{&context_} {
    of_.asking.RequestAsk(&context_, &asked_, &writer_, of_.queue.get(), of_.queue.get(), this);
  }

  void done(bool ok) override {
    if (is_answered_ || !ok) {
      delete this;
      return;
    }
    new served_call{of_};
    if (of_.run.fan_out != 0) {
      fan_out();
    } else {
      if (!of_.bodies.number_of(bytes_of(asked_.bytes()))) {
        throw std::runtime_error("a request was damaged");
      }
      reply_.set_bytes(asked_.bytes());
      answer();
    }
  }

 private:
  class waiting_task : public completion {
   public:
    explicit waiting_task(served_call& of) : of_{of} {
      alarm_.Set(of_.of_.queue.get(), in_time(of_.of_.delays.next()), this);
    }
    void done(bool) override { of_.task_is_over(); }

   private:
    served_call& of_;
    grpc::Alarm alarm_;
  };

  void fan_out() {
    document_ = nlohmann::json::parse(asked_.bytes());
    left_ = of_.run.fan_out;
    tasks_.reserve(left_);
    for (std::uint64_t i = 0; i != left_; ++i) {
      tasks_.push_back(std::make_unique<waiting_task>(*this));
    }
  }

  void task_is_over() {
    if (--left_ == 0) {
      reply_.set_bytes(document_.dump());
      answer();
    }
  }

  void answer() {
    is_answered_ = true;
    writer_.Finish(reply_, grpc::Status::OK, this);
  }

  service_state& of_;
  grpc::ServerContext context_;
  Body asked_;
  Body reply_;
  grpc::ServerAsyncResponseWriter<Body> writer_;
  bool is_answered_ = false;
  nlohmann::json document_;
  std::vector<std::unique_ptr<waiting_task>> tasks_;
  std::uint64_t left_ = 0;
};

struct grpc_request {
  static void serve(const options& run) {
    service_state state{run, {}, {}, numbered_bodies{run}, random_delays{run}};
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(run.address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&state.asking);
    state.queue = builder.AddCompletionQueue();
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (server == nullptr || port == 0) {
      throw std::runtime_error("can't listen at " + run.address);
    }
    for (std::uint64_t i = 0; i != run.in_flight; ++i) {
      new served_call{state};
    }
    say_ready();
    while (!terminated()) {
      poll_queue(*state.queue, sleep_at_most);
    }
    server->Shutdown(std::chrono::system_clock::now());
    state.queue->Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (state.queue->Next(&tag, &ok)) {
      static_cast<completion*>(tag)->done(false);
    }
  }

  class client {
   public:
    explicit client(const options& run)
        : channel_{grpc::CreateChannel(run.address, grpc::InsecureChannelCredentials())},
          stub_{Asking::NewStub(channel_)} {
      if (!channel_->WaitForConnected(std::chrono::system_clock::now() + connect_within)) {
        throw std::runtime_error("could not connect");
      }
    }
    client(const client&) = delete;
    client& operator=(const client&) = delete;
    ~client() {
      for (asked_call* const call : calls_) {
        call->context.TryCancel();
      }
      queue_.Shutdown();
      void* tag = nullptr;
      bool ok = false;
      while (queue_.Next(&tag, &ok)) {
        delete static_cast<completion*>(tag);
      }
    }

    bool ask(std::span<const std::byte> body) {
      auto* const call = new asked_call{*this};  // deletes itself
      calls_.insert(call);
      call->asked.set_bytes(body.data(), body.size());
      call->reader = stub_->AsyncAsk(&call->context, call->asked, &queue_);
      call->reader->Finish(&call->reply, &call->status, static_cast<completion*>(call));
      return true;
    }

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      const std::function<void(std::span<const std::byte>)> take = handler;
      take_ = &take;
      poll_queue(queue_, patience);
      take_ = nullptr;
    }

   private:
    class asked_call : public completion {
     public:
      explicit asked_call(client& of) : of_{of} {}
      void done(bool) override {
        const std::unique_ptr<asked_call> last{this};
        of_.calls_.erase(this);
        if (!status.ok()) {
          throw std::runtime_error("a call failed: " + status.error_message());
        }
        (*of_.take_)(bytes_of(reply.bytes()));
      }

      Body asked;
      Body reply;
      grpc::ClientContext context;
      grpc::Status status;
      std::unique_ptr<grpc::ClientAsyncResponseReader<Body>> reader;

     private:
      client& of_;
    };

    std::shared_ptr<grpc::Channel> channel_;
    std::unique_ptr<Asking::Stub> stub_;
    grpc::CompletionQueue queue_;
    std::unordered_set<asked_call*> calls_;  // to cancel them at the end
    const std::function<void(std::span<const std::byte>)>* take_ = nullptr;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  return atbus::compare::run_asking<atbus::compare::grpc_request>(argc, argv);
}
