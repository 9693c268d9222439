// A directory of DNS names, on a real server: each address of a node is a target of one SRV name, and TXT
// records say whose it is.
#include <map>

#include "atbus/address.hpp"
#include "atbus/dns.hpp"
#include "directory_kind.h"
#include "dns_server.h"

namespace atbus::test {
namespace {

class dns_source final : public directory_source {
 public:
  std::shared_ptr<directory> open() override {
    return *dns_directory::open({.services = {{.name = "_atbus._tcp.test", .texts = true}},
                                 .servers = {server_.server()},
                                 .timeout = 200ms,
                                 .at_least = 10ms});
  }
  void put(const directory_record& record) override {
    records_[record.id] = record;
    write();
  }
  void remove(bus_id id) override {
    records_.erase(id);
    write();
  }
  void lose() override { server_.kill(); }
  void bring_back() override { server_.start(); }

 private:
  void write() {
    std::string all;
    for (const auto& [id, one] : records_) {
      std::string strings = "\"id=" + id.to_string() + "\"";
      for (const std::string& each : one.services)
        strings += " \"service=" + each + "\"";
      for (const auto& [name, text] : one.labels)
        strings += " \"" + name + "=" + text + "\"";
      unsigned hosts = 0;
      for (const std::string& each : one.addresses) {
        const auto at = address::parse(each);
        const std::string host =
            "host" + std::to_string(++hosts) + "-of-" + std::to_string(id.value());
        all += "_atbus._tcp SRV 0 0 " + std::to_string(at->port()) + " " + host + "\n" + host +
               " A " + at->name() + "\n" + host + " TXT " + strings + "\n";
      }
    }
    server_.set(all);
  }

  dns_server server_;
  std::map<bus_id, directory_record> records_;
};

}  // namespace

std::unique_ptr<directory_source> make_dns_source() {
  return dns_server::is_installed() ? std::make_unique<dns_source>() : nullptr;
}

}  // namespace atbus::test
