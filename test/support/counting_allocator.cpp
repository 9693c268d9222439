#include "counting_allocator.h"

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "sanitizer.h"

namespace {

// initial-exec: the first access must not allocate, or malloc would call itself.
__attribute__((tls_model("initial-exec"))) thread_local std::uint64_t allocation_count = 0;
__attribute__((tls_model("initial-exec"))) thread_local bool failing = false;
__attribute__((tls_model("initial-exec"))) thread_local bool failed = false;
__attribute__((tls_model("initial-exec"))) thread_local std::uint64_t good_left = 0;
__attribute__((tls_model("initial-exec"))) thread_local std::uint64_t bad_left = 0;
__attribute__((tls_model("initial-exec"))) thread_local const bool* is_spared = nullptr;

// Of the allocation that is asked for.
[[maybe_unused]] bool fails() noexcept {
  if (!failing || bad_left == 0 || (is_spared != nullptr && *is_spared))
    return false;
  if (good_left != 0) {
    --good_left;
    return false;
  }
  --bad_left;
  errno = ENOMEM;  // glibc asserts it when it starts a thread
  return failed = true;
}

}  // namespace

#if defined(ATBUS_TEST_SANITIZER)

// The sanitizers own malloc and offer hooks instead.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*,
                                                                           std::size_t),
                                                         void (*on_free)(const volatile void*));

namespace {

void on_malloc(const volatile void*, std::size_t) {
  ++allocation_count;
}
void on_free(const volatile void*) {}
const bool hooked = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) > 0;

}  // namespace

bool atbus::test::counts_allocations() noexcept {
  return hooked;
}
bool atbus::test::can_fail_allocations() noexcept {
  return false;
}

#elif defined(__GLIBC__)

// Visible, or only this program's own calls would come here and not those of libstdc++.
#pragma GCC visibility push(default)
extern "C" {

void* __libc_malloc(std::size_t) noexcept;
void* __libc_calloc(std::size_t, std::size_t) noexcept;
void* __libc_realloc(void*, std::size_t) noexcept;
void* __libc_memalign(std::size_t, std::size_t) noexcept;

void* malloc(std::size_t bytes) noexcept {
  ++allocation_count;
  return fails() ? nullptr : __libc_malloc(bytes);
}

void* calloc(std::size_t count, std::size_t bytes) noexcept {
  ++allocation_count;
  return fails() ? nullptr : __libc_calloc(count, bytes);
}

void* realloc(void* old, std::size_t bytes) noexcept {
  ++allocation_count;
  return fails() ? nullptr : __libc_realloc(old, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  ++allocation_count;
  return fails() ? nullptr : __libc_memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return memalign(alignment, bytes);
}

int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
  *out = memalign(alignment, bytes);
  return *out ? 0 : ENOMEM;
}

}  // extern "C"
#pragma GCC visibility pop

bool atbus::test::counts_allocations() noexcept {
  return true;
}
bool atbus::test::can_fail_allocations() noexcept {
  return true;
}

#else

bool atbus::test::counts_allocations() noexcept {
  return false;
}
bool atbus::test::can_fail_allocations() noexcept {
  return false;
}

#endif

namespace atbus::test {

std::uint64_t allocations() noexcept {
  return allocation_count;
}
allocation_failure::allocation_failure(std::uint64_t good, std::uint64_t bad,
                                       const bool* spared) noexcept {
  is_spared = spared;
  good_left = good;
  bad_left = bad;
  failed = false;
  failing = true;
}
bool allocation_failure::happened() noexcept {
  return failed;
}
allocation_failure::~allocation_failure() {
  failing = false;
}

}  // namespace atbus::test
