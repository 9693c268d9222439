// Uses what a user's first program uses, so that a header that was not installed, a symbol that was
// not exported or a dependency that was left out stops the build.
#include <atbus/atbus.hpp>
#include <atbus/build_settings.hpp>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>

int main() {
  auto inbox = atbus::receiver::open("mem://package");
  if (!inbox)
    return inbox.error().print(), 1;
  auto out = atbus::sender::open("mem://package");
  if (!out)
    return out.error().print(), 1;
  if (const atbus::status sent = out->send(atbus::as_bytes("hello")); !sent)
    return sent.print(), 1;

  std::string received;
  inbox->poll([&](std::span<const std::byte> message) { received = atbus::as_text(message); });
  const std::string version{atbus::build_settings::version};
  std::printf("atbus %s: received \"%s\"\n", version.c_str(), received.c_str());
  return received == "hello" ? 0 : 1;
}
