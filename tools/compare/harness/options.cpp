#include "harness/options.h"

#include <functional>
#include <map>
#include <stdexcept>
#include <string_view>

#include "atbus/bench/request_body.h"

namespace atbus::compare {
namespace {

const std::map<std::string_view, role> roles{
    {"receive", role::receive}, {"send", role::send}, {"pong", role::pong},   {"ping", role::ping},
    {"hold", role::hold},       {"both", role::both}, {"serve", role::serve}, {"ask", role::ask}};

role parse_role(const std::string& name) {
  const auto found = roles.find(name);
  if (found == roles.end()) {
    throw std::runtime_error("--role: \"" + name + "\" is none");
  }
  return found->second;
}

// What holds for every adapter; what depends on the system is its own business.
void require_sense(const options& all) {
  const bool fixed = all.bytes_min == all.bytes_max;
  if (all.bytes_max % 8 != 0 || all.bytes_max == 0 || (!fixed && all.bytes_min != 8)) {
    throw std::runtime_error("lengths are multiples of 8, one or from 8 on");
  }
  if ((all.paced || all.rate > 0) && (!fixed || all.bytes_min < 16)) {
    throw std::runtime_error("paced messages have one length and room for two words");
  }
  if (all.in_flight == 0 || all.delay_min_us < 0 || all.delay_max_us < all.delay_min_us) {
    throw std::runtime_error("--in-flight is 1 at least, --delay-max (us) not below --delay-min");
  }
  if (all.fan_out != 0 && all.bytes_max < bench::request_body::shortest) {
    throw std::runtime_error("the body of a request with a fan-out is JSON: too few --bytes-max");
  }
  if (all.address.empty()) {
    throw std::runtime_error("--address is missing");
  }
}

}  // namespace

options parse_options(int argc, char** argv) {
  options all;
  const std::map<std::string_view, std::function<void(const std::string&)>> with_value{
      {"--role", [&](const std::string& v) { all.what = parse_role(v); }},
      {"--address", [&](const std::string& v) { all.address = v; }},
      {"--reply-address", [&](const std::string& v) { all.reply_address = v; }},
      {"--variant", [&](const std::string& v) { all.variant = v; }},
      {"--bytes-min", [&](const std::string& v) { all.bytes_min = std::stoull(v); }},
      {"--bytes-max", [&](const std::string& v) { all.bytes_max = std::stoull(v); }},
      {"--seconds", [&](const std::string& v) { all.seconds = std::stod(v); }},
      {"--warm-up", [&](const std::string& v) { all.warm_up = std::stod(v); }},
      {"--rate", [&](const std::string& v) { all.rate = std::stod(v); }},
      {"--sender", [&](const std::string& v) { all.sender = std::stoull(v); }},
      {"--senders", [&](const std::string& v) { all.senders = std::stoull(v); }},
      {"--pause-after", [&](const std::string& v) { all.pause_after = std::stod(v); }},
      {"--patience", [&](const std::string& v) { all.patience = std::stod(v); }},
      {"--in-flight", [&](const std::string& v) { all.in_flight = std::stoull(v); }},
      {"--fan-out", [&](const std::string& v) { all.fan_out = std::stoull(v); }},
      {"--delay-min", [&](const std::string& v) { all.delay_min_us = std::stoll(v); }},
      {"--delay-max", [&](const std::string& v) { all.delay_max_us = std::stoll(v); }},
      {"--pause-for", [&](const std::string& v) { all.pause_for = std::stod(v); }},
  };
  const std::map<std::string_view, bool*> flags{
      {"--paced", &all.paced}, {"--blocking", &all.blocking}, {"--claim", &all.claim}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (const auto flag = flags.find(name); flag != flags.end()) {
      *flag->second = true;
    } else if (const auto value = with_value.find(name);
               value != with_value.end() && i + 1 < argc) {
      value->second(argv[++i]);
    } else {
      throw std::runtime_error("unknown or incomplete option " + std::string{name});
    }
  }
  require_sense(all);
  return all;
}

}  // namespace atbus::compare
