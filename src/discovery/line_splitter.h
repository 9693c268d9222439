// Splits a stream of bytes into lines. A line beyond the limit is a failure that stays: what follows it can't be
// told from the rest of it.
//
// One thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace atbus::detail {

class line_splitter {
 public:
  explicit line_splitter(std::size_t longest) noexcept : longest_(longest) {}

  // Calls `use` for each line that is complete, without its end and not empty; it returns whether to go on. False: a
  // line is too long, or `use` has said so. Then nothing more is taken.
  template <class Use>
  [[nodiscard]] bool take(std::string_view bytes, Use&& use) {
    while (!has_failed_ && !bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      has_failed_ = part.size() > longest_ - begun_.size();
      if (has_failed_)
        break;
      if (end == bytes.npos) {
        begun_.append(part);
        break;
      }
      bytes.remove_prefix(end + 1);
      // In one piece it needs no copy.
      const std::string before = std::exchange(begun_, {});
      const std::string whole = before.empty() ? std::string{} : before + std::string{part};
      const std::string_view line = before.empty() ? part : std::string_view{whole};
      if (!line.empty() && !use(line))
        has_failed_ = true;
    }
    return !has_failed_;
  }

 private:
  const std::size_t longest_;
  std::string begun_;
  bool has_failed_ = false;
};

}  // namespace atbus::detail
