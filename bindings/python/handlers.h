// Sets the handlers of a node; None removes one.
#pragma once

#include "node.h"

namespace atbus_python {

void set_on_message(node& of, nb::object handler);
void set_on_any_request(node& of, nb::object handler);
void set_on_request(node& of, std::uint32_t type, nb::object handler);
void set_on_command(node& of, nb::object handler);
void set_on_undelivered(node& of, nb::object handler);
void set_on_endpoint(node& of, nb::object handler);
void set_on_writable(node& of, nb::object handler);
void set_on_log(node& of, nb::object handler);

}  // namespace atbus_python
