// What a relay's configuration says of discovery: the part under [discovery].
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "atbus/directory.hpp"
#include "atbus/etcd.hpp"
#include "atbus/status.hpp"
#include "node/files/toml_reader.h"

namespace atbus::tool {

class discovery_reader : detail::toml_reader {
 public:
  // Both are of the configuration; `name` is for errors and has to outlive this.
  discovery_reader(std::string_view name, const std::filesystem::path& folder)
      : toml_reader(name), folder_(folder) {}

  // Makes the directory, which does not connect yet. Reads the file of a user.
  [[nodiscard]] result<std::shared_ptr<directory>> read(const toml::node& value) const;

 private:
  error take(std::string_view key, const toml::node& value, etcd_options& into) const;
  error take_endpoints(const toml::node& value, etcd_options& into) const;
  error take_user(const toml::node& value, etcd_options& into) const;
  error take_text(const toml::node& value, std::string& into) const;

  const std::filesystem::path& folder_;
};

}  // namespace atbus::tool
