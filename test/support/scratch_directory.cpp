#include "scratch_directory.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace atbus::test {

scratch_directory::scratch_directory() {
  char name[] = "/dev/shm/atbus-test.XXXXXX";
  if (mkdtemp(name) == nullptr)
    throw std::system_error(errno, std::generic_category(), "mkdtemp in /dev/shm");
  path_ = name;
}

scratch_directory::~scratch_directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> scratch_directory::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all{"/proc/self/fd"};
  // The iterator's own descriptor is one of them.
  return static_cast<std::size_t>(std::distance(begin(all), end(all))) - 1;
}

}  // namespace atbus::test
