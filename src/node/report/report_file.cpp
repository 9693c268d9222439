#include "node/report/report_file.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <utility>

#include "node/report/report_format.h"

namespace atbus::detail {
namespace {

// What names of one id's files begin with.
std::string prefix_of(bus_id id) {
  return std::string{report_prefix} + id.to_hex() + '-';
}

bool write_all(int fd, bytes_view bytes, std::uint64_t offset) noexcept {
  while (!bytes.empty()) {
    const ssize_t n = kernel().pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return true;
}

struct left_file {
  std::string name;
  std::int64_t written_ns = 0;  // since 1970
};

// Of that id, whose writers are dead.
std::vector<left_file> find_left(const std::string& directory, int at, bus_id id) {
  std::vector<left_file> left;
  std::error_code ignored;
  for (std::filesystem::directory_iterator one{directory, ignored}, end; one != end;
       one.increment(ignored)) {
    left_file found{.name = one->path().filename()};
    if (!found.name.starts_with(prefix_of(id)))
      continue;
    const file opened{
        kernel().openat(at, found.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0)};
    struct stat st {};
    if (!opened || query_byte(opened.get(), report_lock_byte) != lock_state::taken ||
        kernel().fstat(opened.get(), &st) != 0)
      continue;
    found.written_ns = st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec;
    left.push_back(std::move(found));
  }
  return left;
}

void remove_left(const std::string& directory, int at, bus_id id) {
  std::vector<left_file> left = find_left(directory, at, id);
  std::ranges::sort(left, {}, &left_file::written_ns);
  for (std::size_t i = 0; i + 1 < left.size(); ++i)
    (void)kernel().unlinkat(at, left[i].name.c_str(), 0);
}

// Beyond that limit the kernel sends SIGXFSZ, which ends the process.
bool may_be_as_large() noexcept {
  rlimit most{};
  return getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur == RLIM_INFINITY ||
         most.rlim_cur >= 2 * report_copy_size;
}

error failed(const std::string& what, const std::string& directory) {
  return {errc::system_error, "can't " + what + " in " + directory, errno};
}

}  // namespace

std::string report_name(const node_instance& of) {
  return prefix_of(of.id) + bus_id{of.incarnation}.to_hex();
}

result<report_file::owner> report_file::make(const std::string& directory,
                                             const node_report& first) {
  const fork_pause no_fork;
  if (!may_be_as_large()) {
    return error{errc::no_space, "a file of this process may not have the " +
                                     std::to_string(2 * report_copy_size) +
                                     " bytes of a report (ulimit -f, LimitFSIZE=)"};
  }
  file at{kernel().open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)};
  if (!at)
    return failed("look", directory);
  file made{kernel().open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  if (!made)
    return failed("make a file", directory);
  if (try_lock_byte(made.get(), report_lock_byte) != lock_state::taken)
    return failed("lock a file", directory);
  remove_left(directory, at.get(), first.id);
  const std::string name = report_name({first.id, first.incarnation});
  owner report{
      new report_file{std::move(at), std::move(made), name}};  // the constructor is private
  if (!report->write(first))
    return failed("write a report", directory);
  const std::string path = "/proc/self/fd/" + std::to_string(report->at_.get());
  if (kernel().linkat(AT_FDCWD, path.c_str(), report->directory_.get(), name.c_str(),
                      AT_SYMLINK_FOLLOW) != 0)
    return failed("name a file", directory);
  report->linked_ = true;
  return report;
}

void report_file::destroy::operator()(report_file* of) const noexcept {
  const fork_pause no_fork;
  delete of;
}

report_file::~report_file() {
  if (linked_ && at_)
    (void)kernel().unlinkat(directory_.get(), name_.c_str(), 0);
}

bool report_file::write(const node_report& report) noexcept {
  try {
    encode(report, sequence_ + 1, bytes_);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (!write_all(at_.get(), bytes_, (sequence_ + 1) % 2 * report_copy_size))
    return false;
  ++sequence_;
  return true;
}

void report_file::abandon_in_child() noexcept {
  directory_.reset();
  at_.reset();
}

}  // namespace atbus::detail
