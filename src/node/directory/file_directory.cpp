#include "node/directory/file_directory.h"

#include <new>
#include <utility>

namespace atbus::detail {
namespace {

constexpr std::string_view meanwhile = "; until then what was known before is used";

}  // namespace

std::vector<std::string> file_directory::lookup(bus_id id) {
  const auto found = nodes_.find(id.value());
  return found != nodes_.end() ? found->second : std::vector<std::string>{};
}

directory::watch_id file_directory::watch(std::function<void(bus_id)> changed) {
  watchers_.emplace(++watches_, std::move(changed));
  return watches_;
}

void file_directory::unwatch(watch_id which) {
  watchers_.erase(which);
}

error file_directory::announce(bus_id /*id*/, const std::vector<std::string>& /*addresses*/) {
  return {errc::not_supported, file_.path() + " is edited by people; nodes don't write into it"};
}

error file_directory::poll() {
  const result<std::optional<std::string>> fresh = file_.take();
  if (!fresh)
    problem_ = fresh.error().with_text(fresh.error().text() + std::string{meanwhile});
  else if (*fresh)
    problem_ = use_or_keep(**fresh);
  tell_changed();
  return problem_;
}

// A text for which there is no memory is read again at the next look.
error file_directory::use_or_keep(std::string_view text) {
  try {
    return use(text);
  } catch (const std::bad_alloc&) {
    file_.take_again();
    throw;
  }
}

error file_directory::use(std::string_view text) {
  result<node_addresses> fresh = read_nodes_file(text, file_.path());
  if (!fresh)
    return fresh.error().with_text(fresh.error().text() + "; mend it" + std::string{meanwhile});
  replace(*std::move(fresh));
  return {};
}

void file_directory::replace(node_addresses fresh) {
  for (const auto& [id, addresses] : fresh) {
    const auto before = nodes_.find(id);
    if (before == nodes_.end() || before->second != addresses)
      changed_.emplace_back(id);
  }
  for (const auto& [id, addresses] : nodes_) {
    if (!fresh.contains(id))
      changed_.emplace_back(id);
  }
  nodes_ = std::move(fresh);  // now that nothing throws any more
}

void file_directory::tell_changed() {
  for (; !changed_.empty(); changed_.pop_back()) {
    for (const auto& [which, tell] : watchers_)
      tell(changed_.back());
  }
}

}  // namespace atbus::detail
