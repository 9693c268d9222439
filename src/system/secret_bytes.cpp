#include "system/secret_bytes.h"

#include <string.h>

#include <cstring>
#include <new>

#include "system/kernel.h"

namespace atbus::detail {

secret_bytes::secret_bytes(bytes_view from) : size_(from.size()) {
  if (from.empty())
    return;
  void* const made =
      kernel().mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED)
    throw std::bad_alloc{};
  pages_ = made;
  (void)kernel().madvise(pages_, size_, MADV_DONTDUMP);
  (void)mlock(pages_, size_);
  std::memcpy(pages_, from.data(), size_);
}

void secret_bytes::wipe() noexcept {
  if (pages_ == nullptr)
    return;
  explicit_bzero(pages_, size_);
  (void)kernel().munmap(std::exchange(pages_, nullptr), std::exchange(size_, 0));
}

}  // namespace atbus::detail
