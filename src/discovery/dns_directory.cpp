// A directory of what DNS says of hosts and services.
#include <algorithm>
#include <array>
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
    const auto life =
        std::clamp<std::chrono::nanoseconds>(answer->life, options_.at_least, options_.at_most);
    topic = {.answer = *std::move(answer), .answered = at, .due = moment_after(at, life)};
    news_ = true;
  } else {
    topic.problem = answer.error();
    topic.due = moment_after(at, pause_after(topic.failures++));
    deaf_ = true;
  }
}

// Twice as long each time; many nodes do not ask in step.
std::chrono::nanoseconds asking_directory::pause_after(unsigned failures) {
  const auto pause = std::min(pause_min * (1u << std::min(failures, 10u)), pause_max);
  return pause / 2 + std::chrono::nanoseconds{std::uniform_int_distribution<std::int64_t>{
                         0, pause.count() / 2}(random_)};
}

void asking_directory::rebuild() {
  dns_records fresh = make_dns_records(options_, topics_);
  dns_topics wanted;
  for (dns_question& question : fresh.questions) {
    if (auto known = topics_.extract(question))
      wanted.insert(std::move(known));
    else
      wanted.emplace(std::move(question), dns_topic{});
  }
  topics_ = std::move(wanted);
  left_out_ = {};
  stats_.left_out = fresh.without_id + fresh.too_many;
  if (stats_.left_out > 0) {
    left_out_ = {
        errc::invalid_argument,
        "DNS: " + std::to_string(stats_.left_out) + " targets, such as " + fresh.example +
            ", are left out: " +
            (fresh.without_id > 0 ? "their names end in no number, or no id is given for that"
                                  : "a service has at most " + std::to_string(dns_targets_max))};
  }
  confirmed_ = std::move(fresh.confirmed);
  nodes_.replace_all(std::move(fresh.nodes));
}

void asking_directory::ask_what_is_due() {
  const std::chrono::nanoseconds at = now();
  auto next = std::chrono::nanoseconds::max();
  if (deaf_ && resolver_.under_way() == 0) {
    deaf_ = false;
    resolver_.begin_anew();
  }
  std::vector<dns_question> due;
  for (auto& [question, topic] : topics_) {
    if (topic.is_under_way)
      continue;
    if (topic.due > at) {
      next = std::min(next, topic.due);
    } else if (resolver_.under_way() + due.size() < under_way_max) {
      topic.is_under_way = true;
      due.push_back(question);
    }
  }
  for (const dns_question& question : due)
    resolver_.ask(question);
  stats_.questions += due.size();
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
  auto made = std::make_shared<detail::asking_directory>(options);
  if (error bad = made->open(); !bad)
    return bad;
  return std::shared_ptr<dns_directory>{std::move(made)};
}

}  // namespace atbus
