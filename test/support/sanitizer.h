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

#if defined(ATBUS_TEST_SANITIZER)
inline constexpr bool has_sanitizer = true;
#else
inline constexpr bool has_sanitizer = false;
#endif
// Of moments that are all tried, one in so many: with a sanitizer they take several times as long.
inline constexpr int one_moment_in = has_sanitizer ? 5 : 1;

}  // namespace atbus::test
