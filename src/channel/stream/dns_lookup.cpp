#include "channel/stream/dns_lookup.h"

#include <netdb.h>
#include <uv.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

namespace atbus::detail {

struct dns_lookup::request {
  uv_loop_t loop{};
  uv_getaddrinfo_t asked{};
  std::string host;
  std::vector<socket_address> found;
  int code = 0;
  bool done = false;

  // Runs ready callbacks. True: libuv has finished.
  bool run() noexcept { return uv_run(&loop, UV_RUN_NOWAIT) == 0; }
};

namespace {

// Requests whose lookup was destroyed while a worker thread still used them. They are freed when a later
// lookup ends, or at the end of the process.
struct orphans {
  std::mutex mutex;
  std::vector<void*> requests;
};
orphans& orphaned() {
  static auto* const kept = new orphans;  // a worker may outlive static objects
  return *kept;
}

}  // namespace

result<std::unique_ptr<dns_lookup>> dns_lookup::start(const std::string& host, std::uint16_t port) {
  auto made = std::make_unique<request>();
  made->host = host;
  if (const int code = uv_loop_init(&made->loop); code != 0) {
    return error{errc::system_error,
                 "dns://" + host + ": can't make a loop for the lookup: " + uv_strerror(code),
                 -code};
  }
  made->asked.data = made.get();
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  const std::string service = std::to_string(port);
  const int code = uv_getaddrinfo(
      &made->loop, &made->asked,
      [](uv_getaddrinfo_t* asked, int status, addrinfo* answer) {
        auto& self = *static_cast<request*>(asked->data);
        self.done = true;
        self.code = status;
        for (const addrinfo* one = answer; one != nullptr; one = one->ai_next) {
          socket_address to;
          if (one->ai_addrlen > sizeof to.storage)
            continue;
          std::memcpy(&to.storage, one->ai_addr, one->ai_addrlen);
          to.length = one->ai_addrlen;
          self.found.push_back(to);
        }
        uv_freeaddrinfo(answer);
      },
      host.c_str(), service.c_str(), &hints);
  if (code != 0) {
    uv_loop_close(&made->loop);
    return error{errc::system_error,
                 "dns://" + host + ": can't start the lookup: " + uv_strerror(code), -code};
  }
  made->run();  // the loop's descriptor reports the answer only after one run
  return std::unique_ptr<dns_lookup>{new dns_lookup{made.release()}};
}

dns_lookup::~dns_lookup() {
  if (request_ == nullptr)
    return;
  orphans& kept = orphaned();
  const std::lock_guard lock{kept.mutex};
  uv_cancel(reinterpret_cast<uv_req_t*>(&request_->asked));
  kept.requests.push_back(request_);
  std::erase_if(kept.requests, [](void* at) {
    auto* const left = static_cast<request*>(at);
    if (!left->run())
      return false;
    uv_loop_close(&left->loop);
    delete left;
    return true;
  });
}

int dns_lookup::descriptor() const noexcept {
  return uv_backend_fd(&request_->loop);
}

bool dns_lookup::poll(std::vector<socket_address>& found, error& why) {
  request_->run();
  if (!request_->done)
    return false;
  found = std::move(request_->found);
  if (request_->code != 0 || found.empty()) {
    const int code = request_->code == 0 ? UV_EAI_NONAME : request_->code;
    const bool unknown = code == UV_EAI_NONAME || code == UV_EAI_NODATA;
    why = error{
        unknown ? errc::not_found : errc::system_error,
        "dns://" + request_->host + ": " +
            (unknown ? "no such host" : std::string{"can't resolve it: "} + uv_strerror(code))};
  }
  return true;
}

void dns_lookup::abandon() noexcept {
  // The worker thread does not exist in the child. Neither run nor free what it uses.
  request_ = nullptr;
}

}  // namespace atbus::detail
