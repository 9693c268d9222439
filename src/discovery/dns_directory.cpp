// A directory of what DNS says of hosts and services.
#include <algorithm>
#include <new>
#include <random>
#include <utility>

#include "atbus/clock.hpp"
#include "atbus/dns.hpp"
#include "discovery/dns_records.h"
#include "discovery/dns_resolver.h"

namespace atbus {
namespace detail {
namespace {

constexpr std::size_t under_way_max = 64;  // questions at a time
constexpr std::chrono::nanoseconds pause_min = std::chrono::milliseconds{500};
constexpr std::chrono::nanoseconds pause_max = std::chrono::seconds{30};
constexpr std::chrono::nanoseconds memory_pause = std::chrono::milliseconds{10};

class asking_directory final : public dns_directory {
 public:
  explicit asking_directory(const dns_options& options)
      : options_(options),
        resolver_(join(options.servers), options.timeout,
                  [this](const dns_question& question, result<dns_answer> answer) {
                    take(question, std::move(answer));
                  }) {}

  error open() { return resolver_.open(); }

  [[nodiscard]] std::vector<std::string> lookup(bus_id id) override {
    const directory_record* const known = nodes_.find(id);
    return known != nullptr ? known->addresses : std::vector<std::string>{};
  }
  [[nodiscard]] std::optional<directory_record> find(bus_id id) override {
    const directory_record* const known = nodes_.find(id);
    if (known == nullptr)
      return std::nullopt;
    std::optional<directory_record> copy{*known};
    copy->age = now() - confirmed_.at(id.value());
    return copy;
  }
  [[nodiscard]] std::vector<bus_id> members(std::string_view service) override {
    return nodes_.members(service);
  }
  watch_id watch(std::function<void(bus_id)> changed) override {
    return nodes_.watch(std::move(changed));
  }
  watch_id watch_members(std::string service, std::function<void()> changed) override {
    return nodes_.watch_members(std::move(service), std::move(changed));
  }
  void unwatch(watch_id which) override { nodes_.unwatch(which); }
  error announce(const directory_record& /*record*/) override { return nobody_writes(); }
  error withdraw(bus_id /*id*/) override { return nobody_writes(); }
  [[nodiscard]] int descriptor() const noexcept override { return resolver_.descriptor(); }
  error poll() override;
  [[nodiscard]] dns_stats stats() const override {
    dns_stats now = stats_;
    now.records = nodes_.size();
    return now;
  }

 private:
  [[nodiscard]] static std::string join(const std::vector<std::string>& servers) {
    std::string all;
    for (const std::string& one : servers)
      all += (all.empty() ? "" : ",") + one;
    return all;
  }
  [[nodiscard]] static error nobody_writes() {
    return {errc::not_supported, "nodes don't write into DNS; its operators do"};
  }

  void take(const dns_question& question, result<dns_answer> answer);
  [[nodiscard]] std::chrono::nanoseconds pause_after(unsigned failures);
  void keep_addresses(const dns_topic& of, const dns_answer& fresh);
  void rebuild();
  void ask_what_is_due();
  [[nodiscard]] error problem();

