// Messages in batches, for atbus_node_receive.
#include <algorithm>

#include "handles.h"

namespace atbus::c_api {
namespace {

// What there is room for beside the longest message.
constexpr std::size_t batch_size = std::size_t{1} << 20;

}  // namespace

message_taker::message_taker(std::size_t longest)
    : longest_(longest), bytes_(batch_size + longest) {}

void message_taker::set_callback(atbus_message_callback call, void* user) noexcept {
  call_ = call;
  user_ = user;
  into_batches_ = false;
}

void message_taker::take(const atbus_message& what) {
  if (!into_batches_) {
    if (call_ != nullptr)
      call_(user_, &what);
    return;
  }
  // atbus_node_receive sees to it that there is room. Other functions poll too, and do not.
  if (what.size > bytes_.size() - used_)
    bytes_.resize(std::max(used_ + what.size, 2 * bytes_.size()));
  all_.push_back(what);
  std::ranges::copy(view_of(what.bytes, what.size),
                    bytes_.begin() + static_cast<std::ptrdiff_t>(used_));
  used_ += what.size;
}

std::size_t message_taker::room(std::size_t most) const noexcept {
  return std::min((bytes_.size() - used_) / longest_, most - std::min(most, all_.size()));
}

std::size_t message_taker::room() const noexcept {
  return into_batches_ ? room(longest_batch) : SIZE_MAX;
}

void message_taker::begin_batch(std::size_t most) {
  all_.erase(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(given_));
  std::copy(bytes_.begin() + static_cast<std::ptrdiff_t>(given_bytes_),
            bytes_.begin() + static_cast<std::ptrdiff_t>(used_), bytes_.begin());
  used_ -= given_bytes_;
  given_ = given_bytes_ = 0;
  if (all_.empty())
    all_.reserve(most);
}

std::span<const atbus_message> message_taker::give(std::size_t most, bytes_view& bytes) noexcept {
  const std::size_t count = std::min(most, all_.size() - given_);
  const std::span<atbus_message> found{all_.data() + given_, count};
  const std::size_t begin = given_bytes_;
  for (atbus_message& one : found) {
    one.bytes = bytes_.data() + given_bytes_;
    given_bytes_ += one.size;
  }
  given_ += count;
  bytes = {bytes_.data() + begin, given_bytes_ - begin};
  return found;
}

}  // namespace atbus::c_api
