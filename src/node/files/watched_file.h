// A file that people or their tools edit while a node runs. This class never writes it.
//
// take() checks the file's name, size and times, which shows an edit, a replacement and a changed link. A
// changed file is read at the first look that finds no further change, so that it is not read while it is
// being written.
//
// One thread.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "atbus/status.hpp"

namespace atbus::detail {

inline constexpr std::size_t watched_file_size_max = std::size_t{8} * 1024 * 1024;
// toml++ descends once for each part of a dotted key when it destroys what it has read: this and its
// own limit of 256 nested values keep that within 2 MiB of stack.
inline constexpr std::size_t watched_file_line_max = 1000;

// How often a node looks.
inline constexpr std::chrono::nanoseconds file_look_interval = std::chrono::seconds{2};

class watched_file {
 public:
  explicit watched_file(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // Looks. True at the first look, at the next one, and when the file has changed.
  [[nodiscard]] bool has_changed() noexcept;
  // The whole text where has_changed() says so; else nothing. What can't be read is tried again at the next
  // look. Errors: not_found, system_error, invalid_argument (no file, or too long).
  [[nodiscard]] result<std::optional<std::string>> take();
  // What came of the last look could not be used: the next one says again that it has changed.
  void take_again() noexcept { used_ = {}; }

 private:
  // Which file it is, and as of when. Equal: it has not changed.
  struct state {
    int problem = 0;  // errno
    dev_t device = 0;
    ino_t number = 0;
    off_t size = 0;
    std::int64_t written_ns = 0;
    std::int64_t changed_ns = 0;  // its content or its name

    friend bool operator==(const state&, const state&) = default;
  };

  [[nodiscard]] state look() const noexcept;

  std::string path_;
  bool looked_ = false;
  state seen_;  // at the last look
  state used_;  // as of which it was read and had not changed for a while
};

// The text of a file, read once. Errors as of watched_file.
[[nodiscard]] result<std::string> read_config_file(const std::string& path);

}  // namespace atbus::detail
