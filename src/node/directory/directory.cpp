#include "atbus/directory.hpp"

namespace atbus {

std::optional<directory_record> directory::find(bus_id id) {
  directory_record known{.id = id, .addresses = lookup(id)};
  return known.addresses.empty() ? std::nullopt : std::optional{std::move(known)};
}

std::vector<bus_id> directory::members(std::string_view /*service*/) {
  return {};
}

directory::watch_id directory::watch_members(std::string /*service*/,
                                             std::function<void()> /*changed*/) {
  return 0;
}

error directory::withdraw(bus_id /*id*/) {
  return {errc::not_supported, "this directory is not told of nodes"};
}

int directory::descriptor() const noexcept {
  return -1;
}

}  // namespace atbus
