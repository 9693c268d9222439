#include "node/core/key_rotation.h"

#include <algorithm>
#include <ctime>
#include <new>
#include <utility>

#include "protocol/token.h"

namespace atbus::detail {
namespace {

constexpr std::chrono::hours warned_before{7 * 24};
constexpr std::chrono::nanoseconds warning_interval = std::chrono::hours{24};

std::string date_of(std::chrono::system_clock::time_point when) {
  const std::time_t time = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32] = {};
  (void)std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

}  // namespace

error key_rotation::set_tokens(const std::vector<std::string>& secrets) {
  if (node_.tokens.empty() || secrets.empty()) {
    return {errc::invalid_argument,
            secrets.empty() ? "a node with tokens needs at least one"
                            : "a node that was made without a token can't be given one"};
  }
  token_list fresh;
  try {
    for (const std::string& secret : secrets) {
      result<token> one = token::make(as_bytes(secret));
      if (!one)
        return one.error();
      fresh.push_back(std::move(*one));
    }
  } catch (const std::bad_alloc&) {
    return errc::out_of_memory;
  }
  if (node_.on.keys != nullptr) {
    if (error bad = node_.on.keys->use_tokens(secrets); !bad)
      return bad;
  }
  node_.tokens = std::move(fresh);
  for (const auto& one : sessions_.all())
    end_without_token(*one);
  return {};
}

void key_rotation::end_without_token(session& one) {
  const auto is_its = [&](const token& with) {
    return equal_in_constant_time(with.name(), one.proven_by);
  };
  if (one.stage == session_stage::registering)  // it has begun with the old ones
    sessions_.drop(one, false, errc::closed, {});
  else if (one.stage == session_stage::registered && std::ranges::none_of(node_.tokens, is_its))
    sessions_.drop(one, true, errc::denied, "the token of this link is taken away");
}

void key_rotation::open() {
  const tls_files& files = node_.options.certificates();
  if (files.chain.empty() || node_.on.keys == nullptr)
    return;
  for (const std::string& path : {files.chain, files.key, files.authority})
    files_.emplace_back(path);
  look_at_files();
  have_changed_ = false;  // they have just been read
  clock_.replace([this] { look(); });
  clock_.set(node_.now() + file_look_interval);
  warn_of_expiry();
}

void key_rotation::look_at_files() {
  for (watched_file& one : files_)
    have_changed_ = one.has_changed() || have_changed_;
}

void key_rotation::look() {
  clock_.set(node_.now() + file_look_interval);
  look_at_files();
  if (have_changed_)
    renew();
  warn_of_expiry();
}

void key_rotation::renew() {
  const auto before = expires();
  const error bad = node_.on.keys->read_certificates();
  // What the system refuses may work at the next look, though the files stay the same.
  have_changed_ = bad == errc::out_of_memory || bad == errc::system_error;
  const std::string problem = bad ? std::string{} : bad.text();
  if (problem != std::exchange(problem_, problem) && !bad)
    events_.log(problem + "; until it is mended the certificates that were read before are used");
  if (!bad)
    return;
  for (const auto& one : sessions_.all()) {
    if (one->stage == session_stage::registered && !one->at.is_trusted())
      sessions_.drop(*one, true, errc::denied,
                     "the certificate of this link is not accepted any more");
  }
  const auto until = expires();
  if (!until || until == before)
    return;
  warned_.reset();
  events_.log("the certificate of " + node_.options.certificates().chain +
              " is in use from now on, until " + date_of(*until));
}

void key_rotation::warn_of_expiry() {
  const auto until = expires();
  if (!until || *until - std::chrono::system_clock::now() > warned_before ||
      (warned_ && node_.now() - *warned_ < warning_interval))
    return;
  warned_ = node_.now();
  events_.log("the certificate of " + node_.options.certificates().chain + " expires at " +
              date_of(*until));
}

}  // namespace atbus::detail
