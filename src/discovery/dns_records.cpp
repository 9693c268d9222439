#include "discovery/dns_records.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "discovery/record_text.h"

namespace atbus::detail {
namespace {

constexpr std::string_view too_much = "a node has at most 16 addresses, 256 services and 64 labels";

class record_maker {
 public:
  record_maker(const dns_options& options, const dns_topics& known)
      : options_(options), known_(known) {}

  dns_records make() && {
    for (const dns_host& one : options_.hosts)
      take_host(one);
    for (const dns_service& one : options_.services)
      take_service(one);
    for (auto& [id, one] : made_.nodes)
      make_equal_to_others(one);
    // Of a node that can't be dialled there is nothing to tell.
    std::erase_if(made_.nodes, [](const auto& one) { return one.second.addresses.empty(); });
    return std::move(made_);
  }

 private:
  using time = std::chrono::nanoseconds;

  // Null: no answer yet. The question is asked from now on.
  const dns_topic* ask(const std::string& name, dns_type type) {
    dns_question question{name, type};
    const auto found = known_.find(question);
    made_.questions.push_back(std::move(question));
    return found != known_.end() && found->second.answer ? &found->second : nullptr;
  }

  directory_record& record(bus_id id, time confirmed) {
    const auto [known, fresh] = made_.confirmed.emplace(id.value(), confirmed);
    if (!fresh)
      known->second = std::min(known->second, confirmed);
    directory_record& one = made_.nodes[id.value()];
    one.id = id;
    return one;
  }
  void add(directory_record& to, const dns_answer::host& host, std::uint16_t port) {
    if (to.addresses.size() == record_addresses_max)
      return leave_out(host.name, 1, too_much);
    to.addresses.push_back(
        (host.is_ipv6 ? "ipv6://[" + host.address + "]" : "ipv4://" + host.address) + ":" +
        std::to_string(port));
  }
  void add(directory_record& to, const std::string& service, const std::string& host) {
    const bool is_name = !service.empty() && service.size() <= service_name_max &&
                         std::ranges::all_of(service, [](char c) { return c >= ' ' && c <= '~'; });
    if (!is_name)
      return leave_out(host, 1, "the name of a service has 1 to 128 printable characters");
    if (std::ranges::find(to.services, service) != to.services.end())
      return;
    if (to.services.size() == record_services_max)
      return leave_out(host, 1, too_much);
    to.services.push_back(service);
  }
  // What the answer had more of than a record may have.
  void count(const dns_answer& answer, const std::string& host) {
    if (answer.left_out != 0)
      leave_out(host, answer.left_out, too_much);
  }
  // Servers give records in any order.
  static void make_equal_to_others(directory_record& one) {
    for (std::vector<std::string>* const list : {&one.addresses, &one.services}) {
      std::ranges::sort(*list);
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
  }

  void take_host(const dns_host& one) {
    for (const dns_type type : {dns_type::a, dns_type::aaaa}) {
      if (const dns_topic* const topic = ask(one.name, type)) {
        directory_record& node = record(one.id, topic->answered);
        for (const std::string& service : one.services)
          add(node, service, one.name);
        count(*topic->answer, one.name);
        for (const dns_answer::host& host : topic->answer->hosts)
          add(node, host, one.port);
      }
    }
  }

  void take_service(const dns_service& one) {
    const dns_topic* const topic = ask(one.name, dns_type::srv);
    if (topic == nullptr)
      return;
    std::size_t taken = 0;
    for (const dns_answer::target& target : topic->answer->targets) {
      if (++taken <= dns_targets_max)
        take_target(one, *topic, target);
      else
        leave_out(target.name, 1,
                  "a service has at most " + std::to_string(dns_targets_max) + " targets");
    }
  }

  void take_target(const dns_service& of, const dns_topic& topic,
                   const dns_answer::target& target) {
    const dns_topic* const texts = of.texts ? ask(target.name, dns_type::txt) : nullptr;
    if (of.texts && texts == nullptr)
      return;  // it may be another node's
    std::optional<bus_id> id = texts != nullptr ? id_in(texts->answer->texts) : std::nullopt;
    if (!id)
      id = id_by_number(of, target.name);
    if (!id)
      return leave_out(target.name, 1, "their names end in no number, or no id is given for that");
    directory_record& node = record(*id, topic.answered);
    for (const std::string& service : of.services)
      add(node, service, target.name);
    if (texts != nullptr) {
      count(*texts->answer, target.name);
      take_texts(texts->answer->texts, target.name, node);
    }
    take_addresses(topic, target, node);
  }

  // Many servers send the targets' addresses along: then one question does for all.
  void take_addresses(const dns_topic& topic, const dns_answer::target& target,
                      directory_record& node) {
    const std::vector<dns_answer::host>& more = topic.answer->more_hosts;
    const auto first = std::ranges::lower_bound(more, target.name, {}, &dns_answer::host::name);
    auto one = first;
    for (; one != more.end() && one->name == target.name; ++one)
      add(node, *one, target.port);
    if (one != first)
      return;
    for (const dns_type type : {dns_type::a, dns_type::aaaa}) {
      if (const dns_topic* const of_host = ask(target.name, type)) {
        record(node.id, of_host->answered);
        count(*of_host->answer, target.name);
        for (const dns_answer::host& host : of_host->answer->hosts)
          add(node, host, target.port);
      }
    }
  }

  void leave_out(const std::string& of, std::size_t count, std::string_view reason) {
    made_.left_out += count;
    if (made_.reason.empty()) {
      made_.example = of;
      made_.reason = reason;
    }
  }

  [[nodiscard]] static std::optional<bus_id> id_by_number(const dns_service& of,
                                                          std::string_view host) {
    const std::optional<std::uint64_t> number = number_of_host(host);
    if (!of.first_id || !number ||
        *number > std::numeric_limits<std::uint64_t>::max() - of.first_id->value()) {
      return std::nullopt;
    }
    const bus_id id{of.first_id->value() + *number};
    return id.value() != 0 ? std::optional{id} : std::nullopt;
  }
  [[nodiscard]] static std::optional<bus_id> id_in(const std::vector<std::string>& texts) {
    constexpr std::string_view begin = "id=";
    for (const std::string_view one : texts) {
      if (!one.starts_with(begin))
        continue;
      const result<bus_id> id = bus_id::parse(one.substr(begin.size()));
      return id && id->value() != 0 ? std::optional{*id} : std::nullopt;
    }
    return std::nullopt;
  }
  void take_texts(const std::vector<std::string>& texts, const std::string& host,
                  directory_record& to) {
    for (const std::string_view one : texts) {
      const std::size_t sign = one.find('=');
      if (sign == one.npos || sign == 0)
        continue;
      std::string name{one.substr(0, sign)};
      std::string text{one.substr(sign + 1)};
      if (name == "service")
        add(to, text, host);
      else if (to.labels.size() == record_labels_max && !to.labels.contains(name))
        leave_out(host, 1, too_much);
      else if (name != "id")
        to.labels.insert_or_assign(std::move(name), std::move(text));
    }
  }

  const dns_options& options_;
  const dns_topics& known_;
  dns_records made_;
};

}  // namespace

dns_records make_dns_records(const dns_options& options, const dns_topics& known) {
  return record_maker{options, known}.make();
}

std::optional<std::uint64_t> number_of_host(std::string_view name) {
  const std::string_view label = name.substr(0, name.find('.'));
  const std::size_t before = label.find_last_not_of("0123456789");
  const std::string_view digits = before == label.npos ? label : label.substr(before + 1);
  std::uint64_t number = 0;
  const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return !digits.empty() && bad == std::errc{} ? std::optional{number} : std::nullopt;
}

}  // namespace atbus::detail
