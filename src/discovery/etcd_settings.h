// What users say of etcd, checked.
#pragma once

#include "atbus/etcd.hpp"
#include "atbus/status.hpp"

namespace atbus::detail {

// ok, or which option is wrong. Reads no file.
[[nodiscard]] error check_etcd(const etcd_options& options);

}  // namespace atbus::detail
