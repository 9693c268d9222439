#include "sender_scenario.h"

namespace atbus::test {
namespace {

constexpr std::uint32_t talk_messages = 40;
constexpr std::uint32_t fill_messages = 30;

struct way {
  step at;
  sender_script script;
  std::vector<std::uint32_t> nth;
};

const std::vector<way>& sender_ways() {
  using enum step;
  using enum sender_script;
  static const std::vector<way> all{
      {padding_written, talk, {1, 2}},
      // The first record is the one that announces the sender.
      {record_written, talk, {1, 2, 9}},
      {before_tail, talk, {1, 2, 9}},
      {after_tail, talk, {1, 2, 9}},
      {ready_bit_set, talk, {1, 2, 3}},
      {before_ring, talk, {1, 2, 3}},
      {after_ring, talk, {1, 2, 3}},
      {after_tail, wake, {36}},
      {ready_bit_set, wake, {35}},
      {before_ring, wake, {35}},
      {after_ring, wake, {35}},
      {fence_echo_stored, wake, {1}},
      {request_stored, fill, {1}},
      {request_checked, fill, {1}},
      {lane_locked, talk, {1}},
      {lane_reserved, talk, {1}},
      {open_record_published, talk, {1}},
      // In take_back_race_test.cpp: here is always a receiver.
      {withdrawn_set, take_back, {}},
      {withdrawn_asked, take_back, {}},
      {withdrawn_cut, take_back, {}},
  };
  return all;
}

}  // namespace

bool is_receiver_step(step s) {
  return s >= step::handling_stored && !is_switch_step(s);
}

std::vector<sender_scenario> sender_scenarios() {
  std::vector<sender_scenario> all;
  for (std::size_t i = 0; i < step_count; ++i) {
    const step at = static_cast<step>(i);
    if (is_receiver_step(at) || is_switch_step(at))
      continue;
    bool known = false;
    for (const way& each : sender_ways()) {
      if (each.at != at)
        continue;
      known = true;
      for (const std::uint32_t nth : each.nth) {
        for (const bool restart : {false, true}) {
          all.push_back(
              {.at = at,
               .nth = nth,
               .script = each.script,
               .restart = restart,
               .messages = each.script == sender_script::fill ? fill_messages : talk_messages});
        }
      }
    }
    if (!known)
      all.push_back({.at = at});
  }
  return all;
}

std::string sender_scenario_name(const ::testing::TestParamInfo<sender_scenario>& info) {
  const sender_scenario& s = info.param;
  return std::string{name_of(s.at)} + "_" + std::to_string(s.nth) + (s.restart ? "_restart" : "");
}

child_process start_victim(drill& world, std::uint32_t role, const sender_scenario& s) {
  if (s.script == sender_script::wake) {
    return world.start_sender(role, [&world, role, count = s.messages](sender& out) {
      for (std::uint32_t i = 0; i != count; ++i) {
        require(world.wait_all_arrived(role), "the one before never arrived");
        world.talk(out, role, 1, 1);
      }
    });
  }
  const std::uint32_t each = s.script == sender_script::fill ? s.messages + 1 : 4;
  return world.start_sender(role, [&world, role, count = s.messages, each](sender& out) {
    world.talk(out, role, count, each);
  });
}

}  // namespace atbus::test
