#include "storm.h"

namespace atbus::test {

bool storm_world::all_delivered() const {
  const std::uint32_t lives = memory_->sender_incarnations.load();
  for (std::uint32_t i = 1; i <= lives; ++i) {
    const sender_incarnation& instance = memory_->senders[i];
    if (instance.taking_back.load() == 0 && instance.delivered.load() < instance.accepted.load())
      return false;
  }
  return true;
}

std::string storm_world::account_incarnation(std::uint32_t index) const {
  const sender_incarnation& instance = memory_->senders[index];
  const std::uint64_t delivered = instance.delivered.load();
  const std::uint64_t accepted = instance.accepted.load();
  const std::uint64_t attempted = instance.attempted.load();
  const std::uint64_t back = instance.taken_back.load();
  const std::uint64_t first_back = instance.first_taken_back.load();
  const std::string text = "incarnation " + std::to_string(index) + ": " +
                           std::to_string(attempted) + " attempted, " + std::to_string(accepted) +
                           " accepted, " + std::to_string(delivered) + " delivered, " +
                           std::to_string(back) + " taken back from " + std::to_string(first_back);
  if (delivered > attempted)
    return text;
  // Killed while it took back: a prefix has arrived, the rest was nobody's any more.
  if (instance.taking_back.load() == 1)
    return {};
  if (back == 0)
    return delivered < accepted ? text : std::string{};
  const std::uint64_t unknown = instance.unknown.load();
  // The one of unknown outcome is the first, and a dead receiver had begun it; it may have died
  // before it wrote that down.
  const bool joined = delivered + 1 == first_back ||
                      (unknown == 1 && (delivered == first_back || delivered + 1 == first_back));
  return joined && unknown <= 1 && first_back + back == accepted + 1 ? std::string{} : text;
}

std::string storm_world::account() const {
  if (std::string what = memory_->violations.text(); !what.empty())
    return what;
  for (std::uint32_t i = 1; i <= memory_->sender_incarnations.load(); ++i) {
    if (std::string what = account_incarnation(i); !what.empty())
      return what;
  }
  return {};
}

}  // namespace atbus::test
