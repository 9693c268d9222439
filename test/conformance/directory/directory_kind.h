// The kinds of directories, for tests that hold for all of them. Each stands on a source that a test can
// change from the outside, as its operators would.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/directory.hpp"
#include "test.h"

namespace atbus::test {

// A source, and how directories are made on it.
class directory_source {
 public:
  directory_source() = default;
  directory_source(const directory_source&) = delete;
  directory_source& operator=(const directory_source&) = delete;
  virtual ~directory_source() = default;

  [[nodiscard]] virtual std::shared_ptr<directory> open() = 0;
  // Behind the directory's back: adds or replaces the record, and removes it.
  virtual void put(const directory_record& record) = 0;
  virtual void remove(bus_id id) = 0;
  // From now on nobody can read it; its contents are kept.
  virtual void lose() = 0;
  virtual void bring_back() = 0;
};

struct directory_kind {
  const char* name;
  bool takes_announcements;
  bool has_descriptor;
  // Null: what it stands on is not installed.
  std::unique_ptr<directory_source> (*make)();
};

// For the names of tests.
inline void PrintTo(const directory_kind& kind, std::ostream* to) {
  *to << kind.name;
}

[[nodiscard]] std::vector<directory_kind> directory_kinds();
[[nodiscard]] std::unique_ptr<directory_source> make_file_source();
[[nodiscard]] std::unique_ptr<directory_source> make_etcd_source();
[[nodiscard]] std::unique_ptr<directory_source> make_dns_source();

}  // namespace atbus::test
