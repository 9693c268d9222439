// What the processes of a test found wrong, for memory that they share: how often, and the first of
// it in words.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "shared_memory.h"

namespace atbus::test {

class shared_violations {
 public:
  void add(std::string_view what) noexcept {
    // The first one is kept: nobody overwrites it once it is counted.
    if (count_.get() == 0)
      std::memcpy(first_.data(), what.data(), std::min(what.size(), first_.size() - 1));
    count_.add();
  }
  // "" if there was none.
  [[nodiscard]] std::string text() const {
    if (count_.get() == 0)
      return {};
    return std::to_string(count_.get()) + " violations, the first: " + first_.data();
  }

 private:
  shared_counter count_;
  std::array<char, 256> first_{};
};

}  // namespace atbus::test
