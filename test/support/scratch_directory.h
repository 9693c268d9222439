// A directory of its own for the segments of one test, and a look at a process's descriptors.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace atbus::test {

// Made in /dev/shm, removed with everything in it.
class scratch_directory {
 public:
  scratch_directory();
  scratch_directory(const scratch_directory&) = delete;
  scratch_directory& operator=(const scratch_directory&) = delete;
  ~scratch_directory();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // Names of the files in it, sorted.
  [[nodiscard]] std::vector<std::string> files() const;

 private:
  std::string path_;
};

// How many descriptors this process has open.
[[nodiscard]] std::size_t open_descriptors();

}  // namespace atbus::test
