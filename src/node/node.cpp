#include "atbus/node.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "atbus/detail/copy_payload.hpp"
#include "node/core/gathering.h"
#include "node/core/node_core.h"
#include "node/node_access.h"
#include "node/node_state.h"

namespace atbus {

void node_slot::give_up(detail::node_core& core, std::uint64_t claim) noexcept {
  if (core.last_claim() == claim)
    core.give_up_claim();
}

bool node_slot::is_open(const detail::node_core& core, std::uint64_t claim) noexcept {
  return core.last_claim() == claim && core.has_claim();
}

void node_slot::commit(detail::node_core& core, std::uint64_t claim, std::size_t length) noexcept {
  if (core.last_claim() == claim)
    core.commit(length);
}

bool ready_awaitable::await_suspend(std::coroutine_handle<> waiting) {
  if (core_ == nullptr) {
    result_ = errc::closed;
    return false;
  }
  self_ = std::make_shared<ready_awaitable*>(this);
  const error begun = core_->on_ready(id_, timeout_, [self = self_, waiting](status how) {
    if (*self == nullptr)
      return;
    (*self)->result_ = how;
    waiting.resume();
  });
  if (!begun)
    result_ = begun.code();
  return static_cast<bool>(begun);
}

bool command_awaitable::await_suspend(std::coroutine_handle<> waiting) {
  if (core_ == nullptr) {
    how_ = errc::closed;
    return false;
  }
  self_ = std::make_shared<command_awaitable*>(this);
  how_ = core_->commands().ask(to_, words_.all(), timeout_,
                               [self = self_, waiting](status how, const command_reply& reply) {
                                 if (*self == nullptr)
                                   return;
                                 (*self)->how_ = how;
                                 try {
                                   (*self)->reply_ = reply;
                                 } catch (const std::bad_alloc&) {
                                   (*self)->how_ = errc::out_of_memory;
                                 }
                                 waiting.resume();
                               });
  return static_cast<bool>(how_);
}

result<command_reply> command_awaitable::await_resume() {
  if (how_)
    return std::move(reply_);
  const error why{how_};
  return reply_.text().empty() ? why : why.with_text(std::string{reply_.text()});
}

request_awaitable::~request_awaitable() {
  if (waits_ && *open_)
    core_->requests().forget(sent_);
}

bool request_awaitable::await_suspend(std::coroutine_handle<> waiting) {
  if (core_ != nullptr) {
    open_ = core_->requests().is_open();
    sent_ = core_->requests().ask(to_, type_, bytes_, timeout_, trace_,
                                  [this, waiting](const response& how) {
                                    waits_ = false;
                                    result_ = kept_response{how};
                                    waiting.resume();
                                  });
    if (sent_ && trace_)
      core_->tell_relays(to_, *trace_);
    waits_ = static_cast<bool>(sent_);
  }
  if (!waits_)
    result_ = kept_response{{core_ != nullptr ? sent_.why() : errc::closed, to_, {}}};
  return waits_;
}

node::node(bus_id id, const node_options& options)
    : node(*new detail::node_state(id, options, detail::make_machine_platform(options))) {}

node::node(detail::node_state& state) noexcept
    : state_(&state), direct_path_(&state.core().path()) {}

void node::close() noexcept {
  direct_path_ = nullptr;
  if (state_ != nullptr)
    std::exchange(state_, nullptr)->release();
}

bool node::is_open() const noexcept {
  return state_ != nullptr && !state_->core().is_closed();
}

bus_id node::id() const noexcept {
  return state_ != nullptr ? state_->core().self().id : bus_id{};
}

std::uint64_t node::incarnation() const noexcept {
  return state_ != nullptr ? state_->core().self().incarnation : 0;
}

error node::listen(std::string_view address) {
  if (state_ == nullptr)
    return errc::closed;
  state_->rethrow();
  const result<std::string> made = state_->core().listen(address);
  return made ? error{} : made.error();
}

error node::fault() const {
  return state_ != nullptr ? state_->core().fault() : error{errc::closed};
}

void node::rethrow() {
  if (state_ != nullptr)
    state_->rethrow();
}

bool node::failed() const noexcept {
  return state_ != nullptr && state_->failed();
}

std::vector<std::string> node::addresses() const {
  return state_ != nullptr ? state_->core().addresses() : std::vector<std::string>{};
}

error node::connect(bus_id id, std::string_view address) {
  if (state_ == nullptr)
    return errc::closed;
  state_->rethrow();
  return state_->core().connect(id, address);
}

error node::set_policy(bus_id id, const peer_policy& policy) {
  return state_ != nullptr ? state_->core().set_policy(id, policy) : error{errc::closed};
}

error node::disconnect(bus_id id) {
  if (state_ == nullptr)
    return errc::closed;
  state_->rethrow();
  return state_->core().disconnect(id);
}

error node::offer(std::string_view name) {
  return state_ != nullptr ? state_->core().offer(name) : error{errc::closed};
}

error node::withdraw(std::string_view name) {
  return state_ != nullptr ? state_->core().withdraw(name) : error{errc::closed};
}

bus_id node::parent() const noexcept {
  return state_ != nullptr ? state_->core().parent() : bus_id{};
}

status node::send_elsewhere(bus_id to, std::uint32_t type, bytes_view bytes) noexcept {
  if (state_ == nullptr) [[unlikely]]
    return errc::closed;
  detail::node_core& core = state_->core();
  status why;
  std::byte* const at = core.claim(to, type, bytes.size(), why);
  if (at == nullptr) [[unlikely]]
    return why;
  if (!bytes.empty())
    detail::copy_payload(at, bytes.data(), bytes.size());
  core.commit(bytes.size());
  return {};
}

status node::send(bus_id to, std::uint32_t type, bytes_view bytes,
                  const trace_context& trace) noexcept {
  if (state_ == nullptr)
    return errc::closed;
  detail::node_core& core = state_->core();
  status why;
  std::byte* const at = core.claim_traced(to, type, bytes.size() + trace_context::size, why);
  if (at == nullptr)
    return why;
  if (!bytes.empty())
    std::memcpy(at, bytes.data(), bytes.size());
  trace.write(at + bytes.size());
  core.commit(bytes.size() + trace_context::size);
  core.tell_relays(to, trace);
  return {};
}

status node::send(bus_id to, std::uint32_t type, bytes_view bytes,
                  delivery_policy policy) noexcept {
  if (policy == delivery_policy::report)
    return send(to, type, bytes);
  if (state_ == nullptr)
    return errc::closed;
  detail::node_core& core = state_->core();
  status why;
  std::byte* const at = core.claim_required(to, type, bytes.size(), why);
  if (at == nullptr)
    return why;
  if (!bytes.empty())
    std::memcpy(at, bytes.data(), bytes.size());
  core.commit(bytes.size());
  return {};
}

status node::broadcast(const id_range& to, std::uint32_t type, bytes_view bytes) {
  return state_ != nullptr ? state_->core().broadcast().send(to, type, bytes)
                           : status{errc::closed};
}

status node::broadcast(const id_range& to, std::uint32_t type, bytes_view bytes,
                       std::chrono::nanoseconds timeout,
                       std::function<void(const std::vector<bus_id>&)> reached) {
  if (state_ == nullptr)
    return errc::closed;
  return state_->core().broadcast().send(to, type, bytes, timeout, std::move(reached));
}

node_slot::core_claim node::claim_elsewhere(bus_id to, std::uint32_t type,
                                            std::size_t length) noexcept {
  node_slot::core_claim made;
  if (state_ == nullptr) [[unlikely]] {
    made.why = errc::closed;
    return made;
  }
  detail::node_core& core = state_->core();
  made.at = core.claim(to, type, length, made.why);
  if (made.at != nullptr) {
    made.core = &core;
    made.number = core.last_claim();
  }
  return made;
}

status node::command(bus_id to, const command_words& words, std::chrono::nanoseconds timeout,
                     std::function<void(status, const command_reply&)> call) {
  return state_ != nullptr
             ? state_->core().commands().ask(to, words.all(), timeout, std::move(call))
             : status{errc::closed};
}

command_awaitable node::command(bus_id to, command_words words, std::chrono::nanoseconds timeout) {
  return {state_ != nullptr ? &state_->core() : nullptr, to, std::move(words), timeout};
}

request_handle node::request(bus_id to, std::uint32_t type, bytes_view bytes,
                             std::chrono::nanoseconds timeout,
                             std::function<void(const response&)> call) {
  if (state_ == nullptr)
    return {errc::closed, 0};
  return state_->core().requests().ask(to, type, bytes, timeout, std::nullopt, std::move(call));
}

request_handle node::request(bus_id to, std::uint32_t type, bytes_view bytes,
                             std::chrono::nanoseconds timeout, const trace_context& trace,
                             std::function<void(const response&)> call) {
  if (state_ == nullptr)
    return {errc::closed, 0};
  detail::node_core& core = state_->core();
  const request_handle sent = core.requests().ask(to, type, bytes, timeout, trace, std::move(call));
  if (sent)
    core.tell_relays(to, trace);
  return sent;
}

request_awaitable node::request(bus_id to, std::uint32_t type, bytes_view bytes,
                                std::chrono::nanoseconds timeout,
                                const std::optional<trace_context>& trace) noexcept {
  return {core(), to, type, bytes, timeout, trace};
}

error node::subscribe(std::string_view name, std::function<void(const topic_message&)> handler,
                      const subscription_options& options) {
  return state_ != nullptr ? state_->core().subscribe(name, std::move(handler), options)
                           : error{errc::closed};
}

error node::unsubscribe(std::string_view name) {
  return state_ != nullptr ? state_->core().unsubscribe(name) : error{errc::closed};
}

error node::set_tokens(const std::vector<std::string>& secrets) {
  return state_ != nullptr ? state_->core().set_tokens(secrets) : error{errc::closed};
}

std::optional<std::chrono::system_clock::time_point> node::certificate_expires() const noexcept {
  return state_ != nullptr ? state_->core().keys().expires() : std::nullopt;
}

status node::cancel(const request_handle& which) {
  return state_ != nullptr ? state_->core().requests().cancel(which) : status{errc::closed};
}

blob_handle node::send_blob(bus_id to, std::uint32_t type, blob_source source,
                            std::function<void(const blob_outcome&)> call,
                            const blob_options& options) {
  if (state_ == nullptr)
    return {errc::closed, 0};
  return state_->core().blobs().send(to, type, std::move(source), std::move(call), options);
}

status node::cancel_blob(const blob_handle& which) {
  return state_ != nullptr ? state_->core().blobs().cancel(which) : status{errc::closed};
}

void node::on_blob(std::uint32_t type, std::function<void(incoming_blob&)> handler) {
  if (state_ != nullptr)
    state_->core().events().set_blob(type, std::move(handler));
}

status node::resume_blob(const blob_id& which) {
  return state_ != nullptr ? state_->core().blobs().resume(which) : status{errc::closed};
}

status node::refuse_blob(const blob_id& which, std::string_view why) {
  return state_ != nullptr ? state_->core().blobs().refuse(which, why) : status{errc::closed};
}

namespace {

status begin_gathering(detail::node_core& core, const std::vector<bus_id>& to, std::uint32_t type,
                       bytes_view bytes, std::size_t enough, std::chrono::nanoseconds timeout,
                       detail::gathering::gather_call call,
                       std::shared_ptr<detail::gathering>* kept = nullptr) {
  const auto made =
      std::make_shared<detail::gathering>(core.requests(), core.events(), enough, std::move(call));
  const status begun = made->begin(to, type, bytes, timeout);
  if (begun && kept != nullptr)
    *kept = made;
  return begun;
}

}  // namespace

status node::gather(const std::vector<bus_id>& to, std::uint32_t type, bytes_view bytes,
                    std::size_t enough, std::chrono::nanoseconds timeout,
                    std::function<void(const std::vector<kept_response>&)> call) {
  return state_ != nullptr
             ? begin_gathering(state_->core(), to, type, bytes, enough, timeout, std::move(call))
             : status{errc::closed};
}

gather_awaitable node::gather(std::vector<bus_id> to, std::uint32_t type, bytes_view bytes,
                              std::size_t enough, std::chrono::nanoseconds timeout) noexcept {
  return {core(), std::move(to), type, bytes, enough, timeout};
}

gather_awaitable::~gather_awaitable() {
  if (gathering_ != nullptr)
    gathering_->cancel();
}

bool gather_awaitable::await_suspend(std::coroutine_handle<> waiting) {
  return core_ != nullptr && begin_gathering(
                                 *core_, to_, type_, bytes_, enough_, timeout_,
                                 [this, waiting](std::vector<kept_response>&& all) {
                                   gathering_.reset();
                                   result_ = std::move(all);
                                   waiting.resume();
                                 },
                                 &gathering_);
}

bool sleep_awaitable::await_suspend(std::coroutine_handle<> waiting) noexcept {
  sleeper_.waiting = waiting;
  sleeper_.result = sleeper_.core != nullptr
                        ? sleeper_.core->sleeping().add(sleeper_, sleeper_.time)
                        : errc::closed;
  return sleeper_.result == errc::ok;
}

void node::spawn(task<> what) {
  if (state_ != nullptr)
    state_->spawn(std::move(what));
}

detail::node_core* node::core() const noexcept {
  return state_ != nullptr ? &state_->core() : nullptr;
}

std::function<void(std::exception_ptr)> node::exception_sink() const {
  if (state_ == nullptr)
    return [](const std::exception_ptr&) {};
  return state_->core().events().exception_sink();
}

node_sender node::sender() {
  return node_sender{state_ != nullptr ? state_->open_thread_lane() : error{errc::closed}};
}

void node::on_message(std::function<void(const message&)> handler) {
  if (state_ != nullptr)
    state_->core().events().set_message(std::move(handler));
}

error node::set_typed(std::uint32_t type, const void* tag,
                      std::function<bool(const message&)> handler) {
  if (state_ == nullptr)
    return errc::closed;
  if (state_->core().events().set_typed(type, tag, std::move(handler)))
    return {};
  return {errc::invalid_argument,
          "another type of this program has the message type " + std::to_string(type)};
}

void node::on_command(std::function<void(atbus::command&)> handler) {
  if (state_ != nullptr)
    state_->core().events().set(&detail::node_handlers::on_command, std::move(handler));
}

void node::on_command(std::string_view name, std::function<void(atbus::command&)> handler) {
  if (state_ != nullptr)
    state_->core().events().set_command(std::string{name}, std::move(handler));
}

void node::on_request(std::uint32_t type, std::function<void(atbus::request&)> handler) {
  if (state_ != nullptr)
    state_->core().events().set_request(type, std::move(handler));
}

void node::on_request(std::function<void(atbus::request&)> handler) {
  if (state_ != nullptr)
    state_->core().events().set(&detail::node_handlers::on_request, std::move(handler));
}

void node::on_undelivered(std::function<void(const undelivered&)> handler) {
  if (state_ != nullptr)
    state_->core().events().set(&detail::node_handlers::on_undelivered, std::move(handler));
}

void node::on_endpoint(std::function<void(const endpoint&, endpoint_event)> handler) {
  if (state_ != nullptr)
    state_->core().events().set(&detail::node_handlers::on_endpoint, std::move(handler));
}

void node::on_writable(std::function<void(bus_id)> handler) {
  if (state_ != nullptr)
    state_->core().events().set(&detail::node_handlers::on_writable, std::move(handler));
}

void node::on_log(std::function<void(std::string_view)> sink) {
  if (state_ != nullptr)
    state_->core().events().set(&detail::node_handlers::on_log, std::move(sink));
}

error node::on_ready(bus_id id, std::chrono::nanoseconds timeout,
                     std::function<void(status)> call) {
  if (state_ == nullptr)
    return errc::closed;
  return state_->core().on_ready(id, timeout, std::move(call));
}

ready_awaitable node::ready(bus_id id, std::chrono::nanoseconds timeout) noexcept {
  return {state_ != nullptr ? &state_->core() : nullptr, id, timeout};
}

std::size_t node::poll(const poll_limits& limits) {
  if (state_ == nullptr)
    return 0;
  state_->rethrow();
  return state_->poll(limits);
}

status node::wait(std::chrono::nanoseconds timeout) {
  return state_ != nullptr ? state_->wait(timeout) : status{errc::closed};
}

status node::run() {
  return state_ != nullptr ? state_->run() : status{errc::closed};
}

void node::stop() noexcept {
  if (state_ != nullptr)
    state_->stop();
}

status node::shutdown(std::chrono::nanoseconds deadline) {
  return state_ != nullptr ? state_->shutdown(deadline) : status{errc::closed};
}

bool node::is_settled() const noexcept {
  return state_ == nullptr || state_->core().is_closed() || state_->settled();
}

void node::flush() noexcept {
  if (state_ != nullptr)
    state_->core().flush();
}

int node::descriptor() const noexcept {
  return state_ != nullptr ? state_->core().descriptor() : -1;
}

bool node::prepare_sleep() {
  return state_ != nullptr && state_->prepare_sleep();
}

void node::finish_sleep() {
  if (state_ != nullptr)
    state_->finish_sleep();
}

std::chrono::nanoseconds node::longest_sleep() const noexcept {
  return state_ != nullptr ? state_->longest_sleep() : std::chrono::nanoseconds{-1};
}

node_stats node::stats() const noexcept {
  return state_ != nullptr ? state_->core().stats() : node_stats{};
}

node_report node::report() const {
  node_report all;
  if (state_ != nullptr)
    state_->core().report(all);
  return all;
}

std::vector<bus_id> node::connected(const id_range& within) const {
  std::vector<bus_id> all;
  for (const endpoint& one : endpoints()) {
    if (one.connected() && within.contains(one.id()))
      all.push_back(one.id());
  }
  std::ranges::sort(all);
  return all;
}

std::vector<endpoint> node::endpoints() const {
  return state_ != nullptr ? state_->core().endpoints() : std::vector<endpoint>{};
}

namespace detail {

node node_access::make(bus_id id, const node_options& options,
                       std::shared_ptr<node_platform> platform) {
  return node{*new node_state(id, options, std::move(platform))};
}

node_core& node_access::core(node& of) noexcept {
  return of.state_->core();
}

void node_access::before_polls(node& of, std::function<void()> call) {
  if (of.state_ != nullptr)
    of.state_->set_before_poll(std::move(call));
}

void node_access::limit_shutdown(node& of, std::function<std::size_t()> room) {
  if (of.state_ != nullptr)
    of.state_->limit_shutdown(std::move(room));
}

bool node_access::is_stopping(node& of) noexcept {
  return of.state_ != nullptr && of.state_->is_stopping();
}

bool node_access::is_over(node& of) noexcept {
  return of.state_ != nullptr && of.state_->is_over();
}

bool node_access::is_released(const node& of) noexcept {
  return of.state_ == nullptr;
}

bool node_access::is_in_use(const node& of) noexcept {
  return of.state_ != nullptr && of.state_->is_in_use();
}

}  // namespace detail
}  // namespace atbus
