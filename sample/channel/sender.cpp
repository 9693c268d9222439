// Sends a few lines. Start it before or after the receiver.
#include <atbus/atbus.hpp>
#include <chrono>
#include <thread>

int main(int argc, char** argv) {
  const char* const address = argc > 1 ? argv[1] : "shm://hello";
  auto out = atbus::sender::open(address);
  while (out.error() == atbus::errc::not_found) {  // the receiver makes the segment
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    out = atbus::sender::open(address);
  }
  if (!out)
    return out.error().print(), 1;
  for (const char* const line : {"hello", "from another process", "bye"}) {
    auto sent = out->send(atbus::as_bytes(line));
    while (sent == atbus::errc::would_block) {  // the lane is full: sleep until there is room
      out->wait_writable(std::chrono::minutes{1});
      sent = out->send(atbus::as_bytes(line));
    }
    if (!sent)
      return sent.print(), 1;
  }
}
