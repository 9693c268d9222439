// A directory in a file: a list of nodes that people or their tools edit (nodes_file.h). If the file is
// missing or invalid, the last valid contents stay in use.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/directory.hpp"
#include "node/directory/nodes_file.h"
#include "node/files/watched_file.h"

namespace atbus::detail {

class file_directory final : public directory {
 public:
  explicit file_directory(std::string path) : file_(std::move(path)) {}

  [[nodiscard]] std::vector<std::string> lookup(bus_id id) override;
  watch_id watch(std::function<void(bus_id)> changed) override;
  void unwatch(watch_id which) override;
  error announce(bus_id id, const std::vector<std::string>& addresses) override;
  error poll() override;

 private:
  error use(std::string_view text);
  error use_or_keep(std::string_view text);
  void replace(node_addresses fresh);
  void tell_changed();

  watched_file file_;
  node_addresses nodes_;
  std::vector<bus_id> changed_;  // to be told; each leaves when all watchers have heard of it
  std::map<watch_id, std::function<void(bus_id)>> watchers_;
  watch_id watches_ = 0;
  error problem_;
};

}  // namespace atbus::detail
