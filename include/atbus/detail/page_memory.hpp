// What a pool asks the kernel for, and what it got. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "atbus/detail/export.hpp"

namespace atbus {

// Both are wishes, never errors: obtained_memory says what was obtained instead.
struct page_options {
  // Have every page in place before the first use, so that no later access takes a page fault.
  bool prefault = false;
  // Explicit huge pages (hugetlb) where the machine has some reserved, else transparent ones, else
  // ordinary pages. The size is rounded up to build_settings::hugetlb_size.
  bool huge_pages = false;
};

enum class page_kind : std::uint8_t {
  ordinary,
  transparent_huge,  // the kernel was advised; it decides page by page, see huge_bytes
  explicit_huge,     // reserved: all of it is in huge pages
};

struct ATBUS_API obtained_memory {
  page_kind pages = page_kind::ordinary;
  std::size_t page_size = 0;         // bytes of one page of that kind
  std::size_t bytes = 0;             // mapped
  std::size_t prefaulted_bytes = 0;  // in place before the first use
  // In huge pages when the mapping was made; for transparent ones 0 unless prefaulted, because the
  // kernel decides at the first touch.
  std::size_t huge_bytes = 0;
  // Why something that was asked for was not obtained; empty if all was.
  std::string shortfall{};

  // One line for people: "64 MiB in transparent huge pages of 2 MiB (64 MiB so far), all in place".
  [[nodiscard]] std::string text() const;
};

}  // namespace atbus
