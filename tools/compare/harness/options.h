// The command line that all harnesses understand, whatever system they drive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "atbus/bench/message.h"

namespace atbus::compare {

enum class role : std::uint8_t {
  receive,
  send,
  pong,
  ping,
  hold,   // connects `senders` times and sends nothing
  serve,  // answers requests
  ask,    // keeps `in_flight` requests under way
  both    // receive and send as two threads of one process, for what works in no other way
};

struct options {
  role what = role::receive;
  std::string address;
  std::string reply_address;  // pong sends to it, ping listens there
  std::string variant;        // what an adapter can do in more than one way
  std::uint64_t bytes_min = 8;
  std::uint64_t bytes_max = 128;
  double seconds = 1;
  double warm_up = 0;     // seconds of asking before that, which do not count
  double rate = 0;        // messages per second of this sender; 0: as many as it can
  bool paced = false;     // messages carry their intended send time
  bool blocking = false;  // sleep when there is nothing to receive
  bool claim = false;
  std::uint64_t sender = 0;
  std::uint64_t senders = 1;
  double pause_after = -1;  // the receiver stops reading then, for so long
  double pause_for = 0;
  std::uint64_t in_flight = 1;
  std::uint64_t fan_out = 0;  // tasks that a request starts, each of which waits for a random time
  std::int64_t delay_min_us = 50'000;
  std::int64_t delay_max_us = 100'000;
  double patience = 2;  // the receiver ends so long after the last message; what is late is lost

  bench::message_lengths lengths() const noexcept {
    return bytes_min == bytes_max
               ? bench::message_lengths::fixed(bytes_max)
               : bench::message_lengths::uniform(static_cast<std::uint32_t>(bytes_max / 8));
  }
  // How many messages are worth about so many bytes: what queues are counted in.
  std::uint64_t messages_in(std::uint64_t bytes) const noexcept {
    return std::max<std::uint64_t>(bytes / ((bytes_min + bytes_max) / 2), 16);
  }
};

// Throws std::runtime_error with a sentence.
options parse_options(int argc, char** argv);

}  // namespace atbus::compare
