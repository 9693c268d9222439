/// @file
/// What the allocator does with the memory that large messages have freed.
#pragma once

#include <malloc.h>

#include <cstddef>

namespace cache {

/// Has the allocator of this process keep up to 32 MiB of freed memory for the next large messages. By itself
/// glibc gives the memory of each value of some hundred KiB back to the system once it was sent, and the next
/// value pays for new pages. Call it before the first message. No effect with other C libraries.
inline void keep_freed_memory() noexcept {
#ifdef __GLIBC__
  constexpr int kept = 32 << 20;  // the most that mallopt takes for the first
  mallopt(M_MMAP_THRESHOLD, kept);
  mallopt(M_TRIM_THRESHOLD, kept);
#endif
}

}  // namespace cache
