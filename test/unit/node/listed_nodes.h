// A directory of a test.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "atbus/directory.hpp"
#include "testing/foreign_code.h"

namespace atbus::detail {

// Kept in memory, changed by a test.
class listed_nodes final : public directory {
 public:
  void list(std::uint64_t id, std::vector<std::string> where) {
    nodes_[id] = std::move(where);
    changed_.emplace_back(id);
  }
  void fail(std::string problem) { problem_ = std::move(problem); }
  [[nodiscard]] std::size_t watchers() const { return watchers_.size(); }
  [[nodiscard]] const std::vector<std::string>& announced(std::uint64_t id) {
    return announced_[id];
  }
  [[nodiscard]] bool is_announced(std::uint64_t id) const { return announced_.contains(id); }
  [[nodiscard]] std::vector<std::string> services(std::uint64_t id) { return services_[id]; }
  [[nodiscard]] tree_place place(std::uint64_t id) { return places_[id]; }
  [[nodiscard]] const std::map<std::string, std::string>& labels(std::uint64_t id) {
    return labels_[id];
  }

  [[nodiscard]] std::vector<std::string> lookup(bus_id id) override { return nodes_[id.value()]; }
  watch_id watch(std::function<void(bus_id)> changed) override {
    watchers_[++watches_] = std::move(changed);
    return watches_;
  }
  void unwatch(watch_id which) override { watchers_.erase(which); }
  error announce(const directory_record& record) override {
    announced_[record.id.value()] = record.addresses;
    services_[record.id.value()] = record.services;
    places_[record.id.value()] = record.place;
    labels_[record.id.value()] = record.labels;
    return {};
  }
  error withdraw(bus_id id) override {
    announced_.erase(id.value());
    return {};
  }
  error poll() override {
    const foreign_code here;
    for (const bus_id id : std::exchange(changed_, {})) {
      for (const auto& [which, tell] : watchers_)
        tell(id);
    }
    return problem_.empty() ? error{} : error{errc::not_found, problem_};
  }

 private:
  std::map<std::uint64_t, std::vector<std::string>> nodes_;
  std::map<std::uint64_t, std::vector<std::string>> announced_;
  std::map<std::uint64_t, std::vector<std::string>> services_;
  std::map<std::uint64_t, tree_place> places_;
  std::map<std::uint64_t, std::map<std::string, std::string>> labels_;
  std::map<watch_id, std::function<void(bus_id)>> watchers_;
  watch_id watches_ = 0;
  std::vector<bus_id> changed_;
  std::string problem_;
};

}  // namespace atbus::detail
