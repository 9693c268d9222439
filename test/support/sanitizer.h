// Whether this is code with a sanitizer in it, whose malloc, frames and times are other ones:
// ATBUS_TEST_SANITIZER is defined then.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ATBUS_TEST_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define ATBUS_TEST_SANITIZER 1
#endif
#endif

namespace atbus::test {

// Of moments that are all tried, one in so many: here they take several times as long.
#if defined(ATBUS_TEST_SANITIZER)
inline constexpr int one_moment_in = 5;
#else
inline constexpr int one_moment_in = 1;
#endif

}  // namespace atbus::test
