#include "discovery/etcd_keys.h"

#include <utility>

#include "core/text.h"
#include "discovery/record_text.h"

namespace atbus::detail {
namespace {

// Of a key that is no id; a longer one is not kept.
constexpr std::size_t kept_name_max = 256;

}  // namespace

const etcd_keys::standing* etcd_keys::find(bus_id id) const {
  const auto found = now_.keys.find(to_key(id));
  return found != now_.keys.end() ? &found->second : nullptr;
}

void etcd_keys::forget(key_set& in, std::string_view name) {
  const auto found = in.keys.find(std::string{name});
  if (found == in.keys.end())
    return;
  const standing& gone = found->second;
  in.records -= gone.is_record ? 1 : 0;
  in.bytes -= gone.is_record ? gone.size : 0;
  in.flawed -= gone.is_flawed ? 1 : 0;
  in.keys.erase(found);
}

result<directory_record> etcd_keys::read(const etcd_pair& pair, bool has_value, bool& is_flawed) {
  const auto id = from_key(without_prefix(pair.key));
  if (!id) {
    ++stats_.unknown_keys;
    return error{errc::malformed, "it is no id of 16 hexadecimal digits in lower case"};
  }
  if (!has_value) {
    ++stats_.too_large;
    return error{errc::message_too_large, "etcd can't send it in 4 MiB"};
  }
  result<read_record_result> made = read_record(*id, pair.value);
  if (!made) {
    auto& counted = made.error() == errc::version_mismatch    ? stats_.other_versions
                    : made.error() == errc::message_too_large ? stats_.too_large
                                                              : stats_.malformed;
    ++counted;
    return made.error();
  }
  stats_.wrong_addresses += made->wrong_addresses;
  is_flawed = made->wrong_addresses != 0;
  return std::move(made->record);
}

void etcd_keys::note_flaw(const etcd_pair& pair, const error& why) {
  if (!problem_)
    return;
  problem_ = {why.code(), "etcd has records below " + in_quotes(prefix_) +
                              " that are not used, the first of them " + in_quotes(pair.key) +
                              ": " + why.text() + "; remove what does not belong there"};
}

std::optional<directory_record> etcd_keys::admit(key_set& into, const etcd_pair& pair,
                                                 bool has_value) {
  const std::string_view name = without_prefix(pair.key);
  bool is_flawed = false;
  result<directory_record> record = read(pair, has_value, is_flawed);
  const auto before = into.keys.find(std::string{name});
  const bool was_record = before != into.keys.end() && before->second.is_record;
  const std::size_t size_before = was_record ? before->second.size : 0;
  forget(into, name);
  const std::size_t size = pair.value.size();
  // Known records keep their places.
  const bool are_too_many = !was_record && into.records >= records_max_;
  if (record && (are_too_many || (size > size_before && into.bytes + size > bytes_max))) {
    ++stats_.beyond_limit;
    into.is_complete = false;
    note_flaw(pair,
              {errc::no_space, are_too_many ? "there are more than etcd_options::max_records allows"
                                            : "all of them together have more than 64 MiB"});
    return std::nullopt;
  }
  if (!record && (name.size() > kept_name_max || into.keys.size() - into.records >= records_max_)) {
    into.is_complete = false;
    note_flaw(pair, record.error());
    return std::nullopt;
  }
  const standing made{.revision = pair.revision,
                      .lease = pair.lease,
                      .size = static_cast<std::uint32_t>(size),
                      .is_record = static_cast<bool>(record),
                      .is_flawed = is_flawed || !record};
  into.keys.emplace(name, made);
  into.flawed += made.is_flawed ? 1 : 0;
  if (made.is_flawed) {
    note_flaw(pair, record ? error{errc::invalid_address, "an address can't be understood"}
                           : record.error());
  }
  if (!record)
    return std::nullopt;
  ++into.records;
  into.bytes += made.size;
  return *std::move(record);
}

void etcd_keys::put(const etcd_pair& pair) {
  const auto id = from_key(without_prefix(pair.key));
  if (auto record = admit(now_, pair, true))
    records_.put(*std::move(record));
  else if (id)
    records_.remove(*id);
  settle();
}

void etcd_keys::remove(std::string_view key) {
  const std::string_view name = without_prefix(key);
  forget(now_, name);
  if (const auto id = from_key(name))
    records_.remove(*id);
  settle();
}

void etcd_keys::begin_list() {
  listed_ = {};
  listed_records_.clear();
  listed_count_ = 0;
}

bool etcd_keys::list(const etcd_pair& pair) {
  if (auto record = admit(listed_, pair, true)) {
    const std::uint64_t id = record->id.value();
    listed_records_.insert_or_assign(id, *std::move(record));
  }
  return has_room_to_list();
}

bool etcd_keys::list_without_value(const etcd_pair& pair) {
  (void)admit(listed_, pair, false);
  return has_room_to_list();
}

void etcd_keys::end_list(bool is_whole) {
  listed_.is_complete = listed_.is_complete && is_whole;
  if (!listed_.is_complete) {
    // Bounded by twice the limit.
    for (const auto& [id, known] : records_.all()) {
      if (listed_records_.size() >= 2 * records_max_)
        break;
      if (const auto at = now_.keys.find(to_key(bus_id{id}));
          at != now_.keys.end() && listed_.keys.emplace(at->first, at->second).second) {
        listed_records_.emplace(id, known);
        ++listed_.records;
        listed_.bytes += at->second.size;
        listed_.flawed += at->second.is_flawed ? 1 : 0;
      }
    }
  }
  records_.replace_all(std::exchange(listed_records_, {}));
  now_ = std::exchange(listed_, {});
  settle();
}

void etcd_keys::settle() {
  stats_.records = records_.size();
  stats_.keys_left_out = now_.keys.size() - now_.records;
  if (now_.flawed == 0 && now_.is_complete)
    problem_ = {};
}

}  // namespace atbus::detail
