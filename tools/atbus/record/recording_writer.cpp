#include "atbus/record/recording_writer.h"

#include <fcntl.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "atbus/record/recording_format.h"

namespace atbus::tool {

using detail::entry_kind;
using detail::recording_end;
using detail::recording_entry;
using detail::recording_entry_size;

namespace {

constexpr std::size_t buffer_size = std::size_t{256} * 1024;

std::runtime_error failure(const std::string& path, int code) {
  return std::runtime_error(path + ": " + std::generic_category().message(code));
}

std::FILE* open_new(const std::string& path, bool replace) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (replace ? O_TRUNC : O_EXCL);
  const int fd = open(path.c_str(), flags, S_IRUSR | S_IWUSR);
  if (fd < 0 && errno == EEXIST)
    throw std::runtime_error(path + ": it is there already; --force replaces it");
  // A file that is replaced keeps its mode otherwise. Pipes and devices have none of their own.
  if (struct stat is{}; fd >= 0 && fstat(fd, &is) == 0 && S_ISREG(is.st_mode))
    (void)fchmod(fd, S_IRUSR | S_IWUSR);
  std::FILE* const made = fd < 0 ? nullptr : fdopen(fd, "wb");
  if (made == nullptr)
    throw failure(path, errno);
  std::setvbuf(made, nullptr, _IOFBF, buffer_size);
  return made;
}

}  // namespace

recording_writer::recording_writer(std::string path, bool replace)
    : path_(std::move(path)),
      format_(pcap_open_dead_with_tstamp_precision(
          recording_link_type, static_cast<int>(recording_packet_max), PCAP_TSTAMP_PRECISION_NANO)),
      bytes_(recording_file_head_size) {
  file_ = open_new(path_, replace);
  out_.reset(pcap_dump_fopen(format_.get(), file_));
  if (out_ == nullptr) {
    const std::string why = pcap_geterr(format_.get());
    std::fclose(file_);
    throw std::runtime_error(path_ + ": " + why);
  }
  flush();
}

recording_writer::~recording_writer() = default;

void recording_writer::write(std::chrono::nanoseconds at, recording_entry entry,
                             bytes_view payload) {
  constexpr std::size_t most = recording_packet_max - recording_entry_size;
  last_ = at;
  if (entry.kind == entry_kind::message)
    ++messages_;
  else if (entry.kind == entry_kind::lost)
    lost_ += entry.count;
  entry.parts =
      static_cast<std::uint16_t>(std::max<std::size_t>((payload.size() + most - 1) / most, 1));
  for (entry.part = 0; entry.part != entry.parts; ++entry.part) {
    const bytes_view part = payload.first(std::min(most, payload.size()));
    payload = payload.subspan(part.size());
    put(at, entry, part);
  }
  if (std::ferror(file_) != 0)
    fail(errno);
  if (bytes_ - flushed_bytes_ >= buffer_size / 2)
    flush();
}

void recording_writer::put(std::chrono::nanoseconds at, const recording_entry& entry,
                           bytes_view payload) {
  constexpr std::chrono::nanoseconds second = std::chrono::seconds{1};
  packet_.resize(recording_entry_size);
  encode(entry, packet_.data());
  packet_.insert(packet_.end(), payload.begin(), payload.end());
  pcap_pkthdr head{};
  head.ts = {.tv_sec = static_cast<time_t>(at / second),
             .tv_usec = static_cast<suseconds_t>((at % second).count())};  // nanoseconds
  head.caplen = head.len = static_cast<bpf_u_int32>(packet_.size());
  pcap_dump(reinterpret_cast<u_char*>(out_.get()), &head,
            reinterpret_cast<const u_char*>(packet_.data()));
  bytes_ += recording_packet_head_size + packet_.size();
}

void recording_writer::flush() {
  if (pcap_dump_flush(out_.get()) != 0)
    fail(errno);
  flushed_messages_ = messages_;
  flushed_bytes_ = bytes_;
}

// What the failed write has left is cut off, so that the file ends with a whole packet.
void recording_writer::fail(int code) {
  const std::uint64_t missing = messages_ - flushed_messages_;
  const bool is_begun = flushed_bytes_ != 0;
  __fpurge(file_);
  std::clearerr(file_);
  if (ftruncate(fileno(file_), static_cast<off_t>(flushed_bytes_)) == 0 &&
      fseeko(file_, static_cast<off_t>(flushed_bytes_), SEEK_SET) == 0 && is_begun)
    say_not_written(missing);
  const std::string why = path_ + ": " + std::generic_category().message(code != 0 ? code : EIO) +
                          ": the last " + std::to_string(missing) + " of " +
                          std::to_string(messages_) + " messages are not in it";
  throw std::runtime_error(why);
}

void recording_writer::say_not_written(std::uint64_t missing) {
  put(last_, {.kind = entry_kind::lost, .count = missing}, {});
  put(last_,
      {.kind = entry_kind::end, .type = static_cast<std::uint32_t>(recording_end::not_written)},
      {});
  if (std::fflush(file_) == 0)
    return;
  __fpurge(file_);
  (void)ftruncate(fileno(file_), static_cast<off_t>(flushed_bytes_));
}

}  // namespace atbus::tool
