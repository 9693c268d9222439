// Whatever a peer without the token says to either role, and whatever it repeats of what both said:
// neither is ever done unless the messages that it got are the very ones that the other said; a
// failed one says its refusal once and nothing after it.
//
// Input: steps, each a byte of choice and what belongs to it, to two nodes that shake hands.
//   bit 7: to the acceptor, not the initiator
//   bits 0-1: what it gets
//     0  the oldest message of the other end that it has not got: all that honest ends do
//     1  that message with one byte changed; which one and how follows in two bytes
//     2  any message that was said, by number, which follows in one byte
//     3  bytes of the input; how many follows in two bytes
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "atbus/bytes.hpp"
#include "core/text.h"
#include "handshake_pair.h"
#include "protocol/handshake.h"

namespace {

using namespace atbus::detail;
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
    if (rest_.empty())
      return 0;
    const auto value = std::to_integer<std::size_t>(rest_[0]);
    rest_ = rest_.subspan(1);
    return value;
  }
  bytes_view bytes(std::size_t count) noexcept {
    const bytes_view taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  bytes_view rest_;
};

bool is_ignored(bytes_view message) {
  message_head head;
  return decode(message, head) == head_fault::none && is_ignorable(head.kind);
}

// One end, what it said and what it was told.
struct end_record {
  handshake& end;
  std::vector<byte_buffer> said = {};
  std::vector<byte_buffer> heard = {};
  std::size_t taken = 0;  // of what the other end said

  void hear(bytes_view message) {
    const handshake_state before = end.state();
    const handshake_step step = end.receive(message);
    require(step.state == end.state());
    if (before == handshake_state::failed)
      require(step.state == handshake_state::failed && step.send.empty());
    if (step.state == handshake_state::failed) {
      require(!end.problem());
      require(std::ranges::all_of(end.problem().text(), is_printable));
    } else if (!is_ignored(message)) {
      heard.push_back(copy_of(message));
    }
    if (!step.send.empty())
      said.push_back(copy_of(step.send));
  }
};

byte_buffer next_message(input_reader& input, std::size_t choice, end_record& to,
                         const end_record& other) {
  const std::size_t what = choice & 3;
  if (what == 3) {
    const std::size_t count = input.byte();
    return copy_of(input.bytes(count | input.byte() << 8));
  }
  if (what == 2) {
    std::vector<byte_buffer> all = to.said;
    all.insert(all.end(), other.said.begin(), other.said.end());
    return all[input.byte() % all.size()];
  }
  if (to.taken == other.said.size())
    return {};
  byte_buffer message = other.said[to.taken++];
  if (what == 1) {
    std::byte& changed = message[input.byte() % message.size()];
    changed ^= static_cast<std::byte>(input.byte());
  }
  return message;
}

// Both heard what the other said, up to where this one is.
void check_done(const end_record& done, const end_record& other) {
  constexpr std::size_t messages_of_each = 2;
  require(done.heard.size() == messages_of_each);
  require(other.said.size() >= messages_of_each);
  require(std::equal(done.heard.begin(), done.heard.end(), other.said.begin()));
  require(done.end.peer().by_token);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  input_reader input{{reinterpret_cast<const std::byte*>(data), size}};
  handshake_pair pair;
  const handshake_step first_step = pair.begin();
  end_record dialling{*pair.first};
  end_record accepting{*pair.second};
  dialling.said.push_back(copy_of(first_step.send));
  std::array<bool, 2> was_done{};
  while (!input.empty()) {
    const std::size_t choice = input.byte();
    const bool to_acceptor = (choice & 0x80) != 0;
    end_record& to = to_acceptor ? accepting : dialling;
    const end_record& other = to_acceptor ? dialling : accepting;
    to.hear(next_message(input, choice, to, other));
    if (to.end.state() == handshake_state::done && !was_done[to_acceptor ? 1 : 0]) {
      check_done(to, other);
      was_done[to_acceptor ? 1 : 0] = true;
    }
  }
  return 0;
}
