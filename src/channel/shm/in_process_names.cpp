#include "channel/shm/in_process_names.h"

namespace atbus::detail {

in_process_names& in_process_names::instance() {
  static auto* const names =
      new in_process_names;  // never freed: channels may outlive static destruction
  return *names;
}

void in_process_names::abandon_in_child() noexcept {
  for (auto& [name, entry] : entries) {
    entry.memory->abandon();
    entry.fd.reset();
    entry.bell.clear();
  }
  forked = true;
}

std::string in_process_bell(const std::string& name) {
  const fork_pause no_fork;
  auto& names = in_process_names::instance();
  const std::lock_guard lock{names.mutex};
  names.forget_if_forked();
  const auto entry = names.entries.find(name);
  return entry == names.entries.end() ? std::string{} : entry->second.bell;
}

void in_process_bell(const std::string& name, std::string address) {
  const fork_pause no_fork;
  auto& names = in_process_names::instance();
  const std::lock_guard lock{names.mutex};
  const auto entry = names.entries.find(name);
  if (entry != names.entries.end())
    entry->second.bell = std::move(address);
}

}  // namespace atbus::detail