  const dns_options options_;
  dns_resolver resolver_;
  dns_topics topics_;
  record_table nodes_;
  std::unordered_map<std::uint64_t, std::chrono::nanoseconds> confirmed_;
  dns_stats stats_;
  error left_out_;  // what of the answers can't be used
  std::optional<dns_question> failing_;
  bool news_ = true;   // an answer came since rebuild()
  bool deaf_ = false;  // a question had no answer since it asked anew
  std::minstd_rand random_{std::random_device{}()};
};

error asking_directory::poll() {
  if (resolver_.is_in_child())
    return error{errc::used_after_fork};
  try {
    resolver_.drive();
    do {
      if (news_) {
        rebuild();
        news_ = false;
      }
      ask_what_is_due();
    } while (news_);  // some questions are answered at once
    nodes_.tell_changed();
    return problem();
  } catch (const std::bad_alloc&) {
    resolver_.wake_at(moment_after(now(), memory_pause));  // what was not done is done then
    return error{errc::out_of_memory};
  }
}

void asking_directory::take(const dns_question& question, result<dns_answer> answer) {
  const auto found = topics_.find(question);
  if (found == topics_.end())
    return;
  dns_topic& topic = found->second;
  topic.is_under_way = false;
  const std::chrono::nanoseconds at = now();
  ++(answer ? stats_.answers : stats_.failures);
  if (answer) {
    if (topic.answer)
      keep_addresses(topic, *answer);
    const auto life =
        std::clamp<std::chrono::nanoseconds>(answer->life, options_.at_least, options_.at_most);
    topic = {.answer = *std::move(answer), .answered = at, .due = moment_after(at, life)};
    news_ = true;
  } else {
    topic.problem = answer.error();
    const bool is_ours = answer.error() == errc::out_of_memory;
    topic.due = moment_after(at, is_ours ? memory_pause : pause_after(topic.failures));
    ++topic.failures;
    deaf_ = true;
  }
}

// Twice as long each time; many nodes do not ask in step.
std::chrono::nanoseconds asking_directory::pause_after(unsigned failures) {
  const auto pause = std::min(pause_min * (1u << std::min(failures, 10u)), pause_max);
  return pause / 2 + std::chrono::nanoseconds{std::uniform_int_distribution<std::int64_t>{
                         0, pause.count() / 2}(random_)};
}

// A server may send a target's addresses along once, and not with its next answer. Then the old ones stay until the
// questions for them are answered.
void asking_directory::keep_addresses(const dns_topic& of, const dns_answer& fresh) {
  const auto came_along = [](const dns_answer& with, const std::string& name) {
    return std::ranges::binary_search(with.more_hosts, name, {}, &dns_answer::host::name);
  };
  for (const dns_answer::target& target : fresh.targets) {
    if (came_along(fresh, target.name) || !came_along(*of.answer, target.name))
      continue;
    for (const dns_type type : {dns_type::a, dns_type::aaaa}) {
      dns_topic& topic = topics_[{target.name, type}];
      if (topic.answer)
        continue;
      dns_answer kept;
      for (const dns_answer::host& host : of.answer->more_hosts) {
        if (host.name == target.name && host.is_ipv6 == (type == dns_type::aaaa))
          kept.hosts.push_back(host);
      }
      topic.answer = std::move(kept);
      topic.answered = of.answered;
    }
  }
}

// Either all of it happens or, without memory, nothing that is seen.
void asking_directory::rebuild() {
  dns_records fresh = make_dns_records(options_, topics_);
  error left_out;
  if (fresh.left_out != 0) {
    left_out = {errc::invalid_argument, "DNS: " + std::to_string(fresh.left_out) +
                                            " records, such as of " + fresh.example +
                                            ", are left out: " + fresh.reason};
  }
  for (const dns_question& question : fresh.questions)
    topics_.try_emplace(question);
  std::ranges::sort(fresh.questions);
  std::erase_if(topics_, [&](const auto& one) {
    return !std::ranges::binary_search(fresh.questions, one.first);
  });
  nodes_.replace_all(std::move(fresh.nodes));
  confirmed_ = std::move(fresh.confirmed);
  left_out_ = std::move(left_out);
  stats_.left_out = fresh.left_out;
}

void asking_directory::ask_what_is_due() {
  const std::chrono::nanoseconds at = now();
  auto next = std::chrono::nanoseconds::max();
  if (deaf_ && resolver_.under_way() == 0) {
    deaf_ = false;
    resolver_.begin_anew();
  }
  std::vector<std::pair<const dns_question*, dns_topic*>> due;
  for (auto& [question, topic] : topics_) {
    if (topic.is_under_way)
      continue;
    if (topic.due > at) {
      next = std::min(next, topic.due);
    } else if (resolver_.under_way() + due.size() < under_way_max) {
      due.emplace_back(&question, &topic);
    }
  }
  for (const auto& [question, topic] : due) {
    topic->is_under_way = true;
    try {
      resolver_.ask(*question);
    } catch (const std::bad_alloc&) {
      topic->is_under_way = false;
      throw;
    }
    ++stats_.questions;
  }
  resolver_.wake_at(next);
}

// Of several it names the same one for as long as that fails.
error asking_directory::problem() {
  const auto fails = [](const auto& one) { return one.second.failures != 0; };
  auto named = failing_ ? topics_.find(*failing_) : topics_.end();
  if (named == topics_.end() || !fails(*named))
    named = std::ranges::find_if(topics_, fails);
  if (named == topics_.end()) {
    failing_.reset();
    return left_out_;
  }
  failing_ = named->first;
  const dns_topic& topic = named->second;
  return topic.problem.with_text(
      "DNS: " + std::string{topic.problem.text()} +
      (topic.answer ? "; until then what was known before is used" : ""));
}

error bad(std::string text) {
  return {errc::invalid_argument, "dns_options::" + std::move(text)};
}

// RFC 1035: at most 255 bytes, labels of 1 to 63.
bool is_name(std::string_view name) {
  constexpr std::size_t name_max = 253;
  constexpr std::size_t label_max = 63;
  if (name.ends_with('.'))
    name.remove_suffix(1);
  if (name.empty() || name.size() > name_max)
    return false;
  std::size_t label = 0;
  for (const char c : name) {
    label = c == '.' ? 0 : label + 1;
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!allowed || label > label_max)
      return false;
  }
  return !name.starts_with('.') && name.find("..") == name.npos;
}

error check(const dns_options& options) {
  constexpr std::chrono::milliseconds timeout_max = std::chrono::minutes{1};
  for (const dns_host& one : options.hosts) {
    if (one.id.value() == 0 || one.port == 0 || !is_name(one.name))
      return bad("hosts: " + one.name + ": it needs an id, a port and the name of a host");
  }
  for (const dns_service& one : options.services) {
    if (!is_name(one.name) || (!one.first_id && !one.texts))
      return bad("services: " + one.name + ": it needs a name, and first_id or texts");
  }
  if (options.hosts.empty() && options.services.empty())
    return bad("hosts and services are empty: there is nothing to ask");
  for (const std::string& one : options.servers) {
    if (one.empty() || one.find(',') != one.npos)
      return bad("servers must be of the form address:port");
  }
  if (options.timeout < std::chrono::milliseconds{1} || options.timeout > timeout_max)
    return bad("timeout must be 1 ms to 1 min");
  if (options.at_least < std::chrono::milliseconds{1} || options.at_most < options.at_least)
    return bad("at_least must be 1 ms or more, and at most at_most");
  return {};
}

}  // namespace
}  // namespace detail

result<std::shared_ptr<dns_directory>> dns_directory::open(const dns_options& options) {
  if (error bad = detail::check(options); !bad)
    return bad;
  try {
    auto made = std::make_shared<detail::asking_directory>(options);
    if (error bad = made->open(); !bad)
      return bad;
    return std::shared_ptr<dns_directory>{std::move(made)};
  } catch (const std::bad_alloc&) {
    return error{errc::out_of_memory};
  }
}

}  // namespace atbus
