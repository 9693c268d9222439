// Prints what arrives until somebody says "bye". Start it before or after the sender.
#include <atbus/atbus.hpp>
#include <chrono>
#include <iostream>

int main(int argc, char** argv) {
  auto inbox = atbus::receiver::open(argc > 1 ? argv[1] : "shm://hello");
  if (!inbox)
    return inbox.error().print(), 1;
  for (bool done = false; !done;) {
    inbox->wait(std::chrono::minutes{1});  // sleeps until something is there
    inbox->poll([&](atbus::bytes_view message) {
      std::cout << atbus::as_text(message) << std::endl;
      done = atbus::as_text(message) == "bye";
    });
  }
  return inbox->remove() ? 0 : 1;  // closing alone would leave the segment for a successor
}
