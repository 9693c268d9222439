#include "node/directory/file_directory.h"

#include <new>
#include <utility>

#include "node/directory/nodes_file.h"

namespace atbus::detail {
namespace {

constexpr std::string_view meanwhile = "; until then what was known before is used";

}  // namespace

std::vector<std::string> file_directory::lookup(bus_id id) {
  const directory_record* const known = nodes_.find(id);
  return known != nullptr ? known->addresses : std::vector<std::string>{};
}

std::optional<directory_record> file_directory::find(bus_id id) {
  const directory_record* const known = nodes_.find(id);
  if (known == nullptr)
    return std::nullopt;
  std::optional<directory_record> copy{*known};
  copy->age = now() - confirmed_;
  return copy;
}

error file_directory::nobody_writes() const {
  return {errc::not_supported, file_.path() + " is edited by people; nodes don't write into it"};
}

error file_directory::announce(const directory_record& /*record*/) {
  return nobody_writes();
}

error file_directory::withdraw(bus_id /*id*/) {
  return nobody_writes();
}

error file_directory::poll() {
  const result<std::optional<std::string>> fresh = file_.take();
  if (!fresh)
    problem_ = fresh.error().with_text(fresh.error().text() + std::string{meanwhile});
  else if (*fresh)
    problem_ = use_or_keep(**fresh);
  if (problem_)
    confirmed_ = now();
  nodes_.tell_changed();
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
  result<record_table::records> fresh = read_nodes_file(text, file_.path());
  if (!fresh)
    return fresh.error().with_text(fresh.error().text() + "; mend it" + std::string{meanwhile});
  nodes_.replace_all(*std::move(fresh));
  return {};
}

}  // namespace atbus::detail
