// A directory in etcd, a real one.
#include <memory>
#include <string>
#include <vector>

#include "atbus/etcd.hpp"
#include "directory_kind.h"
#include "discovery/record_text.h"
#include "etcd_server.h"

namespace atbus::test {
namespace {

class etcd_source final : public directory_source {
 public:
  etcd_source() { server_.start(); }

  std::shared_ptr<directory> open() override {
    auto made = etcd_directory::open({.endpoints = {server_.url()}});
    EXPECT_TRUE(made) << made.error().text();
    return made ? *made : nullptr;
  }
  void put(const directory_record& record) override {
    const auto text = detail::write_record(record);
    ASSERT_TRUE(text) << text.error().text();
    server_.put("/atbus/" + detail::to_key(record.id), *text);
  }
  void remove(bus_id id) override { server_.remove("/atbus/" + detail::to_key(id)); }
  void lose() override { server_.kill(); }
  void bring_back() override { server_.start(); }

 private:
  etcd_server server_;
};

}  // namespace

std::unique_ptr<directory_source> make_etcd_source() {
  return etcd_server::is_installed() ? std::make_unique<etcd_source>() : nullptr;
}

}  // namespace atbus::test
