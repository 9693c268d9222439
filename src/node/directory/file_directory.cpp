#include "node/directory/file_directory.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <utility>

#include "core/text.h"
#include "system/kernel.h"

namespace atbus::detail {
namespace {

constexpr std::string_view meanwhile = "; until then what was known before is used";

std::int64_t to_ns(const timespec& time) noexcept {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

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
  return {errc::not_supported, path_ + " is edited by people; nodes don't write into it"};
}

error file_directory::poll() {
  const state now = look();
  const bool first = !std::exchange(looked_, true);
  const bool still = now == std::exchange(seen_, now);
  if (first || (still && now != used_)) {
    problem_ = read();
    // What the system refuses may work at the next look, though the file stays the same.
    if (!first && problem_ != errc::system_error)
      used_ = now;
  }
  return problem_;
}

file_directory::state file_directory::look() const {
  struct stat is {};
  if (kernel().fstatat(AT_FDCWD, path_.c_str(), &is, 0) != 0)
    return {.problem = errno};
  return {.device = is.st_dev,
          .number = is.st_ino,
          .size = is.st_size,
          .written_ns = to_ns(is.st_mtim),
          .changed_ns = to_ns(is.st_ctim)};
}

error file_directory::read() {
  const result<std::string> all = text();
  if (!all)
    return all.error().with_text(all.error().text() + std::string{meanwhile});
  result<node_addresses> fresh = read_nodes_file(*all, path_);
  if (!fresh)
    return fresh.error().with_text(fresh.error().text() + "; mend it" + std::string{meanwhile});
  replace(*std::move(fresh));
  return {};
}

result<std::string> file_directory::text() const {
  const auto cannot = [&](int code) {
    const std::string what = path_ + " can't be read";
    return error{code == ENOENT ? errc::not_found : errc::system_error, what, code};
  };
  // Nothing that is waited for: a pipe without a writer is opened at once.
  const file from{kernel().open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0)};
  if (!from)
    return cannot(errno);
  struct stat is {};
  if (kernel().fstat(from.get(), &is) != 0)
    return cannot(errno);
  if (!S_ISREG(is.st_mode))
    return error{errc::invalid_argument, path_ + " is not a file"};
  std::string all;
  std::array<char, 64 * 1024> piece;
  while (all.size() <= nodes_file_size_max) {
    const ssize_t got = kernel().read(from.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return cannot(errno);
    if (got == 0)
      return all;
    all.append(piece.data(), static_cast<std::size_t>(got));
  }
  return error{errc::invalid_argument,
               path_ + " has more than " + format_size(nodes_file_size_max) + " bytes"};
}

void file_directory::replace(node_addresses fresh) {
  std::vector<bus_id> changed;
  for (const auto& [id, addresses] : fresh) {
    const auto before = nodes_.find(id);
    if (before == nodes_.end() || before->second != addresses)
      changed.emplace_back(id);
  }
  for (const auto& [id, addresses] : nodes_) {
    if (!fresh.contains(id))
      changed.emplace_back(id);
  }
  nodes_ = std::move(fresh);
  for (const bus_id id : changed) {
    for (const auto& [which, tell] : watchers_)
      tell(id);
  }
}

}  // namespace atbus::detail
