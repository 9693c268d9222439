#include "node/core/refusals.h"

#include <algorithm>
#include <new>

namespace atbus::detail {

bool refusals::turn_away(session& by, std::uint32_t type, bool redelivered) {
  peer& of = *by.of;
  if (of.in.words_owed() >= words_max) {
    events_.log_about(of.id, "the link to " + of.id.to_string() +
                                 " is broken off: it does not take " +
                                 "the words that its messages are refused");
    // After a goodbye, for which there is hardly any room: so what it has in its queue gets there first.
    sessions_.drop(by, true, errc::would_block, "register again");
    return false;
  }
  const refused_word word{.number = of.in.next(),
                          .handled = by.handled + 1,
                          .registration = by.registration,
                          .type = type,
                          .redelivered = redelivered};
  const status said = !of.in.owes_words() ? say(by, word) : errc::would_block;
  if (!said && said != errc::would_block) {
    sessions_.drop(by, false, said.code(), {});
    return false;
  }
  if (!said) {
    try {
      of.in.words().push_back(word);
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
  auto& untold = by.of->in.words();
  status said;
  const auto first = std::ranges::find_if_not(untold, [&](const refused_word& word) {
    said = say(by, word);
    return static_cast<bool>(said);
  });
  untold.erase(untold.begin(), first);
  const auto own = std::ranges::find(untold, by.registration, &refused_word::registration);
  by.untold_at = own != untold.end() ? own->handled : 0;
  if (!said && said != errc::would_block)
    sessions_.drop(by, false, said.code(), {});
}

void refusals::keep(peer& of, const std::vector<refused_word>& left) noexcept {
  if (left.empty())
    return;
  try {
    auto& words = of.in.words();
    words.insert(words.begin(), left.begin(), left.end());
  } catch (const std::bad_alloc&) {  // they are lost
  }
}

// Also in the room that is kept for acknowledgements, if there is no other: it is one.
status refusals::say(session& to, const refused_word& word) {
  const std::uint64_t handled =
      word.registration == to.registration ? std::max(to.told, word.handled) : to.told;
  const turned_away_body body{.number = word.number,
                              .type = word.type,
                              .handled = handled,
                              .redelivered = word.redelivered};
  status said = output_.say(to, body, message_purpose::data);
  if (!said)
    said = output_.say(to, body);
  if (said)
    to.told = handled;
  return said;
}

}  // namespace atbus::detail
