#include "discovery/etcd_client.h"

#include <algorithm>
#include <utility>

#include "atbus/clock.hpp"
#include "core/text.h"

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

// Codes of gRPC.
enum grpc : int {
  grpc_unknown = 2,
  grpc_deadline_exceeded = 4,
  grpc_not_found = 5,
  grpc_permission_denied = 7,
  grpc_resource_exhausted = 8,
  grpc_out_of_range = 11,
  grpc_internal = 13,
  grpc_unavailable = 14,
  grpc_unauthenticated = 16,
};

bool says(const etcd_refusal& refusal, std::string_view words) {
  return refusal.text.find(words) != std::string::npos;
}

bool names_the_token(std::string_view text) {
  return text.find("auth store is old") != text.npos ||
         text.find("user name is empty") != text.npos ||
         text.find("invalid auth token") != text.npos;
}

bool is_about_the_token(int status, const etcd_refusal& refusal) {
  return status == 401 || refusal.code == grpc_unauthenticated || names_the_token(refusal.text);
}

etcd_cause cause_of(int status, const etcd_refusal& refusal) {
  switch (refusal.code) {
    case grpc_unavailable:
    case grpc_deadline_exceeded:
    case grpc_internal:
    case grpc_unknown:
      return etcd_cause::unreachable;
    case grpc_permission_denied:
      return etcd_cause::denied;
    case grpc_out_of_range:
      return etcd_cause::compacted;
    case grpc_not_found:
      return etcd_cause::no_lease;
    case grpc_resource_exhausted:
      return etcd_cause::no_space;
    default:
      break;
  }
  if (is_about_the_token(status, refusal) || says(refusal, "authentication failed"))
    return etcd_cause::denied;
  return status >= 500 ? etcd_cause::unreachable : etcd_cause::refused;
}

std::string names_of(const std::vector<std::string>& servers) {
  const std::string others =
      servers.size() == 1 ? "" : " and " + std::to_string(servers.size() - 1) + " more";
  return in_quotes(servers.front()) + others;
}

}  // namespace

etcd_client::etcd_client(http_loop& loop, const etcd_options& options, etcd_stats& stats,
                         random_pause& pauses)
    : loop_(loop),
      options_(options),
      stats_(stats),
      pauses_(pauses),
      ready_at_(now() + pauses.up_to(options.start_jitter)) {}

std::chrono::nanoseconds etcd_client::next() const noexcept {
  return login_ != 0 ? std::chrono::nanoseconds::max() : ready_at_;
}

void etcd_client::work(std::chrono::nanoseconds now) {
  if (now >= ready_at_ && needs_token() && login_ == 0)
    log_in();
}

http_request etcd_client::request(std::string_view path, std::string body) const {
  std::string url = options_.endpoints[server_];
  if (url.ends_with('/'))
    url.pop_back();
  return {
      .url = url.append(path), .body = std::move(body), .token = token_, .longest = answer_limit};
}

etcd_client::call etcd_client::ask(std::string_view path, std::string body,
                                   std::function<void(etcd_answer)> on_answer) {
  ++stats_.requests;
  return loop_.start(request(path, std::move(body)), nullptr,
                     [this, from = here(), use = std::move(on_answer)](http_end end) {
                       use(judge(std::move(end), from));
                     });
}

etcd_client::call etcd_client::follow(std::string_view path, std::string body,
                                      std::function<void(std::string_view)> on_part,
                                      std::function<void(etcd_answer)> on_end) {
  ++stats_.requests;
  http_request stream = request(path, std::move(body));
  stream.longest = 0ns;
  return loop_.start(std::move(stream), std::move(on_part),
                     [this, from = here(), use = std::move(on_end)](http_end end) {
                       use(judge(std::move(end), from));
                     });
}

void etcd_client::cancel(call& which) noexcept {
  loop_.cancel(std::exchange(which, 0));
}

etcd_answer etcd_client::judge(http_end end, origin from) {
  if (end.status == 200) {
    is_token_proven_ = is_token_proven_ || from.token == token_number_;
    own_host_ = std::move(end.own_host);
    return {.body = std::move(end.body)};
  }
  if (end.is_too_large)
    return {.cause = etcd_cause::too_large, .text = "an answer has more than 4 MiB"};
  etcd_answer answer{.cause = etcd_cause::unreachable, .text = in_quotes(end.problem)};
  if (end.status != 0) {
    const etcd_refusal refusal = read_refusal(end.status, end.body);
    answer.cause = cause_of(end.status, refusal);
    answer.text = refusal.text;
    const bool is_old = from.token != token_number_;  // it was lost meanwhile
    if ((is_logged_in_ || is_old) && is_about_the_token(end.status, refusal)) {
      if (!is_old)
        lose_token("refuses the token that it has given to this user");
      answer.cause = etcd_cause::unreachable;
      return answer;
    }
  }
  if (answer.cause == etcd_cause::unreachable && from.generation == generation_)
    fail(errc::not_connected, "does not answer: " + answer.text);
  return answer;
}

void etcd_client::lose_token(const std::string& text) {
  token_.clear();
  ++token_number_;
  is_logged_in_ = false;
  // One that is refused at once would be fetched again and again.
  if (!std::exchange(is_token_proven_, false))
    fail(errc::denied, text);
}

bool etcd_client::is_end_of_token(const std::string& reason, std::uint64_t asked_with) {
  // To a watch etcd 3.4 says no more than that of a token which it does not know.
  const bool may_be = names_the_token(reason) || reason.find("permission denied") != reason.npos;
  if (options_.user.empty() || !may_be)
    return false;
  if (is_logged_in_ && asked_with == token_number_)
    lose_token("has ended the watch: " + reason);
  return true;
}

void etcd_client::log_in() {
  login_ =
      ask("/v3/auth/authenticate", ask_for_token(options_.user, options_.password),
          [this](const etcd_answer& answer) {
            login_ = 0;
            if (answer.cause == etcd_cause::unreachable)
              return;
            result<std::string> token = read_token(answer.body);
            is_token_proven_ = false;
            is_logged_in_ = (answer.cause == etcd_cause::done && token) ||
                            answer.text.find("authentication is not enabled") != std::string::npos;
            if (token)
              token_ = *std::move(token);
            if (!is_logged_in_)
              fail(errc::denied,
                   "refuses the user " + in_quotes(options_.user) + ": " +
                       (answer.cause == etcd_cause::done ? token.error().text() : answer.text));
          });
}

void etcd_client::fail(errc code, const std::string& text) {
  ++stats_.failures;
  ++generation_;
  ++failures_;
  const std::size_t servers = options_.endpoints.size();
  server_ = (server_ + 1) % servers;
  const std::size_t rounds = failures_ / servers;
  std::chrono::nanoseconds pause = pause_min;
  for (std::size_t i = 1; i < rounds && pause < pause_max; ++i)
    pause *= 2;
  const bool is_round = failures_ % servers == 0;
  ready_at_ = now() + (is_round ? pauses_.about(std::min(pause, pause_max)) : 0ns);
  // One of many servers may be down. The sentence stays while the cause does: it is logged when it changes.
  const bool is_news = problem_.code() != code;
  if (is_news && (code != errc::not_connected || failures_ >= servers)) {
    problem_ = {code, "etcd at " + names_of(options_.endpoints) + " " + text +
                          "; until then what was known before is used"};
  }
}

}  // namespace atbus::detail
