// What a DNS message says: the records that directories use, of an answer to one question. The message comes
// from the network and may hold anything.
//
// Pure functions.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atbus/bytes.hpp"

namespace atbus::detail {

// RFC 1035, RFC 3596, RFC 2782
enum class dns_type : std::uint16_t { a = 1, txt = 16, aaaa = 28, srv = 33 };

struct dns_answer {
  struct target {
    std::string name{};  // of a host, in lower case
    std::uint16_t port = 0;
  };
  struct host {
    std::string name{};     // in lower case
    std::string address{};  // as text, without brackets
    bool is_ipv6 = false;
  };

  // How long the answer may be used, by its records; of an answer without records, by RFC 2308.
  std::chrono::seconds life{0};
  std::vector<target> targets{};  // SRV
  std::vector<host> hosts{};      // A and AAAA of the answer
  std::vector<host>
      more_hosts{};  // those that came along with it, for its targets; in the order of names
  std::vector<std::string> texts{};  // TXT, each string on its own
  std::size_t left_out = 0;  // addresses of the answer, and strings, beyond what a record may have
};

// Nothing: the bytes are no DNS message.
[[nodiscard]] std::optional<dns_answer> read_dns_answer(bytes_view message);

}  // namespace atbus::detail
