#include "channel/shm/segment.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <mutex>
#include <utility>

#include "channel/shm/in_process_names.h"
#include "channel/shm/segment_check.h"
#include "core/error_text.h"
#include "system/fork_guard.h"
#include "system/random.h"

namespace atbus::detail {
namespace {

error system_error_at(const std::string& what, int code) {
  return {errc::system_error, what, code};
}

// A second, independent open file description of the same file.
file reopen(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return file{kernel().open(path.c_str(), O_RDWR | O_CLOEXEC, 0)};
}

// The file and its mapping, both at once: the name may be another segment's a moment later.
error open_in_process(segment& s) {
  const fork_pause no_fork;
  auto& names = in_process_names::instance();
  const std::lock_guard lock{names.mutex};
  names.forget_if_forked();
  const auto entry = names.entries.find(s.name.name);
  if (entry == names.entries.end())
    return {errc::not_found, s.name.text() + ": no receiver in this process has opened it yet"};
  s.fd = reopen(entry->second.fd.get());
  if (!s.fd)
    return system_error_at(s.name.text() + ": can't open it again through /proc/self/fd", errno);
  s.control = entry->second.memory;
  return {};
}

// Added to an error when a file can't be made or filled for a reason other than lack of space.
constexpr const char* fit_directory =
    "; the directory must be writable and on a tmpfs, or another file system with O_TMPFILE and "
    "fallocate";

error no_regular_file(const segment_name& name) {
  return {errc::not_a_segment, name.text() + ": " + name.path() +
                                   " is not a regular file; remove it, or choose another name"};
}

error owner_error(const segment_name& name, uid_t owner) {
  return {errc::wrong_owner, name.text() + ": it belongs to user " + std::to_string(owner) +
                                 ", this process runs as " + std::to_string(geteuid()) +
                                 "; run both as one user, or choose another name or directory"};
}

std::string octal(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

error mode_error(const segment_name& name, mode_t mode, const char* why) {
  return {errc::wrong_mode, name.text() + ": its mode is " + octal(mode) +
                                ", expected 0600: " + why + "; set it back or remove the file"};
}

// Explains why the file may not be opened, as far as the directory tells.
error denied_error(const segment_name& name, int directory) {
  const int code = errno;
  struct stat st {};
  if (kernel().fstatat(directory, name.file_name().c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
    return system_error_at(name.text() + ": can't open " + name.path(), code);
  if (st.st_uid != geteuid())
    return owner_error(name, st.st_uid);
  if ((st.st_mode & 0600) != 0600)
    return mode_error(name, st.st_mode, "this process can't read and write it");
  return system_error_at(name.text() + ": may not open " + name.path(), code);
}

result<file> open_file(const segment_name& name) {
  auto directory = open_directory(name);
  if (!directory)
    return directory.error();
  // O_NOFOLLOW: refuses a symbolic link that another user made in advance. O_NONBLOCK: a fifo does not
  // block the open.
  file fd{kernel().openat(directory->get(), name.file_name().c_str(),
                          O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0)};
  if (fd)
    return fd;
  const std::string path = name.path();
  switch (errno) {
    case ENOENT:
      return error{errc::not_found, name.text() + ": no segment of that name (" + path +
                                        "); its receiver makes it, start that first"};
    case ELOOP:
      return error{
          errc::not_a_segment,
          name.text() + ": " + path + " is a symbolic link; remove it, or choose another name"};
    case EISDIR:
    case ENXIO:  // a socket
      return no_regular_file(name);
    case EACCES:
    case EPERM:
      return denied_error(name, directory->get());
    default:
      return system_error_at(name.text() + ": can't open " + path, errno);
  }
}

// MFD_NOEXEC_SEAL, which older headers lack: the file can never be executed.
constexpr unsigned memfd_noexec_seal = 8;

result<file> make_file(const segment_name& name) {
  if (name.in_memory()) {
    const std::string title = name.handed ? "atbus-lanes" : name.file_name();
    file fd{
        kernel().memfd_create(title.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | memfd_noexec_seal)};
    // Kernels before 6.3 don't know the flag. Kernels that require it (vm.memfd_noexec=2) know it.
    if (!fd && errno == EINVAL)
      fd = file{kernel().memfd_create(title.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (!fd)
      return system_error_at(name.text() + ": memfd_create failed", errno);
    return fd;
  }
  file fd{kernel().open(name.directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  if (fd)
    return fd;
  if (errno == ENOSPC)
    return no_inode_error(name);
  return system_error_at(name.text() + ": can't make a file in " + name.directory + fit_directory,
                         errno);
}

// Free bytes of the file system that holds `fd`.
std::string space_left(int fd) {
  struct statvfs fs {};
  if (kernel().fstatvfs(fd, &fs) != 0)
    return "unknown";
  return std::to_string(static_cast<std::uint64_t>(fs.f_bavail) * fs.f_frsize) + " bytes";
}

error reserve(const segment& s, std::uint64_t offset, std::uint64_t length, const char* what) {
  const auto try_once = [&] {
    return kernel().fallocate(s.fd.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                              static_cast<off_t>(length)) == 0
               ? 0
               : errno;
  };
  int code = try_once();
  if (code == EINTR) {
    // After a signal, a tmpfs gives back what it has reserved so far. With a fast timer, reserving a large
    // lane would never finish.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (code == EINTR)
      code = try_once();
    (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  if (code == 0)
    return {};
  if (code != ENOSPC && code != EDQUOT && code != ENOMEM) {
    return system_error_at(s.name.text() + ": can't reserve memory for " + what +
                               (s.name.in_memory() ? "" : fit_directory),
                           code);
  }
  return {errc::no_space,
          s.name.text() + ": " + what + " needs " + std::to_string(length) + " bytes of " +
              (s.name.in_memory() ? "memory" : s.name.directory) + ", which has " +
              space_left(s.fd.get()) + " free; make room, or choose fewer or smaller lanes",
          code};
}

// Header and lane table of an opened segment.
error map_control(segment& s) {
  // The file may have holes. Touching a hole on a full file system raises SIGBUS.
  if (auto e = reserve(s, 0, s.geometry.control_size(), "the lane table"); !e)
    return e;
  auto control = map_shared(s.fd.get(), 0, s.geometry.control_size(), s.name.text());
  if (!control)
    return control.error();
  s.control = std::move(*control);
  return {};
}

// Whether the name leads to this file; an error if the system does not tell. `file_name`: of the segment, if
// it has a file.
result<bool> look_up(const segment& opened, const std::string& file_name) {
  if (opened.name.handed)
    return true;
  const auto unknown = [&] {
    return system_error_at(opened.name.text() + ": can't see which file has its name", errno);
  };
  struct stat mine {};
  struct stat named {};
  if (kernel().fstat(opened.fd.get(), &mine) != 0)
    return unknown();
  if (opened.name.in_process) {
    const fork_pause no_fork;
    auto& names = in_process_names::instance();
    const std::lock_guard lock{names.mutex};
    const auto entry = names.entries.find(opened.name.name);
    if (entry == names.entries.end())
      return false;
    if (kernel().fstat(entry->second.fd.get(), &named) != 0)
      return unknown();
  } else {
    auto directory = open_directory(opened.name);
    if (!directory)
      return directory.error();
    if (kernel().fstatat(directory->get(), file_name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT)
        return false;
      return unknown();
    }
  }
  return mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

// Beyond that limit the kernel sends SIGXFSZ, which ends the process.
error check_file_size_limit(const segment& made) {
  rlimit most{};
  const std::uint64_t wanted = made.geometry.file_size();
  if (getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur == RLIM_INFINITY ||
      wanted <= most.rlim_cur)
    return {};
  return {errc::no_space, made.name.text() + ": a segment of " + std::to_string(wanted) +
                              " bytes is above this process's limit of " +
                              std::to_string(most.rlim_cur) +
                              " bytes for a file: raise it (ulimit -f, LimitFSIZE=), or ask for "
                              "less (lanes, lane_size)"};
}

}  // namespace

result<segment_geometry> check_segment_file(const segment_name& name, int fd) {
  struct stat st {};
  if (kernel().fstat(fd, &st) != 0)
    return system_error_at(name.text() + ": can't look at the file (fstat)", errno);
  if (!S_ISREG(st.st_mode))
    return no_regular_file(name);
  if (st.st_uid != geteuid()) {
    return owner_error(name, st.st_uid);
  }
  if ((st.st_mode & 0077) != 0) {
    return mode_error(name, st.st_mode, "others could read it or write into it");
  }
  segment_identity id{};
  const ssize_t n = pread(fd, &id, sizeof id, 0);
  if (n < 0)
    return system_error_at(name.text() + ": can't read its header", errno);
  if (static_cast<std::size_t>(n) < sizeof id) {
    return error{errc::not_a_segment, name.text() + ": the file is no atbus segment: it has " +
                                          std::to_string(st.st_size) + " bytes, too few for the " +
                                          std::to_string(sizeof id) + " that name its layout"};
  }
  return check_geometry(name, id, static_cast<std::uint64_t>(st.st_size));
}

error no_inode_error(const segment_name& name) {
  return {errc::no_space,
          name.text() + ": " + name.directory +
              " can hold no more files: a segment takes two inodes, and none is free; remove "
              "some, or mount it with more (nr_inodes)",
          ENOSPC};
}

result<file> open_directory(const segment_name& name) {
  file fd{kernel().open(name.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC, 0)};
  if (fd)
    return fd;
  return system_error_at(name.text() + ": can't open the directory " + name.directory, errno);
}

result<std::shared_ptr<mapping>> map_shared(int fd, std::uint64_t offset, std::uint64_t size,
                                            const std::string& what) {
  void* const at = kernel().mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                                 static_cast<off_t>(offset));
  if (at == MAP_FAILED) {
    return error{errno == ENOMEM ? errc::out_of_memory : errc::system_error,
                 what + ": can't map " + std::to_string(size) + " bytes", errno};
  }
  std::shared_ptr<mapping> memory;
  try {
    memory = std::make_shared<mapping>(static_cast<std::byte*>(at), size);
  } catch (const std::bad_alloc&) {
    // A mapping keeps the file open, and so the locks on it.
    (void)kernel().munmap(at, size);
    throw;
  }
  if (kernel().madvise(at, size, MADV_DONTFORK) != 0) {
    return system_error_at(what + ": can't keep the mapping from forked children", errno);
  }
  return memory;
}

std::string segment::describe_receiver() const {
  const auto note = load_words<receiver_note>(header().note);
  return "'" + printable(note.program, sizeof note.program) + "', pid " + std::to_string(note.pid) +
         ", generation " + std::to_string(header().generation.load(std::memory_order_relaxed));
}

void segment::abandon() noexcept {
  fd.reset();
  if (control)
    control->abandon();
  if (lanes)
    lanes->abandon();
}

result<segment> build_segment(segment_name name, const segment_geometry& geometry) {
  segment s;
  s.name = std::move(name);
  s.geometry = geometry;
  if (auto e = check_file_size_limit(s); !e)
    return e;
  auto fd = make_file(s.name);
  if (!fd)
    return fd.error();
  s.fd = std::move(*fd);
  // The umask may have removed bits from the mode, but opening checks for exactly 0600.
  if (fchmod(s.fd.get(), 0600) != 0 ||
      kernel().ftruncate(s.fd.get(), static_cast<off_t>(geometry.file_size())) != 0) {
    return system_error_at(s.name.text() + ": can't size the new segment", errno);
  }
  // Processes that map the file must be able to rely on its size.
  if (s.name.handed &&
      ::fcntl(s.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_error_at(s.name.text() + ": can't seal the size of the new segment", errno);
  }
  if (auto e = reserve(s, 0, geometry.control_size(), "the lane table"); !e) {
    return e;
  }
  // A mapping keeps its open file description alive, and with it the locks held there. The mapping of an
  // in-process segment outlives the receiver, so it is made through a description without locks.
  file lockless;
  if (s.name.in_process) {
    lockless = reopen(s.fd.get());
    if (!lockless) {
      return system_error_at(s.name.text() + ": can't open it again through /proc/self/fd", errno);
    }
  }
  auto control = s.name.in_process
                     ? map_shared(lockless.get(), 0, geometry.file_size(), s.name.text())
                     : map_shared(s.fd.get(), 0, geometry.control_size(), s.name.text());
  if (!control)
    return control.error();
  s.control = std::move(*control);
  segment_identity& id = s.header().identity;
  id = segment_identity{.magic = {},
                        .version = layout_version,
                        .header_size = sizeof(segment_header),
                        .lane_count = geometry.lane_count,
                        .slot_size = sizeof(lane_slot),
                        .lane_size = geometry.lane_size,
                        .message_limit = geometry.message_limit,
                        .table_offset = geometry.table_offset(),
                        .lanes_offset = geometry.lanes_offset(),
                        .file_size = geometry.file_size(),
                        .created_at = wall_clock_ns(),
                        .segment_id = random_word()};
  std::memcpy(id.magic, segment_magic, sizeof segment_magic);
  test_hook(step::segment_built);
  return s;
}

error link_segment(const segment& built) {
  if (built.name.in_process) {
    const fork_pause no_fork;
    auto& names = in_process_names::instance();
    const std::lock_guard lock{names.mutex};
    names.forget_if_forked();
    if (names.entries.contains(built.name.name))
      return {errc::receiver_exists, built.name.text() + ": name taken"};
    file fd = reopen(built.fd.get());
    if (!fd)
      return system_error_at(built.name.text() + ": can't open it again through /proc/self/fd",
                             errno);
    names.entries.emplace(built.name.name, in_process_entry{std::move(fd), built.control, {}});
    return {};
  }
  auto directory = open_directory(built.name);
  if (!directory)
    return directory.error();
  const std::string source = "/proc/self/fd/" + std::to_string(built.fd.get());
  if (kernel().linkat(AT_FDCWD, source.c_str(), directory->get(), built.name.file_name().c_str(),
                      AT_SYMLINK_FOLLOW) == 0) {
    test_hook(step::segment_linked);
    return {};
  }
  if (errno == EEXIST)
    return {errc::receiver_exists, built.name.text() + ": name taken"};
  if (errno == ENOSPC)
    return no_inode_error(built.name);
  return system_error_at(built.name.text() + ": can't name the new segment (is /proc mounted?)",
                         errno);
}

result<segment> open_segment(segment_name name) {
  segment s;
  s.name = std::move(name);
  if (s.name.in_process) {
    if (auto e = open_in_process(s); !e)
      return e;
  } else {
    auto fd = open_file(s.name);
    if (!fd)
      return fd.error();
    s.fd = std::move(*fd);
  }
  auto geometry = check_segment_file(s.name, s.fd.get());
  if (!geometry)
    return geometry.error();
  s.geometry = *geometry;
  if (s.control != nullptr)
    return s;
  if (auto e = map_control(s); !e)
    return e;
  return s;
}

result<file> share_segment(const segment& built) {
  file fd = reopen(built.fd.get());
  if (!fd)
    return system_error_at(built.name.text() + ": can't open its lanes again", errno);
  return fd;
}

result<segment> duplicate_segment(const segment& opened) {
  segment s;
  s.name = opened.name;
  s.fd = file{::fcntl(opened.fd.get(), F_DUPFD_CLOEXEC, 0)};
  if (!s.fd)
    return system_error_at(s.name.text() + ": can't duplicate its descriptor", errno);
  s.geometry = opened.geometry;
  s.control = opened.control;
  s.lanes = opened.lanes;
  s.lanes_base = opened.lanes_base;
  return s;
}

result<segment> adopt_segment(file fd, std::string text) {
  segment s;
  s.name.handed = true;
  s.name.name = std::move(text);
  s.fd = std::move(fd);
  const int seals = ::fcntl(s.fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return error{errc::not_a_segment, s.name.text() + ": its lanes could shrink while in use"};
  auto geometry = check_segment_file(s.name, s.fd.get());
  if (!geometry)
    return geometry.error();
  s.geometry = *geometry;
  if (auto e = map_control(s); !e)
    return e;
  return s;
}

bool is_named(const segment& opened) {
  const auto named = look_up(opened, opened.name.file_name());
  return named && *named;
}

error retire_segment(const segment& opened) {
  // What takes memory comes first: a segment is retired with its name, or not at all.
  std::string bell_name;
  std::string own_name;
  if (!opened.name.in_memory()) {
    bell_name = opened.name.bell_name();
    own_name = opened.name.file_name();
  }
  opened.header().retired.store(1, std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < opened.geometry.lane_count; ++i) {
    shared_word& alert = opened.slot(i).alert;
    // One writer: this process holds the receiver's lock. Release: pairs with the acquire load in
    // sender_state::answer_alert; a sender that sees the alert also sees `retired`.
    const std::uint64_t before = alert.load(std::memory_order_relaxed);
    alert.store(next_alert(before) | (before & (alert_step - 1)) | alert_retired,
                std::memory_order_release);
  }
  test_hook(step::retired_stored);
  if (opened.name.handed)
    return {};
  // If the system does not tell, the name stays. The next receiver finds the segment retired and removes the
  // name.
  const auto named = look_up(opened, own_name);
  if (!named)
    return named.error();
  if (!*named)
    return {};
  if (opened.name.in_process) {
    const fork_pause no_fork;
    auto& names = in_process_names::instance();
    const std::lock_guard lock{names.mutex};
    names.entries.erase(opened.name.name);
    return {};
  }
  auto directory = open_directory(opened.name);
  if (!directory)
    return directory.error();
  // Unlink the segment last: while it has its name, processes look for its bell. If the bell's file can't be
  // removed, the segment is removed all the same.
  error problem;
  for (const std::string* const file_name : {&bell_name, &own_name}) {
    if (kernel().unlinkat(directory->get(), file_name->c_str(), 0) != 0 && errno != ENOENT) {
      problem = error_of(errc::system_error, [&, code = errno] {
        return system_error_at(
            opened.name.text() + ": can't remove " + opened.name.directory + "/" + *file_name,
            code);
      });
    }
  }
  test_hook(step::name_unlinked);
  return problem;
}

error map_all_lanes(segment& s) {
  s.lanes_base = s.geometry.lanes_offset();
  if (s.name.in_process) {
    s.lanes = s.control;
    s.lanes_base = 0;
    return {};
  }
  auto lanes =
      map_shared(s.fd.get(), s.lanes_base, s.geometry.file_size() - s.lanes_base, s.name.text());
  if (!lanes)
    return lanes.error();
  s.lanes = std::move(*lanes);
  return {};
}

error map_lane(segment& s, std::uint32_t lane) {
  if (s.name.in_process)
    return map_all_lanes(s);
  // Map only one lane: a stray pointer in one sender can't reach another sender's records.
  s.lanes_base = s.geometry.lane_offset(lane);
  auto lanes = map_shared(s.fd.get(), s.lanes_base, s.geometry.lane_size, s.name.text());
  if (!lanes)
    return lanes.error();
  s.lanes = std::move(*lanes);
  return {};
}

error reserve_lane(const segment& s, std::uint32_t lane) {
  return reserve(s, s.geometry.lane_offset(lane), s.geometry.lane_size, "a lane");
}

void release_lane_memory(const segment& s, std::uint32_t lane) noexcept {
  // A failure only costs memory, which the next sender of the lane uses again. The hole extends to the next
  // lane, because the kernel gives back whole pages only.
  (void)kernel().fallocate(s.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                           static_cast<off_t>(s.geometry.lane_offset(lane)),
                           static_cast<off_t>(s.geometry.lane_distance()));
}

std::string printable(const char* text, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < size && text[i] != '\0'; ++i) {
    out += text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
  }
  return out;
}

}  // namespace atbus::detail
