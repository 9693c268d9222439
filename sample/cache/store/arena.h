// The one piece of memory of a store: anonymous, or a file that is mapped and survives the process.
#pragma once

#include <atbus/block_pool.hpp>
#include <cstddef>
#include <string>
#include <utility>

namespace cache {

class arena {
 public:
  arena() = default;
  arena(arena&& other) noexcept { *this = std::move(other); }
  arena& operator=(arena&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    std::swap(file_, other.file_);
    return *this;
  }
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  ~arena();

  // `bytes` is a multiple of the page size. Huge pages are transparent ones, as far as the kernel
  // has them. With `file` not empty the memory is that file, which no other process may have open
  // as an arena; its blocks are reserved, so that a full file system is an error here and no signal
  // later. Errors: out_of_memory, no_space, denied, geometry_mismatch (the file has another size),
  // not_supported (not a regular file), system_error.
  static atbus::result<arena> make(std::size_t bytes, const atbus::page_options& pages,
                                   const std::string& file);

  // Zeroed where it was never used.
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool is_kept() const noexcept { return file_ >= 0; }

 private:
  atbus::error open_file(const std::string& file, std::size_t bytes);
  atbus::error map(const atbus::page_options& pages);

  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  int file_ = -1;  // open as long as the arena is: its lock ends with it
};

}  // namespace cache
