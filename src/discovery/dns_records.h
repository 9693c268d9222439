// Which questions tell about the nodes of dns_options, and which records their answers make. Knows no network.
//
// One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "atbus/dns.hpp"
#include "discovery/dns_answer.h"
#include "discovery/dns_question.h"
#include "node/directory/record_table.h"

namespace atbus::detail {

// What is known of one question.
struct dns_topic {
  // The last answer; none: there was none yet.
  std::optional<dns_answer> answer{};
  // When it came.
  std::chrono::nanoseconds answered{0};
  // When to ask again.
  std::chrono::nanoseconds due{0};
  bool is_under_way = false;
  // Attempts without an answer since then.
  unsigned failures = 0;
  // Why the last of them failed.
  error problem{};
};

using dns_topics = std::map<dns_question, dns_topic>;

struct dns_records {
  record_table::records nodes;
  // By id: when the oldest of the answers came that tell about it.
  std::unordered_map<std::uint64_t, std::chrono::nanoseconds> confirmed;
  // What the answers lead to: all questions that are worth asking now.
  std::vector<dns_question> questions;
  // What can't be used, such as targets without an id; whose the first of it is, and why.
  std::size_t left_out = 0;
  std::string example;
  std::string reason;
};

[[nodiscard]] dns_records make_dns_records(const dns_options& options, const dns_topics& known);

// The number at the end of the first label of a host's name: 7 for relay-7.fleet.example.
[[nodiscard]] std::optional<std::uint64_t> number_of_host(std::string_view name);

}  // namespace atbus::detail
