// A main() for fuzz targets in builds without libFuzzer: hands every file of the corpus folders
// named on the command line to the target once, in name order. An empty input comes first, because
// no corpus can hold it usefully and every parser must stand it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using bytes = std::vector<char>;

void run_one(const bytes& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

bool read_file(const std::filesystem::path& path, bytes& content) {
  std::ifstream file(path, std::ios::binary);
  content.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return !file.bad() && file.is_open();
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    if (entry.is_regular_file()) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argument_count, char** arguments) {
  run_one({});
  std::size_t replayed = 0;
  for (int i = 1; i < argument_count; ++i) {
    for (const auto& path : files_in(arguments[i])) {
      bytes content;
      if (!read_file(path, content)) {
        std::fprintf(stderr, "can't read %s\n", path.c_str());
        return 1;
      }
      std::fprintf(stderr, "%s (%zu bytes)\n", path.c_str(), content.size());
      run_one(content);
      ++replayed;
    }
  }
  // A test that replayed nothing must not look like one that passed.
  std::fprintf(stderr, "%zu inputs replayed\n", replayed);
  return replayed > 0 ? 0 : 1;
}
