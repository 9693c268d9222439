// What an attacker of the same user holds: the directory, and the segment file mapped whole with
// every byte writable. Header only, because the fuzz target shares it.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "channel/shm/segment_layout.h"

namespace atbus::hostile {

// Senders and receivers that stay in step need neither default sizes nor spinning.
inline constexpr std::uint32_t lanes = 3;
inline constexpr std::uint64_t lane_size = 4096;
inline constexpr std::uint64_t message_limit = 1000;

// A directory of its own, on a tmpfs where there is one; gone with everything in it at the end.
class private_directory {
 public:
  explicit private_directory(const std::string& parent = "") {
    std::string pattern = (parent.empty() ? default_parent() : parent) + "/atbus-hostile-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr)
      path_ = pattern;
  }
  private_directory(const private_directory&) = delete;
  private_directory& operator=(const private_directory&) = delete;
  ~private_directory() {
    std::error_code ignored;
    if (!path_.empty())
      std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string segment_path(std::string_view name) const {
    return path_ + "/atbus-segment." + std::string{name};
  }
  [[nodiscard]] std::string bell_path(std::string_view name) const {
    return path_ + "/atbus-bell." + std::string{name};
  }

 private:
  static std::string default_parent() {
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                         : std::filesystem::temp_directory_path().string();
  }
  std::string path_;
};

// The names in a directory, sorted.
inline std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator{directory, missing})
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// A segment file mapped through a description of its own, which holds no lock. The geometry is read
// once, so that it stays usable whatever is then written into the header.
class raw_segment {
 public:
  explicit raw_segment(const std::string& path) : fd_{::open(path.c_str(), O_RDWR | O_CLOEXEC)} {
    struct stat st {};
    if (fd_ < 0 || fstat(fd_, &st) != 0)
      return;
    size_ = static_cast<std::size_t>(st.st_size);
    void* const at = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (at == MAP_FAILED)
      return;
    base_ = static_cast<std::byte*>(at);
    const detail::segment_identity& id = header().identity;
    geometry_ = {id.lane_count, id.lane_size, id.message_limit};
  }
  raw_segment(raw_segment&& other) noexcept
      : fd_{std::exchange(other.fd_, -1)},
        base_{std::exchange(other.base_, nullptr)},
        size_{other.size_},
        geometry_{other.geometry_} {}
  raw_segment& operator=(raw_segment&&) = delete;
  ~raw_segment() {
    if (base_ != nullptr)
      munmap(base_, size_);
    if (fd_ >= 0)
      ::close(fd_);
  }

  [[nodiscard]] explicit operator bool() const noexcept { return base_ != nullptr; }
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const detail::segment_geometry& geometry() const noexcept { return geometry_; }
  [[nodiscard]] detail::segment_header& header() const noexcept {
    return *reinterpret_cast<detail::segment_header*>(base_);
  }
  [[nodiscard]] detail::lane_slot& slot(std::uint32_t lane) const noexcept {
    return reinterpret_cast<detail::lane_slot*>(base_ + geometry_.table_offset())[lane];
  }
  [[nodiscard]] std::byte* lane(std::uint32_t lane) const noexcept {
    return base_ + geometry_.lane_offset(lane);
  }
  // Where in its lane the record at `position` lies.
  [[nodiscard]] std::byte* record(std::uint32_t index, std::uint64_t position) const noexcept {
    return lane(index) + (position & (geometry_.lane_size - 1));
  }

 private:
  int fd_ = -1;
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
  detail::segment_geometry geometry_;
};

// One control word: its name for messages, and where it lies in the slot.
struct word_of_lane {
  const char* name;
  std::size_t offset;

  [[nodiscard]] detail::shared_word& in(detail::lane_slot& slot) const noexcept {
    return *reinterpret_cast<detail::shared_word*>(reinterpret_cast<std::byte*>(&slot) + offset);
  }
};

inline constexpr word_of_lane words_of_lane[] = {
    {"tail", offsetof(detail::lane_slot, tail)},
    {"request", offsetof(detail::lane_slot, request)},
    {"withdrawn", offsetof(detail::lane_slot, withdrawn)},
    {"fence_echo", offsetof(detail::lane_slot, fence_echo)},
    {"reserved_bytes", offsetof(detail::lane_slot, reserved_bytes)},
    {"head", offsetof(detail::lane_slot, head)},
    {"alert", offsetof(detail::lane_slot, alert)},
    {"handling", offsetof(detail::lane_slot, handling)},
    {"done", offsetof(detail::lane_slot, done)},
    {"messages", offsetof(detail::lane_slot, messages)},
    {"high_water_mark", offsetof(detail::lane_slot, high_water_mark)},
    {"fence_answered", offsetof(detail::lane_slot, fence_answered)},
    {"quarantined", offsetof(detail::lane_slot, quarantined)},
};

[[nodiscard]] inline bool is_printable(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace atbus::hostile
