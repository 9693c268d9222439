// What comes from NATS to a carried link. Whatever is lost, repeated, swapped, changed and made up, the bytes
// that a node gets are a prefix of those that the other one sent. And an end that seals what it likes gets no
// more memory than it was granted.
//
// Input: one byte of choice, then steps.
//   0: two honest ends; a step is a byte, and what belongs to it
//     bit 7      whose turn it is
//     bits 0-2   0 the node writes a byte for each number up to the next byte of the input
//                1 the oldest message of the other end arrives      2 it is lost
//                3 any message that was said arrives, by number
//                4 that message with one byte changed               5 bytes of the input
//                6 nobody listens, says the server                  7 time passes
//   1: the other end seals: kind, number of the message and body from the input
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nats/byte_carrier.h"

namespace {

using namespace atbus::detail;
using namespace std::chrono_literals;
using atbus::bytes_view;

void require(bool held) {
  if (!held)
    std::abort();  // how libFuzzer learns of a broken promise
}

class input_reader {
 public:
  explicit input_reader(bytes_view input) noexcept : rest_{input} {}
  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }
  std::size_t byte() noexcept {
    return rest_.empty() ? 0 : std::to_integer<std::size_t>(take(1)[0]);
  }
  bytes_view take(std::size_t count) noexcept {
    const bytes_view taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  bytes_view rest_;
};

struct carrier_side final : carrier_outlet {
  explicit carrier_side(char name) {
    std::array<int, 2> ends{};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
    node = file{ends[0]};
    link.emplace(
        *this, file{ends[1]},
        std::string{"_INBOX.atbus.00112233445566778899aabbccddeeff.000000000000000"} + name, 0ns);
  }
  bool publish(const std::string& /*subject*/, const std::string& /*reply*/,
               bytes_view message) override {
    said.emplace_back(message.begin(), message.end());
    return true;
  }
  [[nodiscard]] std::size_t message_limit() const override { return 4096; }

  void put(std::size_t count) {
    for (std::size_t i = 0; i != count; ++i) {
      const auto next = static_cast<char>(sent % 251);
      sent += ::send(node.get(), &next, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 1 : 0;
    }
  }
  void work(std::chrono::nanoseconds time) {
    const auto interest = link->interest();
    if (interest && !link->ended())
      link->ready(*interest, time);
  }
  // What the node gets are the first bytes of the other one's.
  void check(std::size_t sent_by_other) {
    std::array<char, 512> bytes;
    for (;;) {
      const ssize_t got = ::recv(node.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got <= 0)
        break;
      for (ssize_t i = 0; i != got; ++i, ++received)
        require(bytes[static_cast<std::size_t>(i)] == static_cast<char>(received % 251));
    }
    require(received <= sent_by_other);
  }

  std::vector<byte_buffer> said;
  std::size_t passed = 0;  // of these
  std::size_t sent = 0;    // bytes of the node
  std::size_t received = 0;
  file node;
  std::optional<byte_carrier> link;
};

byte_buffer changed(byte_buffer message, std::size_t at) {
  if (!message.empty())
    message[at % message.size()] ^= std::byte{0x10};
  return message;
}

void step(input_reader& input, carrier_side& to, carrier_side& from, std::chrono::nanoseconds& time,
          std::size_t choice) {
  const auto any = [&] { return from.said[input.byte() % from.said.size()]; };
  switch (choice & 7U) {
    case 0:
      return to.put(input.byte());
    case 1:
      if (from.passed != from.said.size())
        (void)to.link->take(from.said[from.passed++], time);
      return;
    case 2:
      from.passed += from.passed != from.said.size() ? 1 : 0;
      return;
    case 3:
      (void)to.link->take(any(), time);
      return;
    case 4: {
      const byte_buffer one = any();
      (void)to.link->take(changed(one, input.byte()), time);
      return;
    }
    case 5:
      (void)to.link->take(input.take(input.byte()), time);
      return;
    case 6:
      return to.link->unheard(time);
    default:
      time += 200ms;
      return to.link->look_at_clock(time);
  }
}

void honest_ends(input_reader input) {
  std::chrono::nanoseconds time{0};
  carrier_side dialler{'1'};
  carrier_side listener{'2'};
  dialler.link->dial("fleet", time);
  listener.link->answer(*read_frame(dialler.said[dialler.passed++]), time);
  while (!input.empty()) {
    const std::size_t choice = input.byte();
    const bool is_listener = (choice & 0x80U) != 0;
    step(input, is_listener ? listener : dialler, is_listener ? dialler : listener, time, choice);
    dialler.work(time);
    listener.work(time);
    dialler.check(listener.sent);
    listener.check(dialler.sent);
  }
}

void sealing_end(input_reader input) {
  carrier_side listener{'2'};
  const auto pair = key_pair::make();
  require(pair.has_value());
  byte_buffer opening;
  write_head(carrier_kind::open, 0, opening);
  opening.insert(opening.end(), pair->public_key().begin(), pair->public_key().end());
  const bytes_view inbox =
      atbus::as_bytes("_INBOX.atbus.00112233445566778899aabbccddeeff.0000000000000001");
  opening.insert(opening.end(), inbox.begin(), inbox.end());
  const auto asked = read_frame(opening);
  listener.link->answer(*asked, 0ns);
  const auto answer = read_frame(listener.said.front());
  const auto said = read_opening(answer->body);
  const auto keys = pair->agree(said->key, asked->body, answer->body);
  require(keys.has_value());
  std::size_t data = 0;
  std::uint64_t number = 0;
  while (!input.empty()) {
    const auto kind = static_cast<carrier_kind>(1 + input.byte() % 6);
    const bytes_view part = input.take(input.byte());
    const std::size_t times = kind == carrier_kind::data ? input.byte() + 1 : 1;
    byte_buffer message;
    write_head(kind, number++, message);
    for (std::size_t i = 0; i != times; ++i)
      message.insert(message.end(), part.begin(), part.end());
    require(seal(keys->of_dialler, message));
    data += times * part.size();
    (void)listener.link->take(message, 0ns);
    listener.work(0ns);
    require(listener.link->waiting() <= byte_carrier::window_max);
    require(listener.link->waiting() <= data);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  input_reader input{{reinterpret_cast<const std::byte*>(data), size}};
  if (input.byte() % 2 == 0)
    honest_ends(input);
  else
    sealing_end(input);
  return 0;
}
