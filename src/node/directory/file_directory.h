// A directory in a file: a list of nodes that people or their tools edit (nodes_file.h). If the file is
// missing or invalid, the last valid contents stay in use.
//
// One thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/directory.hpp"
#include "node/directory/record_table.h"
#include "node/files/watched_file.h"

namespace atbus::detail {

class file_directory final : public directory {
 public:
  explicit file_directory(std::string path) : file_(std::move(path)) {}

  [[nodiscard]] std::vector<std::string> lookup(bus_id id) override;
  [[nodiscard]] std::optional<directory_record> find(bus_id id) override;
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
  error announce(const directory_record& record) override;
  error withdraw(bus_id id) override;
  error poll() override;

 private:
  [[nodiscard]] error nobody_writes() const;
  error use(std::string_view text);
  error use_or_keep(std::string_view text);

  watched_file file_;
  record_table nodes_;
  std::chrono::nanoseconds confirmed_{0};  // the last look that found the file in order
  error problem_;
};

}  // namespace atbus::detail
