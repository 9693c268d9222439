#include "node/core/refusals.h"

#include <algorithm>
#include <new>

namespace atbus::detail {

bool refusals::turn_away(session& by, std::uint32_t type, bool redelivered) {
  peer& of = *by.of;
  if (of.untold.size() >= untold_max) {
    events_.log_about(of.id, "the link to " + of.id.to_string() +
                                 " is broken off: it does not take " +
                                 "the words that its messages are refused");
    sessions_.drop(by, false, errc::would_block, {});
    return false;
  }
  const refused_word word{.number = of.in.next(),
                          .handled = by.handled + 1,
                          .registration = by.registration,
                          .type = type,
                          .redelivered = redelivered};
  if (!of.untold.empty() || !say(by, word)) {
    try {
      of.untold.push_back(word);
    } catch (const std::bad_alloc&) {
      sessions_.drop(by, false, errc::out_of_memory, {});
      return false;
    }
    if (by.untold_at == 0)
      by.untold_at = word.handled;
  }
  acknowledgements_.count_handled(by, true);
  (void)of.in.arrived();
  (void)access_.admits(by.instance.id, message_class::message, type);  // counted, and logged
  return true;
}

void refusals::tell(session& by) {
  auto& untold = by.of->untold;
  const auto first =
      std::ranges::find_if_not(untold, [&](const refused_word& word) { return say(by, word); });
  untold.erase(untold.begin(), first);
  const auto own = std::ranges::find(untold, by.registration, &refused_word::registration);
  by.untold_at = own != untold.end() ? own->handled : 0;
}

// Also in the room that is kept for acknowledgements, if there is no other: it is one.
bool refusals::say(session& to, const refused_word& word) {
  const turned_away_body body{
      .number = word.number,
      .type = word.type,
      .handled = word.registration == to.registration ? word.handled : to.told,
      .redelivered = word.redelivered};
  return output_.say(to, body, message_purpose::data) || output_.say(to, body);
}

}  // namespace atbus::detail
