// What a DNS server is asked.
#pragma once

#include <compare>
#include <string>

#include "discovery/dns_answer.h"

namespace atbus::detail {

struct dns_question {
  std::string name;
  dns_type type;

  friend auto operator<=>(const dns_question&, const dns_question&) = default;
};

}  // namespace atbus::detail
