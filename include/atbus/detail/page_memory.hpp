// The page options that a pool asks the kernel for, and what it obtained. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "atbus/detail/export.hpp"

namespace atbus {

/// What a pool asks the kernel for. Both are best effort, never errors: obtained_memory says what was
/// obtained instead.
struct page_options {
  /// Has every page in place before the first use, so that no later access takes a page fault.
  bool prefault = false;
  /// Explicit huge pages (hugetlb) where the machine has some reserved, else transparent ones, else
  /// ordinary pages. The size is rounded up to build_settings::hugetlb_size.
  bool huge_pages = false;
};

/// The pages of some memory.
enum class page_kind : std::uint8_t {
  ordinary,          ///< Pages of the usual size.
  transparent_huge,  ///< The kernel was advised; it decides page by page, see huge_bytes.
  explicit_huge,     ///< All of it is in reserved huge pages.
};

/// The memory that a pool got.
struct ATBUS_API obtained_memory {
  /// The kind of its pages.
  page_kind pages = page_kind::ordinary;
  std::size_t page_size = 0;         ///< Bytes of one page of that kind.
  std::size_t bytes = 0;             ///< Bytes that are mapped.
  std::size_t prefaulted_bytes = 0;  ///< Bytes in place before the first use.
  /// Bytes in huge pages when the mapping was made; for transparent ones 0 unless prefaulted,
  /// because the kernel decides at the first touch.
  std::size_t huge_bytes = 0;
  /// Why something that was asked for was not obtained; empty if all was.
  std::string shortfall{};

  /// One line for people: "64 MiB in transparent huge pages of 2 MiB (64 MiB so far), all in
  /// place".
  [[nodiscard]] std::string text() const;
};

}  // namespace atbus
