#include "atbus/loop.hpp"

#include <cassert>

#include "channel/loop_binding.h"

namespace atbus {
namespace detail {

message_dispatch::~message_dispatch() = default;

class receiver_on_loop final : public loop_binding {
 public:
  receiver_on_loop(receiver inbox, std::unique_ptr<message_dispatch> dispatch,
                   const poll_limits& per_turn)
      : inbox_(std::move(inbox)), dispatch_(std::move(dispatch)), per_turn_(per_turn) {}

  [[nodiscard]] receiver& channel() noexcept { return inbox_; }

 private:
  void before_wait() override {
    if (ended())
      return;
    if (!inbox_.is_open())
      return retire();
    if (asleep_ && woken_)
      return stay_awake();
    // Even if it is asleep: a poll since then has woken it.
    asleep_ = inbox_.prepare_sleep();
    if (ended())
      return;  // a problem handler has ended this binding
    if (asleep_) {
      sleep(inbox_.longest_sleep());
    } else {
      stay_awake();
    }
  }

  void after_wait() override {
    // Asleep and not rung: the loop turned for another reason, so stay asleep.
    if (ended() || (asleep_ && !woken_))
      return;
    asleep_ = woken_ = false;
    inbox_.finish_sleep();
    if (ended())
      return;
    guarded([this] { dispatch_->poll(inbox_, per_turn_); });
  }

  void close_channel() noexcept override { inbox_.close(); }
  void drop_handler() noexcept override { dispatch_.reset(); }

  receiver inbox_;
  std::unique_ptr<message_dispatch> dispatch_;
  poll_limits per_turn_;
  bool asleep_ = false;
};

class connections_on_loop final : public loop_binding {
 public:
  connections_on_loop(connection_set set, const poll_limits& per_turn)
      : set_(std::move(set)), per_turn_(per_turn) {}

  [[nodiscard]] connection_set& channel() noexcept { return set_; }

 private:
  void before_wait() override {
    if (ended())
      return;
    if (!set_.is_open())
      return retire();
    // In any case: messages queued in this turn leave now.
    asleep_ = set_.prepare_sleep() && !(asleep_ && woken_);
    if (asleep_) {
      sleep(set_.longest_sleep());
    } else {
      stay_awake();
    }
  }

  void after_wait() override {
    if (ended() || (asleep_ && !woken_))
      return;
    asleep_ = woken_ = false;
    guarded([this] { set_.poll(per_turn_); });
  }

  void close_channel() noexcept override { set_.close(); }

  connection_set set_;
  poll_limits per_turn_;
  bool asleep_ = false;
};

class sender_on_loop final : public loop_binding {
 public:
  explicit sender_on_loop(sender out) : out_(std::move(out)) { out_.backend_->ride_on_loop(); }

  [[nodiscard]] sender& channel() noexcept { return out_; }

 private:
  void before_wait() override {
    if (ended())
      return;
    if (!out_.is_open())
      return retire();
    if (asleep_ && woken_)
      wake_up();
    if (out_.prepare_sleep()) {
      asleep_ = true;
      return sleep(out_.longest_sleep());
    }
    if (asleep_)
      wake_up();
    bool called = false;
    if (!guarded([&] { called = out_.poll_writable(); }))
      return;
    // If a handler ran, it may have filled the lane again. And a program that runs the loop step by step
    // should see the effect of the handler before the loop waits.
    if (called)
      return stay_awake();
    // The connection may have been lost and has to be dialled again.
    if (out_.is_open() && out_.prepare_sleep()) {
      asleep_ = true;
      return sleep(out_.longest_sleep());
    }
    rest();
  }

  void after_wait() override {
    if (ended() || !woken_)
      return;
    wake_up();
    guarded([this] { out_.poll_writable(); });
  }

  void wake_up() {
    asleep_ = woken_ = false;
    out_.finish_sleep();
  }

  void close_channel() noexcept override { out_.close(); }

  sender out_;
  bool asleep_ = false;
};

namespace {

template <class Binding, class... Parts>
Binding* make_binding(Parts&&... parts) {
  const fork_pause no_fork;
  return new Binding{std::forward<Parts>(parts)...};
}

}  // namespace
}  // namespace detail

error loop_handle::start(uv_loop_s* loop, int descriptor) {
  return binding_->start(loop, descriptor);
}
detail::loop_binding& loop_handle::binding() const {
  assert(binding_ != nullptr);
  binding_->rethrow();
  return *binding_;
}
void loop_handle::rethrow() {
  if (binding_ != nullptr)
    binding_->rethrow();
}
bool loop_handle::failed() const noexcept {
  return binding_ != nullptr && binding_->failed();
}
void loop_handle::ref() noexcept {
  if (binding_ != nullptr)
    binding_->ref();
}
void loop_handle::unref() noexcept {
  if (binding_ != nullptr)
    binding_->unref();
}
void loop_handle::close() noexcept {
  if (binding_ != nullptr)
    std::exchange(binding_, nullptr)->let_go();
}

result<loop_receiver> loop_receiver::attach_dispatch(
    uv_loop_s* loop, receiver inbox, std::unique_ptr<detail::message_dispatch> dispatch,
    const poll_limits& per_turn) {
  if (!inbox.is_open())
    return error{errc::closed, "a receiver that is not open can't be attached to a loop"};
  if (loop == nullptr)
    return error{errc::invalid_argument, "a receiver can't be attached to a null loop"};
  if (per_turn.messages == 0)
    return error{errc::invalid_argument,
                 "a receiver on a loop must be allowed at least one message per turn"};
  // From here on the binding owns it, even on failure.
  const int descriptor = inbox.descriptor();
  loop_receiver bound{detail::make_binding<detail::receiver_on_loop>(
      std::move(inbox), std::move(dispatch), per_turn)};
  if (auto e = bound.start(loop, descriptor); !e)
    return e;
  return bound;
}

receiver& loop_receiver::operator*() const {
  return static_cast<detail::receiver_on_loop&>(binding()).channel();
}

result<loop_sender> loop_sender::attach(uv_loop_s* loop, sender out) {
  if (!out.is_open())
    return error{errc::closed, "a sender that is not open can't be attached to a loop"};
  if (loop == nullptr)
    return error{errc::invalid_argument, "a sender can't be attached to a null loop"};
  const int descriptor = out.descriptor();
  loop_sender bound{detail::make_binding<detail::sender_on_loop>(std::move(out))};
  if (auto e = bound.start(loop, descriptor); !e)
    return e;
  return bound;
}

sender& loop_sender::operator*() const {
  return static_cast<detail::sender_on_loop&>(binding()).channel();
}

result<loop_connections> loop_connections::attach(uv_loop_s* loop, connection_set set,
                                                  const poll_limits& per_turn) {
  if (!set.is_open())
    return error{errc::closed, "a set of connections that is not open can't be attached to a loop"};
  if (loop == nullptr)
    return error{errc::invalid_argument, "connections can't be attached to a null loop"};
  if (per_turn.messages == 0) {
    return error{errc::invalid_argument,
                 "connections on a loop must be allowed at least one message per turn"};
  }
  const int descriptor = set.descriptor();
  loop_connections bound{
      detail::make_binding<detail::connections_on_loop>(std::move(set), per_turn)};
  if (auto e = bound.start(loop, descriptor); !e)
    return e;
  return bound;
}

connection_set& loop_connections::operator*() const {
  return static_cast<detail::connections_on_loop&>(binding()).channel();
}

}  // namespace atbus
