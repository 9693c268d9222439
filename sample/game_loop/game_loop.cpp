// Two nodes in one process, polled once per frame as a game server does: never blocked, and never
// more than two milliseconds of a frame spent on messages.
#include <atbus/atbus.hpp>
#include <chrono>
#include <iostream>
#include <thread>

using namespace std::chrono_literals;

int main() {
  atbus::node zone{0x12340001};
  atbus::node gate{0x12340002};
  int moves = 0;
  zone.on_message([&](const atbus::message&) { ++moves; });
  zone.on_log([](std::string_view line) { std::cerr << "zone: " << line << '\n'; });
  if (auto s = zone.listen("mem://game-loop"); !s)
    return s.print(), 1;
  if (auto s = gate.connect(zone.id(), "mem://game-loop"); !s)
    return s.print(), 1;

  constexpr atbus::poll_limits per_frame{.messages = 1000, .time = 2ms};
  int frame = 0;
  for (; moves < 100 && frame < 1000; ++frame) {
    const auto next_frame = std::chrono::steady_clock::now() + 5ms;
    for (int player = 0; player < 10; ++player) {
      // Refused when the queue is full: a game drops that move, the next frame has a newer one.
      gate.send(zone.id(), 1, "a player moves");
    }
    gate.poll(per_frame);
    zone.poll(per_frame);
    std::this_thread::sleep_until(next_frame);
  }
  std::cout << moves << " moves in " << frame << " frames" << std::endl;
  return moves >= 100 ? 0 : 1;
}
