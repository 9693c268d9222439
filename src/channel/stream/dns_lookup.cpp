#include "channel/stream/dns_lookup.h"

#include <netdb.h>
#include <sys/epoll.h>
#include <uv.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "core/error_text.h"
#include "system/fork_guard.h"

namespace atbus::detail {

struct dns_lookup::request final : fork_guard {
  uv_loop_t loop{};
  uv_getaddrinfo_t asked{};
  std::string text;  // the address
  std::vector<socket_address> found;
  int code = 0;
  bool done = false;
  bool forked = false;
  request* next_orphan = nullptr;

  // False: the kernel has no memory or no watch left for it. libuv ends the process when it can't add to its
  // epoll instance; what is there already it changes, for which the kernel needs neither.
  [[nodiscard]] bool watch() const noexcept {
    for (const int one : {loop.async_io_watcher.fd, loop.signal_io_watcher.fd}) {
      epoll_event interest{.events = EPOLLIN, .data = {.fd = one}};
      if (one >= 0 && kernel().epoll_ctl(loop.backend_fd, EPOLL_CTL_ADD, one, &interest) != 0)
        return false;
    }
    return true;
  }

  // Runs ready callbacks. True: libuv has finished.
  bool run() noexcept { return uv_run(&loop, UV_RUN_NOWAIT) == 0; }

  // The worker thread does not exist in the child: what it uses is neither run nor freed there. libuv's own means
  // for a child take memory.
  void abandon_in_child() noexcept override {
    if (std::exchange(forked, true) || loop.backend_fd < 0)
      return;
    for (const int one : {loop.backend_fd, loop.async_io_watcher.fd, loop.async_wfd,
                          loop.signal_pipefd[0], loop.signal_pipefd[1]}) {
      if (one >= 0)
        (void)kernel().close(one);
    }
  }
};

// Requests whose lookup was destroyed while a worker thread still used them. They are freed when a later
// lookup ends, or at the end of the process.
struct dns_lookup::orphans {
  std::mutex mutex;  // locked only inside a fork_pause: no child inherits it locked
  dns_lookup::request* first = nullptr;
};

dns_lookup::orphans& dns_lookup::orphaned() {
  static auto* const kept = new orphans;  // a worker may outlive static objects
  return *kept;
}

result<std::unique_ptr<dns_lookup>> dns_lookup::start(const std::string& host, std::uint16_t port) {
  const fork_pause no_fork;
  (void)orphaned();  // here, where it may fail
  std::unique_ptr<dns_lookup> lookup{new dns_lookup};
  auto made = std::make_unique<request>();
  made->text = "dns://" + host;
  if (const int code = uv_loop_init(&made->loop); code != 0) {
    return error_at(errc::system_error, made->text, "can't make a loop for the lookup", -code);
  }
  if (!made->watch()) {
    const int failed = errno;
    uv_loop_close(&made->loop);
    return error_at(errc::system_error, made->text, "can't watch for the lookup's answer", failed);
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
        try {
          for (const addrinfo* one = answer; one != nullptr; one = one->ai_next) {
            socket_address to;
            if (one->ai_addrlen > sizeof to.storage)
              continue;
            std::memcpy(&to.storage, one->ai_addr, one->ai_addrlen);
            to.length = one->ai_addrlen;
            self.found.push_back(to);
          }
        } catch (const std::bad_alloc&) {  // libuv's C code can't pass it on
          if (self.found.empty())
            self.code = UV_ENOMEM;
        }
        uv_freeaddrinfo(answer);
      },
      host.c_str(), service.c_str(), &hints);
  if (code != 0) {
    uv_loop_close(&made->loop);
    return error_at(errc::system_error, made->text, "can't start the lookup", -code);
  }
  made->run();  // the loop's descriptor reports the answer only after one run
  lookup->request_ = made.release();
  return lookup;
}

dns_lookup::~dns_lookup() {
  if (request_ == nullptr)
    return;
  const fork_pause no_fork;
  orphans& kept = orphaned();
  const std::lock_guard lock{kept.mutex};
  uv_cancel(reinterpret_cast<uv_req_t*>(&request_->asked));
  request_->next_orphan = std::exchange(kept.first, request_);
  for (request** at = &kept.first; *at != nullptr;) {
    request* const left = *at;
    if (left->forked || !left->run()) {
      at = &left->next_orphan;
      continue;
    }
    *at = left->next_orphan;
    uv_loop_close(&left->loop);
    delete left;
  }
}

int dns_lookup::descriptor() const noexcept {
  return uv_backend_fd(&request_->loop);
}

bool dns_lookup::poll(std::vector<socket_address>& found, error& why) noexcept {
  request_->run();
  if (!request_->done)
    return false;
  found = std::move(request_->found);
  if (request_->code != 0 || found.empty()) {
    const int code = request_->code == 0 ? UV_EAI_NONAME : request_->code;
    const bool unknown = code == UV_EAI_NONAME || code == UV_EAI_NODATA;
    const errc reason = unknown ? errc::not_found : errc::system_error;
    why = error_of(reason, [&] {
      return error{reason, request_->text + ": " +
                               (unknown ? "no such host"
                                        : std::string{"can't resolve it: "} + uv_strerror(code))};
    });
  }
  return true;
}

void dns_lookup::abandon() noexcept {
  request_ = nullptr;  // it has given up itself
}

}  // namespace atbus::detail
