// A DNS server's answer of any bytes: each record that is made of it has an id and addresses that are valid.
//
// Input: an answer to an SRV question.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "atbus/address.hpp"
#include "discovery/dns_records.h"

namespace {

void require(bool held) {
  if (!held)
    std::abort();  // how libFuzzer learns of a broken promise
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace atbus;
  std::optional<detail::dns_answer> answer =
      detail::read_dns_answer(std::as_bytes(std::span{data, size}));
  if (!answer)
    return 0;
  require(answer->life >= std::chrono::seconds{0});
  detail::dns_topics known;
  // The same bytes for the texts and addresses of each target.
  for (const auto& target : answer->targets) {
    for (const detail::dns_type type :
         {detail::dns_type::a, detail::dns_type::aaaa, detail::dns_type::txt})
      known[{target.name, type}].answer = *answer;
  }
  known[{"_atbus._tcp.test", detail::dns_type::srv}].answer = *std::move(answer);
  const dns_options options{.services = {{.name = "_atbus._tcp.test", .first_id = 7, .texts = true},
                                         {.name = "_atbus._tcp.test", .first_id = 7}}};
  const detail::dns_records made = detail::make_dns_records(options, known);
  require(made.questions.size() <= 2 + 2 * 3 * dns_targets_max);
  for (const auto& [id, one] : made.nodes) {
    require(id != 0 && one.id.value() == id && !one.addresses.empty() &&
            made.confirmed.contains(id));
    for (const std::string& each : one.addresses)
      require(static_cast<bool>(address::parse(each)));
  }
  return 0;
}
