#include "receiver_scenario.h"

#include "sender_scenario.h"

namespace atbus::test {
namespace {

const std::vector<receiver_scenario>& receiver_ways() {
  using enum step;
  using enum receiver_script;
  static const std::vector<receiver_scenario> all{
      {handling_stored, 1, run, 1},
      {handling_stored, 7, run, 1},
      {handler_returned, 1, run, 1},
      {handler_returned, 7, run, 1},
      {done_stored, 1, run},
      {done_stored, 7, run},
      {before_head, 1, run},
      {before_head, 5, run},
      {after_head, 1, run},
      {after_head, 5, run},
      {lanes_parked, 1, run},
      {lanes_parked, 3, run},
      {sleeping_stored, 1, run},
      {sleeping_stored, 3, run},
      {sleep_checked, 1, run},
      {sleep_checked, 3, run},
      {woken, 1, run},
      {woken, 3, run},
      {segment_built, 1, make},
      {receiver_locked, 1, make},
      {segment_linked, 1, make},
      {bell_bound, 1, make},
      {generation_stored, 1, make},
      {receiver_locked, 1, take_over},
      {bell_bound, 1, take_over},
      {generation_stored, 1, take_over},
      {speaker_copied, 1, take_over},
      {handling_stored, 1, take_over, 1},
      {handler_returned, 1, take_over, 1},
      {before_head, 1, take_over},
      {after_head, 1, take_over},
      {speaker_copied, 1, run},
      {orphan_locked, 1, orphan},
      {orphan_released, 1, orphan},
      {retired_stored, 1, remove},
      {name_unlinked, 1, remove},
  };
  return all;
}

}  // namespace

std::vector<receiver_scenario> receiver_scenarios() {
  std::vector<receiver_scenario> all = receiver_ways();
  for (std::size_t i = 0; i < step_count; ++i) {
    const step at = static_cast<step>(i);
    if (is_receiver_step(at) &&
        std::none_of(all.begin(), all.end(), [at](const auto& w) { return w.at == at; })) {
      all.push_back({.at = at});
    }
  }
  return all;
}

std::string scenario_name(const ::testing::TestParamInfo<receiver_scenario>& info) {
  static constexpr std::array names{"none", "make", "take_over", "run", "orphan", "remove"};
  const receiver_scenario& s = info.param;
  return std::string{name_of(s.at)} + "_" + std::to_string(s.nth) + "_" +
         names[static_cast<std::size_t>(s.script)];
}

}  // namespace atbus::test
