#include "discovery/etcd_settings.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/text.h"
#include "discovery/dialled_addresses.h"

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t endpoints_max = 16;
constexpr std::size_t text_max = 256;
constexpr std::size_t records_limit = std::size_t{1} << 20U;

error must_be(std::string_view option, std::string_view wanted) {
  return {errc::invalid_argument,
          "etcd_options::" + std::string{option} + " must be " + std::string{wanted}};
}

bool is_endpoint(std::string_view text) {
  const std::string_view scheme = text.starts_with("https://") ? "https://" : "http://";
  if (!text.starts_with(scheme) || text.size() > text_max)
    return false;
  text.remove_prefix(scheme.size());
  if (text.ends_with('/'))
    text.remove_suffix(1);
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_digit(c) || is_letter(c) || c == '.' || c == '-' || c == '_' || c == ':' ||
           c == '[' || c == ']';
  });
}

bool is_text(std::string_view text) {
  return text.size() <= text_max && std::ranges::all_of(text, is_printable);
}

}  // namespace

error check_etcd(const etcd_options& options) {
  if (options.endpoints.empty() || options.endpoints.size() > endpoints_max ||
      !std::ranges::all_of(options.endpoints, is_endpoint))
    return must_be("endpoints",
                   "1 to 16 servers of the form http://host:port or https://host:port");
  if (options.prefix.empty() || !is_text(options.prefix))
    return must_be("prefix", "1 to 256 printable characters");
  if (options.lease_time < 2s || options.lease_time > 1h)
    return must_be("lease_time", "from 2 s to 1 h");
  if (options.start_jitter < 0ms || options.start_jitter > 1min)
    return must_be("start_jitter", "at most 1 min");
  if (options.user.empty() && !options.password.empty())
    return must_be("password", "given together with user");
  if (!is_text(options.user))
    return must_be("user", "at most 256 printable characters");
  if (options.certificate.empty() != options.key.empty())
    return must_be("certificate", "given together with key");
  if (!options.host.empty() && !is_host(options.host))
    return must_be("host", "an address or a name of this machine, without a port");
  if (options.max_records == 0 || options.max_records > records_limit)
    return must_be("max_records", "from 1 to 1048576");
  return {};
}

}  // namespace atbus::detail
