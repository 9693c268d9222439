#include "buffer/page_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#include "atbus/build_settings.hpp"
#include "system/kernel.h"

namespace atbus::detail {
namespace {

// MADV_POPULATE_WRITE of Linux 5.14, which older headers do not know.
constexpr int populate_write = 23;

constexpr std::size_t hugetlb_size = build_settings::hugetlb_size;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

std::size_t ordinary_page_size() noexcept {
  return static_cast<std::size_t>(kernel().sysconf(_SC_PAGESIZE));
}

std::string first_line(const char* path) {
  std::ifstream in{path};
  std::string line;
  std::getline(in, line);
  return line;
}

// "Name:   123 kB" in bytes; 0 for any other line.
std::size_t kib_field(const std::string& line, std::string_view name) {
  if (line.compare(0, name.size(), name) != 0)
    return 0;
  return static_cast<std::size_t>(std::strtoull(line.c_str() + name.size(), nullptr, 10)) * 1024;
}

// The kernel's default size of explicit huge pages; 0 if it has none.
std::size_t default_hugetlb_page() {
  std::ifstream in{"/proc/meminfo"};
  for (std::string line; std::getline(in, line);) {
    if (const std::size_t bytes = kib_field(line, "Hugepagesize:"))
      return bytes;
  }
  return 0;
}

std::size_t transparent_page() {
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
  const auto bytes = static_cast<std::size_t>(std::strtoull(line.c_str(), nullptr, 10));
  return std::has_single_bit(bytes) ? bytes : std::size_t{2} << 20;
}

// Bytes of [base, base + bytes) that lie in transparent huge pages now.
std::size_t transparent_bytes(const std::byte* base, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(base);
  std::ifstream in{"/proc/self/smaps"};
  std::size_t found = 0;
  bool ours = false;
  for (std::string line; std::getline(in, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%jx-%jx ", &begin, &end) == 2) {
      ours = begin < first + bytes && end > first;
    } else if (ours) {
      found += kib_field(line, "AnonHugePages:");
    }
  }
  return std::min(found, bytes);
}

// Readable text: "64 MiB", "96 KiB".
std::string size_text(std::size_t bytes) {
  if (bytes >= (std::size_t{1} << 20) && bytes % (std::size_t{1} << 20) == 0) {
    return std::to_string(bytes >> 20) + " MiB";
  }
  return std::to_string(bytes >> 10) + " KiB";
}

}  // namespace

page_mapping::~page_mapping() {
  if (base_)
    kernel().munmap(base_, obtained_.bytes);
}

void page_mapping::miss(const char* what, int system_code) {
  if (!obtained_.shortfall.empty())
    obtained_.shortfall += "; ";
  obtained_.shortfall += what;
  if (system_code != 0) {
    obtained_.shortfall += ": ";
    obtained_.shortfall += std::generic_category().message(system_code);
  }
}

result<page_mapping> page_mapping::make(std::size_t bytes, page_options options) {
  page_mapping made;
  if (bytes == 0 || bytes > std::numeric_limits<std::size_t>::max() / 2) {
    return error{errc::out_of_memory, "No mapping can have " + std::to_string(bytes) + " bytes."};
  }
  const bool huge =
      options.huge_pages && (made.map_explicit_huge(bytes) || made.map_transparent_huge(bytes));
  if (!huge && !made.map_ordinary(bytes)) {
    const int cause = errno;
    return error{errc::out_of_memory,
                 "The kernel has no " + std::to_string(bytes) +
                     " bytes of memory for a pool. Ask for less, or raise the limit on address "
                     "space or memory (ulimit -v, the control group).",
                 cause};
  }
  if (options.prefault)
    made.prefault();
  return made;
}

bool page_mapping::map_explicit_huge(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes, hugetlb_size);
  constexpr int protection = PROT_READ | PROT_WRITE;
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
  // Pages of the size in the build settings if the machine has such pages; else of its default size. Without
  // MAP_NORESERVE, so that the kernel reserves them now or refuses, and never raises SIGBUS later.
  const int size_flag = std::countr_zero(hugetlb_size) << MAP_HUGE_SHIFT;
  void* memory = kernel().mmap(nullptr, rounded, protection, flags | size_flag, -1, 0);
  std::size_t page = hugetlb_size;
  if (memory == MAP_FAILED) {
    page = default_hugetlb_page();
    if (page == 0 || rounded % page != 0) {
      miss("no explicit huge pages of a size that divides the pool's", 0);
      return false;
    }
    memory = kernel().mmap(nullptr, rounded, protection, flags, -1, 0);
  }
  if (memory == MAP_FAILED) {
    miss("no explicit huge pages (reserve some with vm.nr_hugepages)", errno);
    return false;
  }
  base_ = static_cast<std::byte*>(memory);
  obtained_.pages = page_kind::explicit_huge;
  obtained_.page_size = page;
  obtained_.bytes = obtained_.huge_bytes = rounded;
  return true;
}

