#include "node/link/tap_lane.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "atbus/inspect.hpp"
#include "atbus/sender.hpp"
#include "channel/shm/segment.h"

namespace atbus::detail {
namespace {

constexpr std::size_t tap_name_max = 64;  // characters behind the prefix

bool is_tap_address(std::string_view address) noexcept {
  if (!address.starts_with(tap_prefix))
    return false;
  const std::string_view rest = address.substr(tap_prefix.size());
  return !rest.empty() && rest.size() <= tap_name_max && std::ranges::all_of(rest, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

class shared_memory_tap final : public tap_lane {
 public:
  shared_memory_tap(std::string_view name, sender out) : name_(name), out_(std::move(out)) {}
  // What a killed reader has left goes with it.
  ~shared_memory_tap() override {
    if (has_reader())
      return;
    out_.close();
    try {
      (void)clean_segment(name_);
    } catch (const std::bad_alloc&) {  // the next `atbus tap` removes it
    }
  }

  status send(std::initializer_list<bytes_view> pieces) noexcept override {
    return out_.send(pieces);
  }
  [[nodiscard]] bool has_reader() const noexcept override { return out_.receiver_alive(); }

 private:
  const std::string name_;
  sender out_;
};

std::string_view name_of(std::string_view address) noexcept {
  constexpr std::string_view scheme = "shm://";
  return address.substr(scheme.size());
}

error check_segment(std::string_view address, std::size_t longest) {
  const auto found =
      open_segment({.name = std::string{name_of(address)}, .directory = default_directory});
  if (!found)
    return found.error();
  if (found->geometry.lane_size > tap_lane_size_max)
    return {errc::invalid_argument, std::string{address} + ": its lanes have more than " +
                                        std::to_string(tap_lane_size_max) + " bytes"};
  if (found->geometry.message_limit < longest)
    return {errc::invalid_argument, std::string{address} + ": its message_limit is below " +
                                        std::to_string(longest) + " bytes"};
  return {};
}

}  // namespace

result<std::unique_ptr<tap_lane>> open_tap_lane(std::string_view address, std::size_t longest) {
  if (!is_tap_address(address))
    return error{errc::invalid_argument, "a tap needs an address such as " +
                                             std::string{tap_prefix} +
                                             "7f3a: small letters, digits and - at its end"};
  if (error bad = check_segment(address, longest); !bad)
    return bad;
  result<sender> out = sender::open(address);
  if (!out)
    return out.error();
  return std::unique_ptr<tap_lane>{
      std::make_unique<shared_memory_tap>(name_of(address), std::move(*out))};
}

}  // namespace atbus::detail
