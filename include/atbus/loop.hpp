/// @file
/// Channels on a libuv loop: the loop delivers messages and announces room.
///
/// ```cpp
/// auto inbox = atbus::loop_receiver::attach(loop, std::move(*receiver), [](atbus::bytes_view m) {
///   handle(m);
/// });
/// auto out = atbus::loop_sender::attach(loop, std::move(*sender));
/// (*out)->on_writable([&] { resume(); });
/// uv_run(loop, UV_RUN_DEFAULT);
/// inbox->rethrow();
/// ```
///
/// Guarantees:
///  - While nothing arrives, a binding uses no CPU and wakes no process: the channel sleeps on its
///    doorbell, which the loop watches. While messages keep arriving, each turn of the loop delivers
///    at most what `per_turn` allows, and everything else on the loop runs in between.
///  - A binding owns its channel. Destroying, closing or moving it is safe at any moment, also
///    inside its own handler. As with any libuv handle, run the loop once more before
///    uv_loop_close, so that libuv releases what it still refers to.
///  - A handler's exception never crosses libuv's frames. The binding keeps it, pauses delivery, and
///    stops the loop as uv_stop does. The next `rethrow()`, `->` or `*` on the binding throws it;
///    delivery then goes on with the next message. Nothing else on a binding throws. Destroying a
///    binding drops the exception it keeps. If a handler destroys its own binding and then throws,
///    that exception is dropped as well.
///
/// Threads: the loop's own. The loop must outlive its bindings.
///
/// Fork: in a forked child the channels of inherited bindings are unusable. The child may end the
/// bindings, and run the loop after uv_loop_fork: they do nothing there, and do not keep it running.
/// The parent's bindings are not affected.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "atbus/channel_options.hpp"
#include "atbus/connection.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "atbus/status.hpp"

struct uv_loop_s;  // uv_loop_t

namespace atbus {

namespace detail {

class loop_binding;

// `receiver::poll` with a handler whose type the binding does not know.
class ATBUS_API message_dispatch {
 public:
  message_dispatch() = default;
  message_dispatch(const message_dispatch&) = delete;
  message_dispatch& operator=(const message_dispatch&) = delete;
  virtual ~message_dispatch();
  virtual std::size_t poll(receiver& inbox, const poll_limits& limits) = 0;
};

template <class Handler>
class message_dispatch_to final : public message_dispatch {
 public:
  explicit message_dispatch_to(Handler handler) : handler_(std::move(handler)) {}
  std::size_t poll(receiver& inbox, const poll_limits& limits) override {
    return inbox.poll(handler_, limits);
  }

 private:
  Handler handler_;
};

}  // namespace detail

/// Base of the three bindings: their place on the loop and the exception they keep.
class ATBUS_API loop_handle {
 public:
  /// Throws the exception that a handler threw, if one is kept.
  void rethrow();
  /// Whether the binding keeps a handler's exception; delivery is paused until rethrow() throws it.
  [[nodiscard]] bool failed() const noexcept;

  /// An open binding keeps uv_run going as a libuv handle does; after unref() it does not.
  void ref() noexcept;
  /// Lets uv_run return although this binding is open.
  void unref() noexcept;

  /// Leaves the loop and closes the channel: published messages stay, and a receiver's messages
  /// wait for a successor. Idempotent.
  void close() noexcept;
  /// False after close(), and once the binding was moved away.
  [[nodiscard]] bool is_open() const noexcept { return binding_ != nullptr; }

 protected:
  /// For the bindings: takes ownership of a binding on a loop.
  explicit loop_handle(detail::loop_binding* binding) noexcept : binding_(binding) {}
  /// Takes the binding over; `other` is closed afterwards.
  loop_handle(loop_handle&& other) noexcept : binding_(std::exchange(other.binding_, nullptr)) {}
  /// Closes this binding and takes the other over.
  loop_handle& operator=(loop_handle&& other) noexcept {
    if (this != &other) {
      close();
      binding_ = std::exchange(other.binding_, nullptr);
    }
    return *this;
  }
  ~loop_handle() { close(); }

  /// For the bindings: begins to watch the descriptor of the channel.
  [[nodiscard]] error start(uv_loop_s* loop, int descriptor);
  /// Access to the channel: throws the kept exception first.
  [[nodiscard]] detail::loop_binding& binding() const;

 private:
  detail::loop_binding* binding_;
};

/// A receiver whose messages the loop delivers.
class ATBUS_API loop_receiver : public loop_handle {
 public:
  /// Limits of one turn of the loop.
  static constexpr poll_limits default_per_turn{.messages = 1024,
                                                .time = std::chrono::milliseconds{2}};

  /// Delivers what `inbox` receives to `handler`, which takes, and may do, the same as a handler of
  /// receiver::poll. Errors: closed (inbox is), invalid_argument (no loop, or no messages per
  /// turn), system_error (libuv's reason). After an error `inbox` is closed; its messages stay.
  template <class Handler>
  static result<loop_receiver> attach(uv_loop_s* loop, receiver inbox, Handler handler,
                                      const poll_limits& per_turn = default_per_turn) {
    return attach_dispatch(
        loop, std::move(inbox),
        std::make_unique<detail::message_dispatch_to<Handler>>(std::move(handler)), per_turn);
  }

  /// The receiver: its counters, `remove`, `close`. Once it is closed, the binding is inactive and
  /// no longer keeps the loop alive. Throws the exception that a handler left. The binding must be
  /// open.
  receiver& operator*() const;
  /// The receiver, as with `*`.
  receiver* operator->() const { return &**this; }

 private:
  explicit loop_receiver(detail::loop_binding* binding) noexcept : loop_handle(binding) {}
  static result<loop_receiver> attach_dispatch(uv_loop_s* loop, receiver inbox,
                                               std::unique_ptr<detail::message_dispatch> dispatch,
                                               const poll_limits& per_turn);
};

/// A sender whose on_writable handler the loop calls: after a send was refused with would_block,
/// once there is room for it, or once the channel has ended and the next send says why.
class ATBUS_API loop_sender : public loop_handle {
 public:
  /// Puts a sender on the loop. Errors: closed (out is), invalid_argument (no loop), system_error.
  /// After an error `out` is closed.
  static result<loop_sender> attach(uv_loop_s* loop, sender out);

  /// The sender: send, claim, on_writable. Throws the exception that a handler left. The binding
  /// must be open.
  sender& operator*() const;
  /// The sender, as with `*`.
  sender* operator->() const { return &**this; }

 private:
  explicit loop_sender(detail::loop_binding* binding) noexcept : loop_handle(binding) {}
};

/// A set of connections whose handlers the loop calls. Messages queued by the handlers, and by
/// other code on the loop, leave at the end of each turn.
class ATBUS_API loop_connections : public loop_handle {
 public:
  /// Limits of one turn of the loop: those of loop_receiver.
  static constexpr poll_limits default_per_turn = loop_receiver::default_per_turn;

  /// Puts a set on the loop. Errors: closed (set is), invalid_argument (no loop, or no messages per
  /// turn), system_error. After an error `set` is closed.
  static result<loop_connections> attach(uv_loop_s* loop, connection_set set,
                                         const poll_limits& per_turn = default_per_turn);

  /// The set: listen, connect, stats. Throws the exception that a handler left. The binding must be
  /// open.
  connection_set& operator*() const;
  /// The set, as with `*`.
  connection_set* operator->() const { return &**this; }

 private:
  explicit loop_connections(detail::loop_binding* binding) noexcept : loop_handle(binding) {}
};

}  // namespace atbus
