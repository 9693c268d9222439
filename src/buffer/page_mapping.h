// Anonymous private memory from the kernel, with huge pages and pre-fault on request.
#pragma once

#include <cstddef>
#include <utility>

#include "atbus/detail/page_memory.hpp"
#include "atbus/status.hpp"

namespace atbus::detail {

// One mapping with one owner. Zeroed where it was not used before.
class page_mapping {
 public:
  page_mapping() = default;
  page_mapping(page_mapping&& other) noexcept { *this = std::move(other); }
  page_mapping& operator=(page_mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(obtained_, other.obtained_);
    return *this;
  }
  page_mapping(const page_mapping&) = delete;
  page_mapping& operator=(const page_mapping&) = delete;
  ~page_mapping();

  // At least `bytes`, not 0, aligned to the page size obtained. The only error is out_of_memory.
  static result<page_mapping> make(std::size_t bytes, page_options options);

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] const obtained_memory& obtained() const noexcept { return obtained_; }

 private:
  bool map_explicit_huge(std::size_t bytes);
  bool map_transparent_huge(std::size_t bytes);
  bool map_ordinary(std::size_t bytes);
  void prefault();
  void miss(const char* what, int system_code);

  std::byte* base_ = nullptr;
  obtained_memory obtained_;
};

}  // namespace atbus::detail
