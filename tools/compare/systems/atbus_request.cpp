// Requests of atbus nodes. Where the service fans out, it does so as those of other systems do, or with
// coroutines: --variant tasks.
#include <nlohmann/json.hpp>

#include "atbus/atbus.hpp"
#include "harness/asking.h"
#include "systems/atbus_outlet.h"

namespace atbus::compare {
namespace {

constexpr bus_id serving_node{1};
constexpr std::uint32_t type_of_requests = 1;
constexpr std::chrono::seconds patience_of_requests{20};

node open_node(const options& run, bus_id id) {
  node_options settings;
  settings.allow_unauthenticated();
  settings.requests(std::max<std::size_t>(settings.requests(), run.in_flight));
  settings.message_limit(
      std::max<std::size_t>(settings.message_limit(), run.bytes_max + request_overhead));
  return node{id, settings};
}

// A service at a node: requests reach it, and replies leave it, whatever it does meanwhile.
class node_service {
 public:
  explicit node_service(const options& run) : at_{open_node(run, serving_node)} {}

  void end() { static_cast<void>(at_.shutdown(std::chrono::seconds{1})); }

 protected:
  task<> reply_later(request asked, std::string body) {
    while (asked.reply(body) == errc::would_block && asked.is_wanted()) {
      static_cast<void>(co_await at_.sleep(std::chrono::milliseconds{1}));
    }
  }

  node at_;
};

// Without a coroutine, as the services of other systems.
class plain_service : public node_service {
 public:
  explicit plain_service(const options& run) : node_service{run}, bodies_{run}, waiting_{run} {
    if (run.fan_out != 0) {
      at_.on_request(type_of_requests, [this](request& asked) {
        const std::string_view body = asked.text();  // valid in this call
        waiting_.begin(asked.detach(), body);
      });
    } else {
      at_.on_request(type_of_requests, [this](request& asked) {
        if (bodies_.number_of(asked.bytes())) {
          reply(asked, asked.bytes());
        } else {
          static_cast<void>(asked.fail("damaged"));
        }
      });
    }
    require("listen", at_.listen(run.address));
  }

  void run() {
    while (!terminated()) {
      if (at_.poll() == 0) {
        static_cast<void>(at_.wait(waiting_.until_due(sleep_at_most)));
      }
      waiting_.reply_due(
          [this](request& asked, std::span<const std::byte> body) { reply(asked, body); });
    }
  }

 private:
  void reply(request& asked, std::span<const std::byte> body) {
    if (asked.reply(body) == errc::would_block) {
      std::string kept{text_of(body)};  // detach ends the bytes of the request
      at_.spawn(reply_later(asked.detach(), std::move(kept)));
    }
  }

  numbered_bodies bodies_;
  waiting_requests<request> waiting_;
};

// A coroutine for each request and for each of its tasks.
class task_service : public node_service {
 public:
  explicit task_service(const options& run) : node_service{run}, run_{run}, delays_{run} {
    at_.on_request(type_of_requests, [this](request asked) { return answer(std::move(asked)); });
    require("listen", at_.listen(run.address));
  }

  void run() {
    while (!terminated()) {
      if (at_.poll() == 0) {
        static_cast<void>(at_.wait(sleep_at_most));
      }
    }
  }

 private:
  task<> answer(request asked) {
    const nlohmann::json document = nlohmann::json::parse(asked.text());
    std::vector<task<>> tasks;
    tasks.reserve(run_.fan_out);
    for (std::uint64_t i = 0; i != run_.fan_out; ++i) {
      tasks.push_back(pause(delays_.next()));
    }
    co_await when_all(std::move(tasks));
    co_await reply_later(std::move(asked), document.dump());
  }

  task<> pause(std::chrono::nanoseconds time) { static_cast<void>(co_await at_.sleep(time)); }

  const options& run_;
  random_delays delays_;
};

template <class Service>
void run_service(const options& run) {
  Service service{run};
  say_ready();
  service.run();
  service.end();
}

struct atbus_request {
  static void serve(const options& run) {
    if (run.variant == "tasks") {
      run_service<task_service>(run);
    } else {
      run_service<plain_service>(run);
    }
  }

  class client {
   public:
    explicit client(const options& run) : from_{open_node(run, bus_id{2})} {
      require("connect", from_.connect(serving_node, run.address));
      static_cast<void>(retry([&] {
        from_.poll();
        return from_.endpoints().front().connected();
      }));
    }

    bool ask(std::span<const std::byte> body) {
      if (asked_since_poll_ == asked_a_poll) {
        return false;
      }
      const request_handle sent =
          from_.request(serving_node, type_of_requests, body, patience_of_requests,
                        [this](const response& outcome) { tell(outcome); });
      asked_since_poll_ += sent ? 1 : 0;
      return static_cast<bool>(sent);
    }

    template <class Handler>
    void poll(Handler&& handler, std::chrono::milliseconds patience) {
      const std::function<void(bytes_view)> take = handler;
      take_ = &take;
      const std::uint64_t told_before = told_;
      from_.poll();
      if (told_ == told_before && asked_since_poll_ != asked_a_poll) {
        static_cast<void>(from_.wait(patience));
        from_.poll();
      }
      asked_since_poll_ = 0;
      take_ = nullptr;
    }

   private:
    // Then it polls: so the service has something to do meanwhile.
    static constexpr unsigned asked_a_poll = 64;

    void tell(const response& outcome) {
      ++told_;
      if (!outcome && outcome.how() != errc::closed) {
        throw std::runtime_error("a request failed: " + outcome.how().text());
      }
      if (take_ != nullptr && outcome) {
        (*take_)(outcome.bytes());
      }
    }

    node from_;
    const std::function<void(bytes_view)>* take_ = nullptr;
    std::uint64_t told_ = 0;
    unsigned asked_since_poll_ = 0;
  };
};

}  // namespace
}  // namespace atbus::compare

int main(int argc, char** argv) {
  return atbus::compare::run_asking<atbus::compare::atbus_request>(argc, argv);
}
