// One link: takes bytes from a socket, sends them in numbered and sealed messages, and writes what the other end
// sends to the socket. Knows nothing of NATS but that messages may be lost, come twice, or come from strangers.
//
// Guarantees:
//  - The bytes that reach a socket are a prefix of those that went into the other one. What is lost, late or
//    changed ends the link; it never leaves a gap.
//  - Messages without the right seal change nothing, and neither do repeated ones.
//  - It holds at most `window_max` bytes that the socket does not take.
//  - An end that has heard nothing for silence_max ends the link.
//
// One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "atbus/bytes.hpp"
#include "atbus/status.hpp"
#include "nats/carrier_frame.h"
#include "nats/link_seal.h"
#include "system/kernel.h"

namespace atbus::detail {

// Where messages leave.
class carrier_outlet {
 public:
  // `reply`: where the server tells that nobody listens to the subject. False: the message has not left.
  [[nodiscard]] virtual bool publish(const std::string& subject, const std::string& reply,
                                     bytes_view message) = 0;
  // The longest message in bytes.
  [[nodiscard]] virtual std::size_t message_limit() const = 0;

 protected:
  ~carrier_outlet() = default;
};

class byte_carrier {
 public:
  using time = std::chrono::nanoseconds;

  static constexpr std::uint64_t window_min = 64 * 1024;
  static constexpr std::uint64_t window_max = 1024 * 1024;
  static constexpr std::size_t data_max = carrier_data_max;
  static constexpr time sign_of_life = std::chrono::seconds{1};
  static constexpr time silence_max = std::chrono::seconds{6};
  // How long an end may be silent after the server has said that nobody listens to its inbox. Anyone can say so.
  static constexpr time silence_max_unheard = std::chrono::milliseconds{2500};

  // `inbox`: where the other end answers. `out` outlives it. Throws std::bad_alloc, as all members that send.
  byte_carrier(carrier_outlet& out, file socket, std::string inbox, time now);
  byte_carrier(const byte_carrier&) = delete;
  byte_carrier& operator=(const byte_carrier&) = delete;
  ~byte_carrier();

  // Asks the listener at this subject for a link.
  void dial(const std::string& subject, time now);
  // Answers an `open` message.
  void answer(const carrier_frame& opening, time now);

  // A message to the inbox. Whether it was one of the other end's.
  bool take(bytes_view message, time now);
  // The server says that nobody listens to what was published.
  void unheard(time now);
  // The socket is as epoll says: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR.
  void ready(std::uint32_t events, time now);
  void look_at_clock(time now);
  // Ends the link here; the other end is told if it still listens. The socket is shut down by the destructor, so
  // that the owner can say why before.
  void end(error why, time now);

  // What epoll has to wait for; no value: not even for the end of the socket.
  [[nodiscard]] std::optional<std::uint32_t> interest() const noexcept;
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  // ok: both ends have closed it.
  [[nodiscard]] const error& why() const noexcept { return why_; }
  [[nodiscard]] bool is_opening() const noexcept { return !keys_.has_value(); }
  // Where its messages go: the other end's inbox, or the listener's subject.
  [[nodiscard]] const std::string& other_end() const noexcept { return theirs_; }
  [[nodiscard]] time due_at() const noexcept { return std::min(dies_at_, says_at_); }
  // Bytes that wait for the socket.
  [[nodiscard]] std::size_t waiting() const noexcept { return received_ - delivered_; }

 private:
  [[nodiscard]] byte_buffer opening_body() const;
  [[nodiscard]] error send(carrier_kind kind, bytes_view body, time now);
  void say(carrier_kind kind, bytes_view body, time now);
  void say_credit(time now);
  void accepted(const carrier_frame& frame, bytes_view message, time now);
  void take_sealed(const carrier_frame& frame, time now);
  void take_data(bytes_view bytes, time now);
  void deliver(time now);
  void read_socket(time now);
  void grant(time now);
  void settle_ends(time now);
  void finish(error why);
  [[nodiscard]] std::uint64_t window() const noexcept;
  [[nodiscard]] std::size_t sendable() const;

  carrier_outlet& out_;
  file socket_;
  const std::string inbox_;
  std::string theirs_;  // their inbox, or the listener's subject
  std::optional<key_pair> pair_;
  byte_buffer opening_;  // the body of this end's `open`
  std::optional<seal_keys> keys_;
  bool dialled_ = false;
  bool hung_up_ = false;    // the socket's other end is closed
  bool end_said_ = false;   // this end sends no further data
  bool end_heard_ = false;  // nor does the other one
  bool close_heard_ = false;
  bool ended_ = false;
  error why_;
  std::uint64_t next_out_ = 0;  // numbers of messages
  std::uint64_t next_in_ = 0;
  std::uint64_t sent_ = 0;  // bytes
  std::uint64_t send_limit_ = window_min;
  std::uint64_t received_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t granted_ = window_min;
  std::deque<byte_buffer> waiting_;
  std::size_t first_at_ = 0;  // bytes of the first one that are written
  byte_buffer message_;       // under construction
  time dies_at_;
  time says_at_;
};

}  // namespace atbus::detail
