#include "discovery/etcd_message.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/text.h"
#include "discovery/base64.h"
#include "discovery/bounded_json.h"

namespace atbus::detail {
namespace {

using nlohmann::json;

error not_of_etcd(std::string_view what) {
  return {errc::protocol_error, "etcd has sent " + std::string{what}};
}

// Numbers of 64 bits are texts there, and those that are 0 are missing.
template <class Number>
bool take_number(const json& from, const char* name, Number& into) {
  const auto found = from.find(name);
  if (found == from.end())
    return true;
  if (found->is_number_integer()) {
    into = found->get<Number>();
    return true;
  }
  const auto* const text = found->get_ptr<const std::string*>();
  if (text == nullptr)
    return false;
  const char* const end = text->data() + text->size();
  const auto [at, failure] = std::from_chars(text->data(), end, into);
  return failure == std::errc{} && at == end;
}

bool take_flag(const json& from, const char* name, bool& into) {
  const auto found = from.find(name);
  if (found == from.end())
    return true;
  into = found->is_boolean() && found->get<bool>();
  return found->is_boolean();
}

bool take_bytes(const json& from, const char* name, std::string& into) {
  const auto found = from.find(name);
  if (found == from.end())
    return true;
  const auto* const text = found->get_ptr<const std::string*>();
  std::optional<std::string> bytes =
      text != nullptr ? from_base64(*text) : std::optional<std::string>{};
  if (!bytes)
    return false;
  into = *std::move(bytes);
  return true;
}

// There is always a next one.
bool is_revision(std::int64_t number) {
  return number >= 0 && number < std::numeric_limits<std::int64_t>::max();
}

bool take_header(const json& from, etcd_header& into) {
  const auto found = from.find("header");
  return found != from.end() && found->is_object() &&
         take_number(*found, "cluster_id", into.cluster) &&
         take_number(*found, "revision", into.revision) && is_revision(into.revision);
}

bool take_pair(const json& from, etcd_pair& into) {
  return from.is_object() && take_bytes(from, "key", into.key) && !into.key.empty() &&
         take_bytes(from, "value", into.value) &&
         take_number(from, "mod_revision", into.revision) && is_revision(into.revision) &&
         take_number(from, "lease", into.lease);
}

bool take_event(const json& from, etcd_event& into) {
  if (!from.is_object() || !from.contains("kv"))
    return false;
  const auto type = from.find("type");
  into.is_removal = type != from.end() && *type == "DELETE";
  return take_pair(from["kv"], into.pair);
}

template <class One, class Take>
bool take_list(const json& from, const char* name, std::vector<One>& into, Take&& take) {
  const auto found = from.find(name);
  if (found == from.end())
    return true;
  return found->is_array() && std::ranges::all_of(*found, [&](const json& one) {
           return take(one, into.emplace_back());
         });
}

// What streams say is wrapped once more.
std::optional<json> read_result(std::string_view text) {
  std::optional<json> all = read_json(text);
  if (all && all->contains("result"))
    all = json(std::move((*all)["result"]));
  return all && all->is_object() ? std::move(all) : std::nullopt;
}

// Requests are texts: a json object needs memory even where it ends, and its destructor can't say that there is none.
std::string field(std::string_view name, std::string_view value) {
  return '"' + std::string{name} + "\":" + std::string{value};
}

// Of base64 and digits, which need no escapes.
std::string text_field(std::string_view name, std::string_view value) {
  return field(name, '"' + std::string{value} + '"');
}

std::string object(std::initializer_list<std::string> fields) {
  std::string all;
  for (const std::string& one : fields)
    all += (all.empty() ? '{' : ',') + one;
  return all + '}';
}

std::string first_of(const key_range& keys) {
  return text_field("key", to_base64(keys.first));
}

std::string last_of(const key_range& keys) {
  return text_field("range_end", to_base64(keys.last));
}

// Of any text.
std::string escaped(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

key_range keys_with(std::string_view prefix) {
  // Printable, so the last character has a next one.
  std::string last{prefix};
  ++last.back();
  return {.first = std::string{prefix}, .last = std::move(last)};
}

std::string ask_for_page(const key_range& keys, std::size_t most, std::int64_t revision,
                         bool without_values) {
  return object({first_of(keys), last_of(keys), text_field("limit", std::to_string(most)),
                 text_field("revision", std::to_string(revision)),
                 field("keys_only", without_values ? "true" : "false")});
}

std::string ask_for_changes(const key_range& keys, std::int64_t from) {
  return object({first_of(keys), last_of(keys), text_field("limit", "1"),
                 field("keys_only", "true"), text_field("min_mod_revision", std::to_string(from))});
}

std::string ask_for_watch(const key_range& keys, std::int64_t from) {
  return object({field(
      "create_request",
      object({first_of(keys), last_of(keys), text_field("start_revision", std::to_string(from)),
              field("progress_notify", "true"), field("fragment", "true")}))});
}

std::string ask_for_lease(std::int64_t seconds) {
  return object({text_field("TTL", std::to_string(seconds))});
}

std::string name_lease(std::int64_t id) {
  return object({text_field("ID", std::to_string(id))});
}

std::string ask_to_put(std::string_view key, std::string_view value, std::int64_t lease) {
  return object({text_field("key", to_base64(key)), text_field("value", to_base64(value)),
                 text_field("lease", std::to_string(lease))});
}

std::string ask_to_remove(std::string_view key, std::int64_t lease) {
  const std::string named = text_field("key", to_base64(key));
  const std::string compare =
      object({named, text_field("target", "LEASE"), text_field("lease", std::to_string(lease)),
              text_field("result", "EQUAL")});
  const std::string remove = object({field("request_delete_range", object({named}))});
  return object({field("compare", '[' + compare + ']'), field("success", '[' + remove + ']')});
}

std::string ask_for_token(std::string_view user, std::string_view password) {
  return object({field("name", escaped(user)), field("password", escaped(password))});
}

result<etcd_page> read_page(std::string_view text) {
  const std::optional<json> all = read_result(text);
  etcd_page page;
  if (!all || !take_header(*all, page.header) || !take_number(*all, "count", page.count) ||
      !take_flag(*all, "more", page.has_more) || !take_list(*all, "kvs", page.pairs, take_pair))
    return not_of_etcd("something else than a list of keys");
  return page;
}

result<etcd_news> read_news(std::string_view line) {
  etcd_news news;
  const std::optional<json> all = read_json(line);
  if (all && all->is_object() && all->contains("error")) {
    news.is_canceled = true;
    news.reason = read_refusal(0, line).text;
    return news;
  }
  const std::optional<json> said = read_result(line);
  if (!said || !take_header(*said, news.header) || !take_flag(*said, "created", news.is_created) ||
      !take_flag(*said, "canceled", news.is_canceled) ||
      !take_flag(*said, "fragment", news.is_fragment) ||
      !take_number(*said, "compact_revision", news.compacted) ||
      !take_list(*said, "events", news.events, take_event))
    return not_of_etcd("something else than changes of keys");
  for (const etcd_event& one : news.events) {
    if (one.pair.revision > news.header.revision)
      return not_of_etcd("changes that have not happened yet");
  }
  if (const auto reason = said->find("cancel_reason"); reason != said->end() && reason->is_string())
    news.reason = in_quotes(reason->get_ref<const std::string&>());
  return news;
}

result<etcd_lease> read_lease(std::string_view text) {
  const std::optional<json> all = read_result(text);
  etcd_lease lease;
  if (!all || !take_number(*all, "ID", lease.id) || !take_number(*all, "TTL", lease.seconds) ||
      lease.id == 0)
    return not_of_etcd("something else than a lease");
  return lease;
}

result<etcd_header> read_header(std::string_view text) {
  const std::optional<json> all = read_result(text);
  etcd_header header;
  if (!all || !take_header(*all, header))
    return not_of_etcd("an answer without its header");
  return header;
}

result<std::string> read_token(std::string_view text) {
  const std::optional<json> all = read_result(text);
  const auto found = all ? all->find("token") : json::const_iterator{};
  constexpr std::size_t longest = 16384;
  if (!all || found == all->end() || !found->is_string())
    return not_of_etcd("no token");
  std::string token = found->get<std::string>();
  if (token.empty() || token.size() > longest || !std::ranges::all_of(token, is_printable))
    return not_of_etcd("a token that is none");
  return token;
}

etcd_refusal read_refusal(int status, std::string_view body) {
  etcd_refusal refusal;
  const std::optional<json> all = read_json(body);
  const json* of = all && all->is_object() ? &*all : nullptr;
  // Of a stream it is an object of its own.
  if (of != nullptr && of->contains("error") && (*of)["error"].is_object())
    of = &(*of)["error"];
  if (of != nullptr) {
    for (const char* const name : {"code", "grpc_code"})
      (void)take_number(*of, name, refusal.code);
    for (const char* const name : {"message", "error"}) {
      if (const auto text = of->find(name); text != of->end() && text->is_string())
        refusal.text = in_quotes(text->get_ref<const std::string&>());
    }
  }
  if (refusal.text.empty())
    refusal.text = "HTTP status " + std::to_string(status);
  return refusal;
}

}  // namespace atbus::detail
