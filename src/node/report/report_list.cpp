// Reads the reports of a host.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/text.h"
#include "node/report/report_file.h"
#include "node/report/report_format.h"
#include "system/guarded_file.h"

namespace atbus {
namespace detail {
namespace {

// As many of the bytes as there are.
bool read_at(int fd, std::uint64_t offset, std::size_t most, std::vector<std::byte>& out) {
  out.resize(most);
  std::size_t got = 0;
  while (got != most) {
    const ssize_t n = pread(fd, out.data() + got, most - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return false;
    if (n == 0)
      break;
    got += static_cast<std::size_t>(n);
  }
  out.resize(got);
  return true;
}

result<node_report> read_copy(int fd, std::uint64_t offset) {
  std::vector<std::byte> bytes;
  if (!read_at(fd, offset, report_copy_size, bytes))
    return error{errc::system_error, "can't read it", errno};
  return decode_report(bytes);
}

// While it is read, its writer may write the older copy, and both if this process is slow.
result<node_report> read_newest(int fd) {
  constexpr int tries = 4;
  result<node_report> found = error{errc::not_a_segment};
  for (int i = 0; i != tries && !found; ++i) {
    std::vector<std::byte> head;
    std::uint64_t sequences[2] = {};
    for (std::size_t copy = 0; copy != 2; ++copy) {
      if (!read_at(fd, copy * report_copy_size, sizeof(report_head), head))
        return error{errc::system_error, "can't read it", errno};
      sequences[copy] = sequence_of(head);
    }
    const std::size_t newest = sequences[1] > sequences[0] ? 1 : 0;
    found = read_copy(fd, newest * report_copy_size);
    if (!found && sequences[1 - newest] != 0) {
      if (auto older = read_copy(fd, (1 - newest) * report_copy_size))
        found = std::move(older);
    }
  }
  return found;
}

error check_owner(int fd) {
  struct stat st {};
  if (kernel().fstat(fd, &st) != 0)
    return {errc::system_error, "can't look at it", errno};
  if (!S_ISREG(st.st_mode))
    return {errc::not_a_segment, "it is no regular file"};
  if (st.st_uid != geteuid()) {
    return {errc::wrong_owner, "it belongs to user " + std::to_string(st.st_uid) +
                                   ", this process runs as " + std::to_string(geteuid())};
  }
  if ((st.st_mode & 0077) != 0)
    return {errc::wrong_mode, "others could write into it: its mode should be 0600"};
  return {};
}

// Each user of a host may have nodes: theirs are no problem of this one's.
bool is_of_another_user(const std::string& path) noexcept {
  struct stat st {};
  return kernel().fstatat(AT_FDCWD, path.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
         st.st_uid != geteuid();
}

// False: it is not to be listed, or has just gone.
bool describe(const std::string& path, node_report_file& found) {
  if (is_of_another_user(path))
    return false;
  found.path = path;
  std::ranges::replace_if(
      found.path, [](char c) { return !is_printable(c); }, '?');
  const guarded_file opened = guarded_file::make([&] {
    return kernel().open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
  });
  if (!opened) {
    found.problem = {errc::system_error, "can't open it", errno};
    return errno != ENOENT;
  }
  found.problem = check_owner(opened.get());
  if (!found.problem)
    return true;
  found.alive = query_byte(opened.get(), report_lock_byte) == lock_state::held_elsewhere;
  result<node_report> report = read_newest(opened.get());
  if (report)
    found.report = std::move(*report);
  else
    found.problem = report.error();
  return true;
}

// Of the files that may be reports.
std::vector<std::string> paths_in(const std::string& directory, std::error_code& failed) {
  const fork_pause no_fork;
  std::vector<std::string> all;
  for (std::filesystem::directory_iterator one{directory, failed}, end; !failed && one != end;
       one.increment(failed)) {
    if (one->path().filename().string().starts_with(report_prefix))
      all.push_back(one->path());
  }
  return all;
}

}  // namespace
}  // namespace detail

result<std::vector<node_report_file>> list_node_reports(const std::string& directory) {
  std::vector<node_report_file> all;
  std::error_code failed;
  const std::vector<std::string> paths = detail::paths_in(directory, failed);
  if (failed)
    return error{errc::system_error, "can't list " + directory, failed.value()};
  for (const std::string& path : paths) {
    node_report_file found;
    if (detail::describe(path, found))
      all.push_back(std::move(found));
  }
  std::ranges::sort(all, [](const node_report_file& a, const node_report_file& b) {
    return std::tuple{a.report.id, a.report.started_at, a.path} <
           std::tuple{b.report.id, b.report.started_at, b.path};
  });
  return all;
}

result<node_report_file> find_node_report(bus_id id, std::uint64_t incarnation,
                                          const std::string& directory) {
  const std::string path = directory + '/' + detail::report_name({id, incarnation});
  node_report_file found;
  if (!detail::describe(path, found))
    return error{errc::not_found,
                 "node " + id.to_string() + " has no report " + found.path +
                     ": it has ended, or reports elsewhere (node_options::report_directory)"};
  return found;
}

}  // namespace atbus
