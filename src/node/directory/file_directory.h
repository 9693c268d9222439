// A directory in a file: a list of nodes that people or their tools edit (nodes_file.h). This class never
// writes it.
//
// poll() checks the file's name, size and times, which shows an edit, a replacement and a changed link. A
// changed file is read at the first look that finds no further change, so that it is not read while it is
// being written. If the file is missing or invalid, the last valid contents stay in use.
//
// One thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "atbus/directory.hpp"
#include "node/directory/nodes_file.h"

namespace atbus::detail {

class file_directory final : public directory {
 public:
  explicit file_directory(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] std::vector<std::string> lookup(bus_id id) override;
  watch_id watch(std::function<void(bus_id)> changed) override;
  void unwatch(watch_id which) override;
  error announce(bus_id id, const std::vector<std::string>& addresses) override;
  error poll() override;

 private:
  // Which file it is, and as of when. Equal: it has not changed.
  struct state {
    int problem = 0;  // errno
    dev_t device = 0;
    ino_t number = 0;
    off_t size = 0;
    std::int64_t written_ns = 0;
    std::int64_t changed_ns = 0;  // its content or its name

    friend bool operator==(const state&, const state&) = default;
  };

  [[nodiscard]] state look() const;
  error read();
  // What stands in the file.
  [[nodiscard]] result<std::string> text() const;
  void replace(node_addresses fresh);

  std::string path_;
  node_addresses nodes_;
  std::map<watch_id, std::function<void(bus_id)>> watchers_;
  watch_id watches_ = 0;
  bool looked_ = false;
  state seen_;  // at the last look
  state used_;  // as of which it was read and had not changed for a while
  error problem_;
};

}  // namespace atbus::detail
