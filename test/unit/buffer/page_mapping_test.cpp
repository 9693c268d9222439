// What a mapping says it obtained, with a kernel that refuses one thing after the other.
#include "buffer/page_mapping.h"

#include <sys/mman.h>

#include <cstdio>
#include <fstream>

#include "atbus/build_settings.hpp"
#include "system/kernel.h"
#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

class Mapping : public ::testing::Test {
 protected:
  ~Mapping() override { kernel() = saved_; }

  static void refuse_explicit_huge_pages() {
    kernel().mmap = [](void* address, std::size_t length, int protection, int flags, int fd,
                       off_t offset) {
      if (flags & MAP_HUGETLB) {
        errno = ENOMEM;
        return MAP_FAILED;
      }
      return ::mmap(address, length, protection, flags, fd, offset);
    };
  }

  template <int Refused, int Cause>
  static void refuse_advice() {
    kernel().madvise = [](void* address, std::size_t length, int advice) {
      if (advice == Refused) {
        errno = Cause;
        return -1;
      }
      return ::madvise(address, length, advice);
    };
  }

  const kernel_calls saved_ = kernel();
};

bool mentions(const std::string& text, const char* words) {
  return text.find(words) != std::string::npos;
}

std::size_t huge_bytes_of_process() {
  std::ifstream in{"/proc/self/smaps_rollup"};
  for (std::string line; std::getline(in, line);) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "AnonHugePages: %llu", &kib) == 1) {
      return static_cast<std::size_t>(kib) * 1024;
    }
  }
  return 0;
}

TEST_F(Mapping, IsOrdinaryAndUntouchedUnlessAskedOtherwise) {
  auto made = page_mapping::make(3 * mib + 1, {});
  ASSERT_TRUE(made);
  const obtained_memory& got = made->obtained();
  EXPECT_EQ(got.pages, page_kind::ordinary);
  EXPECT_GE(got.bytes, 3 * mib + 1);
  EXPECT_EQ(got.bytes % got.page_size, 0U);
  EXPECT_EQ(got.prefaulted_bytes, 0U);
  EXPECT_TRUE(got.shortfall.empty());
  made->base()[got.bytes - 1] = std::byte{1};
}

TEST_F(Mapping, PrefaultPutsEveryPageInPlace) {
  const auto made = page_mapping::make(2 * mib, {.prefault = true});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->obtained().prefaulted_bytes, made->obtained().bytes);
  std::vector<unsigned char> resident(made->obtained().bytes / made->obtained().page_size);
  ASSERT_EQ(::mincore(made->base(), made->obtained().bytes, resident.data()), 0);
  for (const unsigned char page : resident) {
    ASSERT_EQ(page & 1, 1);
  }
}

TEST_F(Mapping, PrefaultTouchesThePagesWhereTheKernelDoesNotKnowThatAdvice) {
  refuse_advice<23, EINVAL>();  // MADV_POPULATE_WRITE
  const auto made = page_mapping::make(2 * mib, {.prefault = true});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->obtained().prefaulted_bytes, made->obtained().bytes);
  std::vector<unsigned char> resident(made->obtained().bytes / made->obtained().page_size);
  ASSERT_EQ(::mincore(made->base(), made->obtained().bytes, resident.data()), 0);
  EXPECT_EQ(resident.back() & 1, 1);
}

TEST_F(Mapping, SaysSoWhenPagesCouldNotBePutInPlace) {
  refuse_advice<23, ENOMEM>();
  const auto made = page_mapping::make(2 * mib, {.prefault = true});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->obtained().prefaulted_bytes, 0U);
  EXPECT_TRUE(mentions(made->obtained().shortfall, "put in place"));
}

TEST_F(Mapping, FallsBackToTransparentHugePagesAndSaysWhy) {
  refuse_explicit_huge_pages();
  const auto made = page_mapping::make(mib, {.huge_pages = true});
  ASSERT_TRUE(made);
  const obtained_memory& got = made->obtained();
  EXPECT_TRUE(mentions(got.shortfall, "no explicit huge pages")) << got.shortfall;
  if (got.pages != page_kind::transparent_huge)
    GTEST_SKIP() << got.text();
  EXPECT_EQ(got.bytes % build_settings::hugetlb_size, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made->base()) % got.page_size, 0U);
  EXPECT_EQ(got.huge_bytes, 0U);
}

