// A directory in a file, which a test writes.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "directory_kind.h"
#include "node/directory/file_directory.h"
#include "scratch_directory.h"

namespace atbus::test {
namespace {

class file_source final : public directory_source {
 public:
  file_source() { write(); }

  std::shared_ptr<directory> open() override {
    return std::make_shared<detail::file_directory>(path_);
  }
  void put(const directory_record& record) override {
    records_[record.id] = record;
    write();
  }
  void remove(bus_id id) override {
    records_.erase(id);
    write();
  }
  void lose() override {
    lost_ = true;
    unlink(path_.c_str());
  }
  void bring_back() override {
    lost_ = false;
    write();
  }

 private:
  void write() {
    if (lost_)
      return;
    std::ofstream to{path_ + ".new"};
    for (const auto& [id, one] : records_) {
      to << "[[node]]\nid = \"" << id.to_string() << "\"\naddresses = [";
      for (const std::string& each : one.addresses)
        to << '"' << each << "\",";
      to << "]\nservices = [";
      for (const std::string& each : one.services)
        to << '"' << each << "\",";
      to << "]\n[node.labels]\n";
      for (const auto& [name, text] : one.labels)
        to << name << " = \"" << text << "\"\n";
    }
    to.close();
    ASSERT_EQ(rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }

  scratch_directory folder_;
  const std::string path_ = folder_.path() + "/nodes.toml";
  std::map<bus_id, directory_record> records_;
  bool lost_ = false;
};

}  // namespace

std::unique_ptr<directory_source> make_file_source() {
  return std::make_unique<file_source>();
}

}  // namespace atbus::test
