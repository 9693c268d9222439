// Removes segments and bells that no living process holds. The kernel's locks tell whether a process holds
// one. All locks are taken before anything is removed, and only the locked file is removed.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "atbus/inspect.hpp"
#include "channel/shm/doorbell.h"
#include "channel/shm/segment_view.h"
#include "system/fork_guard.h"

namespace atbus {
namespace detail {
namespace {

// A lane number that a bell server refuses, so that a test whether it is alive leaves no trace.
constexpr std::uint32_t lane_of_nobody = 0xffffffff;

std::string path_in(const segment_name& name, const std::string& file_name) {
  return name.directory + "/" + printable(file_name.c_str(), file_name.size());
}

bool exists(int directory, const std::string& file_name) {
  struct stat st {};
  return kernel().fstatat(directory, file_name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
}

// The existing bells of a segment.
std::vector<std::string> bells_of(int directory, const segment_name& name) {
  std::vector<std::string> there;
  for (auto& bell : {name.bell_name(), name.new_bell_name()}) {
    if (exists(directory, bell))
      there.push_back(bell);
  }
  return there;
}

clean_report left_alone(const segment_name& name, clean_outcome outcome, std::string why) {
  clean_report report;
  report.name = printable(name.name.c_str(), name.name.size());
  report.outcome = outcome;
  report.why = std::move(why);
  return report;
}

// "'game', pid 4242"
std::string words_for(const process_note& note) {
  if (note.pid == 0)
    return "an unknown process";
  return "'" + note.program + "', pid " + std::to_string(note.pid);
}

// The processes that hold locks on a segment, as text; empty if there is none.
std::string holders(const segment_view& view, const segment_name& name) {
  const segment_report report = describe(name);
  std::string who;
  if (view.is_held(receiver_lock_byte))
    who = "receiver " + words_for(report.receiver);
  constexpr std::uint32_t most_named = 4;
  std::uint32_t held = 0;
  for (std::uint32_t lane = 0; lane < view.geometry().lane_count; ++lane) {
    if (!view.is_held(lane_lock_byte(lane)))
      continue;
    if (++held > most_named)
      continue;
    const bool known = lane < report.lanes.size();
    who += (who.empty() ? "sender in lane " : ", sender in lane ") + std::to_string(lane) + " " +
           words_for(known ? report.lanes[lane].sender : process_note{});
  }
  if (held > most_named)
    who += " and " + std::to_string(held - most_named) + " more";
  return who;
}

void count_undelivered(clean_report& report, const segment_view& view) {
  const records_options everything{.near_head = 0,
                                   .near_tail = 0,
                                   .first_bytes = 0,
                                   .most_records = std::numeric_limits<std::uint64_t>::max()};
  for (std::uint32_t lane = 0; lane < view.geometry().lane_count; ++lane) {
    const auto records = walk_records(view, lane, walk_start::done, everything);
    report.undelivered_messages += records.waiting_messages;
    report.undelivered_bytes += records.waiting_payload_bytes;
    report.counted &= records.complete;
  }
}

clean_report removed(const segment_name& name, int directory,
                     const std::vector<std::string>& files) {
  clean_report report = left_alone(name, clean_outcome::removed, {});
  for (const std::string& file_name : files) {
    if (!exists(directory, file_name))
      report.removed.push_back(path_in(name, file_name));
  }
  return report;
}

// Takes all locks of the segment, for as long as `s` is open.
bool lock_everything(const segment& s) {
  if (try_lock_byte(s.fd.get(), receiver_lock_byte) != lock_state::taken)
    return false;
  for (std::uint32_t lane = 0; lane < s.geometry.lane_count; ++lane) {
    if (try_lock_byte(s.fd.get(), lane_lock_byte(lane)) != lock_state::taken)
      return false;
  }
  return true;
}

clean_report clean_valid(const segment& s, int directory, bool dry_run) {
  const segment_view view{s.fd.get(), s.geometry};
  // Query before locking: even a short lock could make a rightful owner fail.
  std::string who = holders(view, s.name);
  if (who.empty() && !dry_run && !lock_everything(s))
    who = "a process that has just opened it";
  if (!who.empty())
    return left_alone(s.name, clean_outcome::held, "held by " + who);
  if (!is_named(s))
    return left_alone(s.name, clean_outcome::held, "replaced while it was opened; look again");
  clean_report report = left_alone(s.name, clean_outcome::removed, {});
  count_undelivered(report, view);
  std::vector<std::string> files = bells_of(directory, s.name);
  files.insert(files.begin(), s.name.file_name());
  if (dry_run) {
    for (const std::string& file_name : files)
      report.removed.push_back(path_in(s.name, file_name));
    return report;
  }
  (void)kernel().unlinkat(directory, s.name.new_bell_name().c_str(), 0);
  if (auto e = retire_segment(s); !e)
    return left_alone(s.name, clean_outcome::failed, e.text());
  report.removed = removed(s.name, directory, files).removed;
  return report;
}

// --- files with a segment's name that are not segments

enum class whole_file { free, held, unknown };

// Queries locks on any byte; with `take`, acquires all of them.
whole_file all_locks(int fd, bool take) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (kernel().lock(fd, take ? F_OFD_SETLK : F_OFD_GETLK, &lock) != 0)
    return errno == EAGAIN || errno == EACCES ? whole_file::held : whole_file::unknown;
  return take || lock.l_type == F_UNLCK ? whole_file::free : whole_file::held;
}

clean_report clean_invalid(const segment_name& name, int directory, const error& problem,
                           const clean_options& options) {
  const std::string file_name = name.file_name();
  struct stat named {};
  if (kernel().fstatat(directory, file_name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0)
    return left_alone(name, clean_outcome::failed, "it is gone already");
  file fd;
  if (S_ISREG(named.st_mode)) {
    fd = file{kernel().openat(directory, file_name.c_str(),
                              O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0)};
    if (!fd)
      return left_alone(name, clean_outcome::failed,
                        problem.text() + "; can't open it to check whether it is in use");
    const whole_file use = all_locks(fd.get(), options.force && !options.dry_run);
    struct stat opened {};
    if (use != whole_file::free || kernel().fstat(fd.get(), &opened) != 0 ||
        opened.st_ino != named.st_ino || opened.st_dev != named.st_dev) {
      return left_alone(name, clean_outcome::held,
                        problem.text() + "; a living process holds a lock on it");
    }
  }
  if (!options.force) {
    return left_alone(name, clean_outcome::invalid,
                      problem.text() + "; removed only when forced (--force)");
  }
  std::vector<std::string> files = bells_of(directory, name);
  files.insert(files.begin(), file_name);
  clean_report report = left_alone(name, clean_outcome::removed, {});
  report.counted = false;
  for (const std::string& one : files) {
    if (!options.dry_run && kernel().unlinkat(directory, one.c_str(), 0) != 0 && errno != ENOENT) {
      const error why{errc::system_error, "can't remove " + path_in(name, one), errno};
      report.outcome = clean_outcome::failed;
      report.why = why.text();
      return report;
    }
    report.removed.push_back(path_in(name, one));
  }
  return report;
}

// --- bells without a segment

// Makes and locks a segment of that name, as a receiver would: while it exists, no receiver binds a bell. It
// is retired from the start, so that no sender stays.
result<segment> take_place(const segment_name& name) {
  constexpr segment_geometry smallest{.lane_count = 1, .lane_size = 4096, .message_limit = 1024};
  auto guard = build_segment(name, smallest);
  if (!guard)
    return guard;
  guard->header().retired.store(1, std::memory_order_seq_cst);
  if (try_lock_byte(guard->fd.get(), receiver_lock_byte) != lock_state::taken)
    return error{errc::system_error, name.text() + ": can't lock a file in its place", errno};
  if (auto e = link_segment(*guard); !e)
    return e;
  return guard;
}

// True if the connection is refused or the bell is absent. Any other error may be temporary.
bool bell_is_dead(const segment_name& name) {
  bell_client client;
  return !client.connect(name, lane_of_nobody) && (errno == ECONNREFUSED || errno == ENOENT);
}

clean_report clean_bells(const segment_name& name, int directory, bool dry_run) {
  const std::vector<std::string> files = bells_of(directory, name);
  constexpr const char* alive =
      "its doorbell answers: its receiver is alive, but its segment was removed by hand";
  if (dry_run) {
    if (!bell_is_dead(name))
      return left_alone(name, clean_outcome::held, alive);
    clean_report report = left_alone(name, clean_outcome::removed, {});
    for (const std::string& bell : files)
      report.removed.push_back(path_in(name, bell));
    return report;
  }
  auto guard = take_place(name);
  if (!guard) {
    const bool raced = guard.error() == errc::receiver_exists;
    return left_alone(name, raced ? clean_outcome::held : clean_outcome::failed,
                      raced ? "a receiver is making the segment" : guard.error().text());
  }
  const bool dead = bell_is_dead(name);
  for (const std::string& bell : files) {
    if (dead)
      (void)kernel().unlinkat(directory, bell.c_str(), 0);
  }
  (void)kernel().unlinkat(directory, name.file_name().c_str(), 0);
  return dead ? removed(name, directory, files) : left_alone(name, clean_outcome::held, alive);
}

// What is open while a segment is cleaned: it may be large, and forks don't wait for that. A child that kept the
// locks would make the name look like that of a living process.
class cleaning final : public fork_guard {
 public:
  struct destroy {
    void operator()(cleaning* of) const noexcept {
      const fork_pause no_fork;
      delete of;
    }
  };

  cleaning(file in, segment what) noexcept : directory(std::move(in)), held(std::move(what)) {}
  void abandon_in_child() noexcept override {
    directory.reset();
    held.abandon();
  }

  file directory;
  segment held;
};

result<clean_report> clean(const segment_name& name, const clean_options& options) {
  std::unique_ptr<cleaning, cleaning::destroy> work;
  {
    const fork_pause no_fork;
    auto directory = open_directory(name);
    if (!directory)
      return directory.error();
    if (!exists(directory->get(), name.file_name())) {
      if (bells_of(directory->get(), name).empty())
        return error{errc::not_found, name.text() + ": nothing of that name in " + name.directory};
      return clean_bells(name, directory->get(), options.dry_run);
    }
    auto opened = open_segment(name);
    if (!opened) {
      if (opened.error() == errc::not_found)
        return opened.error();
      return clean_invalid(name, directory->get(), opened.error(), options);
    }
    work.reset(new cleaning{std::move(*directory), std::move(*opened)});
  }
  return clean_valid(work->held, work->directory.get(), options.dry_run);
}

// All names that have a segment or a bell.
result<std::set<std::string>> all_names(const std::string& directory) {
  auto segments = names_in(directory, segment_prefix);
  if (!segments)
    return segments.error();
  auto bells = names_in(directory, bell_prefix);
  if (!bells)
    return bells.error();
  std::set<std::string> all{segments->begin(), segments->end()};
  for (std::string& bell : *bells) {
    if (bell.ends_with('~'))
      bell.pop_back();
    all.insert(std::move(bell));
  }
  return all;
}

}  // namespace
}  // namespace detail

std::string_view name(clean_outcome outcome) noexcept {
  switch (outcome) {
    case clean_outcome::removed:
      return "removed";
    case clean_outcome::held:
      return "held";
    case clean_outcome::invalid:
      return "invalid";
    case clean_outcome::failed:
      return "failed";
  }
  return "unknown";
}

result<clean_report> clean_segment(std::string_view name, const clean_options& options) {
  auto wanted = detail::named_segment(name, options.directory);
  if (!wanted)
    return wanted.error();
  return detail::clean(*wanted, options);
}

result<std::vector<clean_report>> clean_segments(const clean_options& options) {
  auto names = detail::all_names(options.directory);
  if (!names)
    return names.error();
  std::vector<clean_report> reports;
  for (const std::string& found : *names) {
    detail::segment_name wanted;
    wanted.name = found;
    wanted.directory = options.directory;
    auto report = detail::clean(wanted, options);
    if (report)
      reports.push_back(std::move(*report));
    else if (!(report.error() == errc::not_found))
      reports.push_back(detail::left_alone(wanted, clean_outcome::failed, report.error().text()));
  }
  return reports;
}

}  // namespace atbus
