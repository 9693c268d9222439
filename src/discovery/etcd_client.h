// Requests to the servers of one etcd cluster: which server is asked, when it may be asked next, the token of the
// user.
//
// A server that fails is left for the next one, and after a round of all of them there is a pause, which doubles up to
// 10 s. A user of this class asks only while it is_ready(); it sees by generation() that a server was left.
//
// One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "atbus/etcd.hpp"
#include "atbus/status.hpp"
#include "discovery/etcd_message.h"
#include "discovery/http_loop.h"
#include "discovery/random_pause.h"

namespace atbus::detail {

enum class etcd_cause : std::uint8_t {
  done,
  unreachable,  // the server was left, or the user is not logged in any more: to be asked again when ready
  denied,
  compacted,
  no_lease,
  no_space,
  too_large,
  refused,  // for another reason
};

struct etcd_answer {
  etcd_cause cause = etcd_cause::done;
  std::string body{};
  std::string text{};  // why not, for people
};

class etcd_client {
 public:
  using call = http_loop::call;
  static constexpr std::chrono::nanoseconds answer_limit = std::chrono::seconds{5};
  static constexpr std::chrono::nanoseconds pause_min = std::chrono::milliseconds{50};
  static constexpr std::chrono::nanoseconds pause_max = std::chrono::seconds{10};

  etcd_client(http_loop& loop, const etcd_options& options, etcd_stats& stats,
              random_pause& pauses);

  [[nodiscard]] bool is_ready(std::chrono::nanoseconds now) const noexcept {
    return now >= ready_at_ && !needs_token();
  }
  // Answers may have been lost: logs in again if it was doing that.
  void start_again() noexcept { cancel(login_); }
  // Logs in.
  void work(std::chrono::nanoseconds now);
  // When it is ready, or has something to do; never() while it waits for an answer.
  [[nodiscard]] std::chrono::nanoseconds next() const noexcept;

  call ask(std::string_view path, std::string body, std::function<void(etcd_answer)> on_answer);
  // A stream; `on_end` is not called after a cancel().
  call follow(std::string_view path, std::string body,
              std::function<void(std::string_view)> on_part,
              std::function<void(etcd_answer)> on_end);
  // Also sets it to 0.
  void cancel(call& which) noexcept;

  // What the server in use says is of no use; `text` goes on after the names of the servers.
  void fail(errc code, const std::string& text);
  // It is of use; pauses stay as long as they have become.
  void works() noexcept { problem_ = {}; }
  // It was for a while: the next pause is short.
  void lasts() noexcept { failures_ = 0; }

  // Which token requests have now.
  [[nodiscard]] std::uint64_t token_number() const noexcept { return token_number_; }
  // etcd has ended a stream that was asked for with that token. True: because of the token, and the stream is to be
  // asked for again when ready.
  [[nodiscard]] bool is_end_of_token(const std::string& reason, std::uint64_t asked_with);

  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  // The address from which etcd is reached; empty: not yet known.
  [[nodiscard]] const std::string& own_host() const noexcept { return own_host_; }
  // No error, or what keeps this program from reading etcd.
  [[nodiscard]] const error& problem() const noexcept { return problem_; }

 private:
  [[nodiscard]] bool needs_token() const noexcept {
    return !options_.user.empty() && !is_logged_in_;
  }
  [[nodiscard]] http_request request(std::string_view path, std::string body) const;
  // What a request began with.
  struct origin {
    std::uint64_t generation;
    std::uint64_t token;
  };
  [[nodiscard]] origin here() const noexcept {
    return {.generation = generation_, .token = token_number_};
  }
  [[nodiscard]] etcd_answer judge(http_end end, origin from);
  // `text` is said if it was never taken.
  void lose_token(const std::string& text);
  void log_in();

  http_loop& loop_;
  const etcd_options& options_;
  etcd_stats& stats_;
  random_pause& pauses_;
  std::size_t server_ = 0;
  std::size_t failures_ = 0;  // since one has worked
  std::uint64_t generation_ = 0;
  std::chrono::nanoseconds ready_at_;
  bool is_logged_in_ = false;
  std::string token_;  // empty: etcd has no users
  std::uint64_t token_number_ = 0;
  bool is_token_proven_ = false;
  call login_ = 0;
  std::string own_host_;
  error problem_;
};

}  // namespace atbus::detail