TEST_F(Mapping, CountsTheTransparentHugePagesThatPrefaultObtained) {
  refuse_explicit_huge_pages();
  const std::size_t before = huge_bytes_of_process();
  const auto made = page_mapping::make(mib, {.prefault = true, .huge_pages = true});
  ASSERT_TRUE(made);
  const obtained_memory& got = made->obtained();
  if (got.pages != page_kind::transparent_huge)
    GTEST_SKIP() << got.text();
  EXPECT_EQ(got.prefaulted_bytes, got.bytes);
  EXPECT_EQ(got.huge_bytes, huge_bytes_of_process() - before);
  // Either all of it, or the report says that some is missing.
  EXPECT_NE(got.huge_bytes == got.bytes, mentions(got.shortfall, "more huge pages")) << got.text();
}

TEST_F(Mapping, FallsBackToOrdinaryPagesAndNamesBothReasons) {
  refuse_explicit_huge_pages();
  refuse_advice<MADV_HUGEPAGE, EINVAL>();
  auto made = page_mapping::make(mib, {.huge_pages = true});
  ASSERT_TRUE(made);
  const obtained_memory& got = made->obtained();
  EXPECT_EQ(got.pages, page_kind::ordinary);
  EXPECT_TRUE(mentions(got.shortfall, "no explicit huge pages")) << got.shortfall;
  EXPECT_TRUE(mentions(got.shortfall, "transparent huge pages")) << got.shortfall;
  made->base()[got.bytes - 1] = std::byte{1};
}

TEST_F(Mapping, ExplicitHugePagesAreUsedWhereTheKernelHasThem) {
  // The kernel's part is played: what counts is what is asked for and what is then said.
  kernel().mmap = [](void* address, std::size_t length, int protection, int flags, int fd,
                     off_t offset) {
    return ::mmap(address, length, protection, flags & 0xffff & ~MAP_HUGETLB, fd, offset);
  };
  const auto made = page_mapping::make(mib, {.huge_pages = true});
  ASSERT_TRUE(made);
  const obtained_memory& got = made->obtained();
  EXPECT_EQ(got.pages, page_kind::explicit_huge);
  EXPECT_EQ(got.page_size, build_settings::hugetlb_size);
  EXPECT_EQ(got.bytes, build_settings::hugetlb_size);
  EXPECT_EQ(got.huge_bytes, got.bytes);
  EXPECT_TRUE(got.shortfall.empty());
}

TEST_F(Mapping, IsAnErrorThatNamesTheSizeWhenTheKernelHasNoMemory) {
  kernel().mmap = [](void*, std::size_t, int, int, int, off_t) {
    errno = ENOMEM;
    return MAP_FAILED;
  };
  const auto made = page_mapping::make(mib, {.huge_pages = true});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error(), errc::out_of_memory);
  EXPECT_EQ(made.error().system_code(), ENOMEM);
  EXPECT_TRUE(mentions(made.error().text(), "1048576"));
}

TEST_F(Mapping, RefusesNothingAndTheImpossible) {
  EXPECT_FALSE(page_mapping::make(0, {}));
  EXPECT_FALSE(page_mapping::make(~std::size_t{0}, {}));
}

TEST_F(Mapping, ReturnsWhatItTook) {
  static std::size_t mapped;
  mapped = 0;
  kernel().mmap = [](void* address, std::size_t length, int protection, int flags, int fd,
                     off_t offset) {
    void* const memory = ::mmap(address, length, protection, flags, fd, offset);
    mapped += memory == MAP_FAILED ? 0 : length;
    return memory;
  };
  kernel().munmap = [](void* address, std::size_t length) {
    mapped -= length;
    return ::munmap(address, length);
  };
  for (const bool huge : {false, true}) {
    {
      const auto made = page_mapping::make(mib, {.huge_pages = huge});
      ASSERT_TRUE(made);
      EXPECT_EQ(mapped, made->obtained().bytes);
    }
    EXPECT_EQ(mapped, 0U);
  }
}

TEST(ObtainedMemory, ReadsAsOneLine) {
  obtained_memory got{.pages = page_kind::transparent_huge,
                      .page_size = 2 * mib,
                      .bytes = 64 * mib,
                      .prefaulted_bytes = 64 * mib,
                      .huge_bytes = 62 * mib,
                      .shortfall = "two of them"};
  EXPECT_EQ(
      got.text(),
      "64 MiB in transparent huge pages of 2 MiB (62 MiB so far), all in place; not obtained: "
      "two of them");
  got = {.page_size = 4096, .bytes = 40960};
  EXPECT_EQ(got.text(), "40 KiB in ordinary pages of 4 KiB, in place at first use");
}

}  // namespace
}  // namespace atbus::detail