bool page_mapping::map_transparent_huge(std::size_t bytes) {
  const std::string enabled = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (enabled.empty() || enabled.find("[never]") != std::string::npos) {
    miss("transparent huge pages are switched off on this machine", 0);
    return false;
  }
  const std::size_t page = transparent_page();
  const std::size_t rounded = round_up(bytes, std::max(hugetlb_size, page));
  // Map one page more than needed, to cut an aligned piece out of it.
  void* const memory = kernel().mmap(nullptr, rounded + page, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    miss("no room for huge pages", errno);
    return false;
  }
  auto* const begin = static_cast<std::byte*>(memory);
  const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(begin) % page) % page;
  if (before > 0)
    kernel().munmap(begin, before);
  if (before < page)
    kernel().munmap(begin + before + rounded, page - before);
  base_ = begin + before;
  obtained_.bytes = rounded;
  if (kernel().madvise(base_, rounded, MADV_HUGEPAGE) != 0) {
    miss("no transparent huge pages", errno);
    obtained_.page_size = ordinary_page_size();
    return true;  // ordinary pages, but mapped
  }
  obtained_.pages = page_kind::transparent_huge;
  obtained_.page_size = page;
  return true;
}

bool page_mapping::map_ordinary(std::size_t bytes) {
  const std::size_t page = ordinary_page_size();
  const std::size_t rounded = round_up(bytes, page);
  void* const memory =
      kernel().mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return false;
  base_ = static_cast<std::byte*>(memory);
  obtained_.page_size = page;
  obtained_.bytes = rounded;
  return true;
}

void page_mapping::prefault() {
  if (kernel().madvise(base_, obtained_.bytes, populate_write) == 0) {
    obtained_.prefaulted_bytes = obtained_.bytes;
  } else if (errno == EINVAL || errno == ENOSYS) {
    // An older kernel: touch every page here. Volatile, so that the compiler keeps the writes.
    const std::size_t step = ordinary_page_size();
    for (std::size_t at = 0; at < obtained_.bytes; at += step) {
      *static_cast<volatile std::byte*>(base_ + at) = std::byte{0};
    }
    obtained_.prefaulted_bytes = obtained_.bytes;
  } else {
    miss("not all pages could be put in place beforehand", errno);
  }
  if (obtained_.pages != page_kind::transparent_huge)
    return;
  obtained_.huge_bytes = transparent_bytes(base_, obtained_.bytes);
  if (obtained_.prefaulted_bytes != 0 && obtained_.huge_bytes < obtained_.bytes) {
    miss("the kernel had not enough free memory in one piece for more huge pages", 0);
  }
}

}  // namespace atbus::detail

namespace atbus {

std::string obtained_memory::text() const {
  std::string line = detail::size_text(bytes) + " in ";
  switch (pages) {
    case page_kind::ordinary:
      line += "ordinary pages of " + detail::size_text(page_size);
      break;
    case page_kind::transparent_huge:
      line += "transparent huge pages of " + detail::size_text(page_size) + " (" +
              detail::size_text(huge_bytes) + " so far)";
      break;
    case page_kind::explicit_huge:
      line += "explicit huge pages of " + detail::size_text(page_size);
      break;
  }
  line += prefaulted_bytes == bytes ? ", all in place"
          : prefaulted_bytes == 0   ? ", in place at first use"
                                    : ", partly in place";
  if (!shortfall.empty())
    line += "; not obtained: " + shortfall;
  return line;
}

}  // namespace atbus
