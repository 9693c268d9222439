// The records that a directory knows, and who wants to hear of changes. All of it is in this header:
// directories outside of the library use it too.
//
// A change is told to every watch, also if an allocation fails on the way.
//
// One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "atbus/directory.hpp"

namespace atbus::detail {

class record_table {
 public:
  // By id. Their ages are not kept here.
  using records = std::unordered_map<std::uint64_t, directory_record>;

  [[nodiscard]] const directory_record* find(bus_id id) const {
    const auto found = records_.find(id.value());
    return found != records_.end() ? &found->second : nullptr;
  }
  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] std::vector<bus_id> members(std::string_view service) const {
    std::vector<bus_id> all;
    for (const auto& [id, one] : records_) {
      if (offers(one, service))
        all.emplace_back(id);
    }
    std::ranges::sort(all);
    return all;
  }

  directory::watch_id watch(std::function<void(bus_id)> changed) {
    watchers_.emplace(++watches_, std::move(changed));
    return watches_;
  }
  directory::watch_id watch_members(std::string service, std::function<void()> changed) {
    const auto name = watched_.insert(service);
    try {
      member_watchers_.emplace(++watches_, member_watch{std::move(service), std::move(changed)});
    } catch (...) {
      watched_.erase(name);
      throw;
    }
    return watches_;
  }
  void unwatch(directory::watch_id which) {
    watchers_.erase(which);
    if (const auto at = member_watchers_.find(which); at != member_watchers_.end()) {
      watched_.erase(watched_.find(at->second.service));
      member_watchers_.erase(at);
    }
  }

  // A record that is equal to the known one changes nothing.
  void put(directory_record fresh) {
    const directory_record* const before = find(fresh.id);
    if (before != nullptr && is_same(*before, fresh))
      return;
    note(before, &fresh);
    fresh.version = ++versions_;
    records_[fresh.id.value()] = std::move(fresh);
  }
  void remove(bus_id id) {
    const directory_record* const before = find(id);
    if (before == nullptr)
      return;
    note(before, nullptr);
    records_.erase(id.value());
  }
  void replace_all(records fresh) {
    for (auto& [id, one] : fresh) {
      const directory_record* const before = find(bus_id{id});
      const bool same = before != nullptr && is_same(*before, one);
      if (!same)
        note(before, &one);
      one.version = same ? before->version : ++versions_;
    }
    for (const auto& [id, one] : records_) {
      if (!fresh.contains(id))
        note(&one, nullptr);
    }
    records_ = std::move(fresh);  // now that nothing throws any more
  }

  void tell_changed() {
    for (; !changed_.empty(); changed_.pop_back()) {
      for (const auto& [which, tell] : watchers_)
        tell(changed_.back());
    }
    while (!changed_services_.empty()) {
      const auto service = changed_services_.begin();
      for (const auto& [which, of] : member_watchers_) {
        if (of.service == *service)
          of.changed();
      }
      changed_services_.erase(service);
    }
  }

  [[nodiscard]] const records& all() const noexcept { return records_; }

 private:
  struct member_watch {
    std::string service;
    std::function<void()> changed;
  };

  static bool offers(const directory_record& one, std::string_view service) {
    return std::ranges::find(one.services, service) != one.services.end();
  }
  static bool is_same(const directory_record& a, const directory_record& b) {
    return a.addresses == b.addresses && a.services == b.services && a.labels == b.labels &&
           a.place == b.place;
  }
  // Of services only those that are watched: a record may name very many.
  void note(const directory_record* before, const directory_record* now) {
    for (const directory_record* const one : {before, now}) {
      if (one == nullptr || watched_.empty())
        continue;
      for (const std::string& service : one->services) {
        if (watched_.contains(service))
          changed_services_.insert(service);
      }
    }
    if (const directory_record* const one = before != nullptr ? before : now; one != nullptr)
      changed_.push_back(one->id);
  }

  records records_;
  std::uint64_t versions_ = 0;
  // To be told; each leaves when all watchers have heard of it.
  std::vector<bus_id> changed_;
  std::set<std::string> changed_services_;
  std::map<directory::watch_id, std::function<void(bus_id)>> watchers_;
  std::map<directory::watch_id, member_watch> member_watchers_;
  std::multiset<std::string> watched_;  // their services
  directory::watch_id watches_ = 0;
};

}  // namespace atbus::detail
