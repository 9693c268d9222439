#include "channel/shm/segment_view.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "channel/shm/channel_address.h"
#include "system/fork_guard.h"

namespace atbus::detail {
namespace {

// A slot is read while its owners change it, so positions read one after another may not fit together.
constexpr int most_looks = 64;

error cant_open(const segment_name& name, int code) {
  const std::string path = name.path();
  switch (code) {
    case ENOENT:
      return {errc::not_found, name.text() + ": no segment of that name in " + name.directory};
    case ELOOP:
      return {errc::not_a_segment, name.text() + ": " + path + " is a symbolic link"};
    case ENXIO:
      return {errc::not_a_segment, name.text() + ": " + path + " is not a regular file"};
    case EACCES:
    case EPERM:
      return {errc::wrong_owner,
              name.text() + ": may not open " + path + "; run as the user that owns it", code};
    default:
      return {errc::system_error, name.text() + ": can't open " + path, code};
  }
}

}  // namespace

result<segment_view> segment_view::open(const segment_name& name) {
  const fork_pause no_fork;
  auto directory = open_directory(name);
  if (!directory)
    return directory.error();
  guarded_file fd = guarded_file::make([&] {
    return kernel().openat(directory->get(), name.file_name().c_str(),
                           O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
  });
  if (!fd)
    return cant_open(name, errno);
  auto geometry = check_segment_file(name, fd.get());
  if (!geometry)
    return geometry.error();
  segment_view view{fd.get(), *geometry};
  view.owned_ = std::move(fd);
  return view;
}

bool segment_view::read(std::uint64_t offset, void* to, std::size_t size) const noexcept {
  auto* at = static_cast<char*>(to);
  while (size != 0) {
    const ssize_t n = pread(fd_, at, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    at += n;
    offset += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool segment_view::read_header(header_copy& to) const noexcept {
  return read(0, to.words.data(), sizeof to.words);
}

std::uint64_t segment_view::slot_word(std::uint32_t lane, std::size_t offset) const noexcept {
  std::uint64_t word = 0;
  const bool there =
      read(geometry_.table_offset() + lane * sizeof(lane_slot) + offset, &word, sizeof word);
  return there ? word : 0;
}

bool segment_view::read_slot(std::uint32_t lane, slot_copy& to) const noexcept {
  const std::uint64_t offset = geometry_.table_offset() + lane * sizeof(lane_slot);
  for (int look = 0; look < most_looks; ++look) {
    if (!read(offset, to.words.data(), sizeof to.words))
      return false;
    // `tail` was copied first, so `done` may have passed it. Read it again.
    to.words[offsetof(lane_slot, tail) / 8] = slot_word(lane, offsetof(lane_slot, tail));
    if (is_possible(to))
      break;
  }
  return true;
}

bool segment_view::is_possible(const slot_copy& slot) const noexcept {
  const std::uint64_t head = slot.at(offsetof(lane_slot, head));
  const std::uint64_t done = slot.at(offsetof(lane_slot, done));
  const std::uint64_t tail = slot.at(offsetof(lane_slot, tail));
  const std::uint64_t capacity = geometry_.lane_size;
  return ((head | done | tail) & 7) == 0 && within(head, done, capacity) &&
         within(done, tail, capacity) && within(head, tail, capacity);
}

bool segment_view::is_held(std::uint64_t byte) const noexcept {
  return query_byte(fd_, byte) == lock_state::held_elsewhere;
}

process_note note_of(const receiver_note& note) {
  return {.pid = note.pid,
          .opened_at = note.opened_at,
          .program = printable(note.program, sizeof note.program)};
}
process_note note_of(const open_record& note) {
  return {.pid = note.pid,
          .opened_at = note.opened_at,
          .program = printable(note.program, sizeof note.program)};
}

result<std::vector<std::string>> names_in(const std::string& directory, std::string_view prefix) {
  const fork_pause no_fork;
  const std::unique_ptr<DIR, int (*)(DIR*)> open{opendir(directory.c_str()), closedir};
  if (!open) {
    return error{errno == ENOENT ? errc::not_found : errc::system_error,
                 "can't read the directory " + directory, errno};
  }
  std::vector<std::string> names;
  while (const dirent* const entry = readdir(open.get())) {
    std::string_view name{entry->d_name};
    if (!name.starts_with(prefix))
      continue;
    name.remove_prefix(prefix.size());
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

result<segment_name> named_segment(std::string_view name, const std::string& directory) {
  // The parser would accept options, but a name has none.
  if (name.find('?') == std::string_view::npos) {
    auto parsed = parse_segment_address("shm://" + std::string{name}, directory);
    if (!parsed)
      return parsed.error();
    return parsed->name;
  }
  return error{errc::invalid_name, "shm://" + std::string{name} +
                                       ": give the name alone, without the options from '?' on"};
}

}  // namespace atbus::detail
