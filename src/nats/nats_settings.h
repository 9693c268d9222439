// What users say of NATS servers, as libnats takes it.
#pragma once

#include <nats/nats.h>

#include <string>

#include "atbus/nats.hpp"
#include "atbus/status.hpp"
#include "nats/nats_mailbox.h"

namespace atbus::detail {

// ok, or which option is wrong. Reads no file.
[[nodiscard]] error check_nats(const nats_options& options);
// For a connection to `server`, "host:port". Reads the files; may block.
[[nodiscard]] error configure_nats(natsOptions& to, const nats_options& from,
                                   const std::string& server, const nats_mailbox& tells);

}  // namespace atbus::detail
