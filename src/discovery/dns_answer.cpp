#include "discovery/dns_answer.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netinet/in.h>
#include <resolv.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <unordered_set>

#include "discovery/record_text.h"

namespace atbus::detail {
namespace {

constexpr std::chrono::seconds life_without_records{5};
constexpr std::size_t texts_max = record_services_max + record_labels_max + 1;  // and an id

std::string in_lower_case(const char* text) {
  std::string made{text};
  std::ranges::transform(made, made.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return made;
}

class answer_reader {
 public:
  explicit answer_reader(ns_msg& message) noexcept : message_(message) {}

  [[nodiscard]] bool read() {
    if (!each(ns_s_an, [this](const ns_rr& one) { return take(one, all_.hosts); }))
      return false;
    const bool has_records = life_ != std::numeric_limits<std::uint32_t>::max();
    if (!has_records)
      life_ = static_cast<std::uint32_t>(life_without_records.count());
    if (!each(ns_s_ns, [&](const ns_rr& one) { return has_records || take_absence(one); }))
      return false;
    if (has_records && !each(ns_s_ar, [this](const ns_rr& one) { return take_more(one); }))
      return false;
    all_.life = std::chrono::seconds{life_};
    std::ranges::sort(all_.more_hosts, {}, &dns_answer::host::name);
    return true;
  }
  [[nodiscard]] dns_answer& all() noexcept { return all_; }

 private:
  template <class Take>
  [[nodiscard]] bool each(ns_sect section, const Take& take) {
    for (int at = 0; at < ns_msg_count(message_, section); ++at) {
      ns_rr one;
      if (ns_parserr(&message_, section, at, &one) != 0)
        return false;
      if (ns_rr_class(one) == ns_c_in && !take(one))
        return false;
    }
    return true;
  }

  [[nodiscard]] bool take(const ns_rr& one, std::vector<dns_answer::host>& hosts) {
    life_ = std::min(life_, static_cast<std::uint32_t>(ns_rr_ttl(one)));
    switch (ns_rr_type(one)) {
      case ns_t_a:
        return take_address<in_addr>(one, AF_INET, hosts);
      case ns_t_aaaa:
        return take_address<in6_addr>(one, AF_INET6, hosts);
      case ns_t_srv:
        return take_target(one);
      case ns_t_txt:
        return take_texts(one);
      default:
        return true;  // such as the CNAME that led to the others
    }
  }
  [[nodiscard]] bool take_more(const ns_rr& one) {
    const bool is_address = ns_rr_type(one) == ns_t_a || ns_rr_type(one) == ns_t_aaaa;
    // Others belong to EDNS or to the server itself, with times of their own.
    if (!is_address || !target_names_.contains(in_lower_case(ns_rr_name(one))))
      return true;
    return take(one, all_.more_hosts);
  }

  template <class Address>
  [[nodiscard]] bool take_address(const ns_rr& one, int family,
                                  std::vector<dns_answer::host>& hosts) {
    if (ns_rr_rdlen(one) != sizeof(Address))
      return false;
    if (&hosts == &all_.hosts && hosts.size() == record_addresses_max) {
      ++all_.left_out;
      return true;
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(family, ns_rr_rdata(one), text.data(), text.size());
    hosts.push_back({in_lower_case(ns_rr_name(one)), text.data(), family == AF_INET6});
    return true;
  }

  [[nodiscard]] bool take_target(const ns_rr& one) {
    constexpr int before_name = 6;  // priority, weight, port
    if (ns_rr_rdlen(one) <= before_name)
      return false;
    const unsigned char* const data = ns_rr_rdata(one);
    std::array<char, NS_MAXDNAME> name{};
    if (ns_name_uncompress(ns_msg_base(message_), ns_msg_end(message_), data + before_name,
                           name.data(), name.size()) < 0) {
      return false;
    }
    const auto port = static_cast<std::uint16_t>(ns_get16(data + 4));
    // The root as a target: the service is not there (RFC 2782).
    if (name[0] == '\0' || std::string_view{name.data()} == "." || port == 0)
      return true;
    all_.targets.push_back({in_lower_case(name.data()), port});
    target_names_.insert(all_.targets.back().name);
    return true;
  }

  [[nodiscard]] bool take_texts(const ns_rr& one) {
    std::span<const unsigned char> rest{ns_rr_rdata(one),
                                        static_cast<std::size_t>(ns_rr_rdlen(one))};
    while (!rest.empty()) {
      const std::size_t length = rest[0];
      if (length >= rest.size())
        return false;
      const auto text = rest.subspan(1, length);
      if (all_.texts.size() < texts_max)
        all_.texts.emplace_back(text.begin(), text.end());
      else
        ++all_.left_out;
      rest = rest.subspan(1 + length);
    }
    return true;
  }

  // RFC 2308: the time of the zone's SOA record, or its last number, whichever is less.
  [[nodiscard]] bool take_absence(const ns_rr& one) {
    constexpr std::size_t last_number = 4;
    if (ns_rr_type(one) != ns_t_soa || ns_rr_rdlen(one) < last_number)
      return true;
    const auto minimum =
        static_cast<std::uint32_t>(ns_get32(ns_rr_rdata(one) + ns_rr_rdlen(one) - last_number));
    life_ = std::min(minimum, static_cast<std::uint32_t>(ns_rr_ttl(one)));
    return true;
  }

  ns_msg& message_;
  dns_answer all_;
  std::unordered_set<std::string> target_names_;
  std::uint32_t life_ = std::numeric_limits<std::uint32_t>::max();
};

}  // namespace

std::optional<dns_answer> read_dns_answer(bytes_view message) {
  constexpr std::size_t message_max = 65'535;
  if (message.empty() || message.size() > message_max)
    return std::nullopt;
  ns_msg parsed;
  const auto* const data = reinterpret_cast<const unsigned char*>(message.data());
  if (ns_initparse(data, static_cast<int>(message.size()), &parsed) != 0)
    return std::nullopt;
  answer_reader reader{parsed};
  if (!reader.read())
    return std::nullopt;
  return std::move(reader.all());
}

}  // namespace atbus::detail
