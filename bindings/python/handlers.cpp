#include "handlers.h"

#include <nanobind/stl/string.h>

#include "lock.h"

namespace atbus_python {

void set_on_message(node& of, nb::object handler) {
  if (handler.is_none()) {
    check(atbus_node_on_message(of.self(), nullptr, nullptr));
    of.on_message = {};
    return;
  }
  check(atbus_node_on_message(
      of.self(),
      [](void* user, const atbus_message* m) {
        with_lock([&] {
          node& self = node_of(user);
          const nb::object handler = self.on_message;
          try {
            const nb::object message = nb::steal(
                make_message(*m, PyBytes_FromStringAndSize(static_cast<const char*>(m->bytes),
                                                           static_cast<Py_ssize_t>(m->size))));
            self.call_handler(handler, message);
          } catch (nb::python_error& thrown) {
            self.keep(thrown);
          }
        });
      },
      &of));
  of.on_message = std::move(handler);
}

void call_request_handler(node& self, const nb::object& handler, atbus_request* r) {
  if (!handler)
    return;
  atbus_request* const taken = atbus_request_detach(r);
  if (taken == nullptr)
    return;
  try {
    self.call_handler(handler, nb::cast(request{taken}));
  } catch (nb::python_error& thrown) {
    self.keep(thrown);
  }
}

void set_on_any_request(node& of, nb::object handler) {
  if (handler.is_none()) {
    check(atbus_node_on_any_request(of.self(), nullptr, nullptr));
    of.on_request = {};
    return;
  }
  check(atbus_node_on_any_request(
      of.self(),
      [](void* user, atbus_request* r) {
        with_lock([&] {
          const nb::object handler = node_of(user).on_request;
          call_request_handler(node_of(user), handler, r);
        });
      },
      &of));
  of.on_request = std::move(handler);
}

void set_on_request(node& of, std::uint32_t type, nb::object handler) {
  if (handler.is_none()) {
    check(atbus_node_on_request(of.self(), type, nullptr, nullptr));
    of.on_request_of.erase(type);
    return;
  }
  check(atbus_node_on_request(
      of.self(), type,
      [](void* user, atbus_request* r) {
        with_lock([&] {
          node& self = node_of(user);
          const auto found = self.on_request_of.find(atbus_request_type(r));
          if (found == self.on_request_of.end())
            return;
          const nb::object handler = found->second;
          call_request_handler(self, handler, r);
        });
      },
      &of));
  of.on_request_of.insert_or_assign(type, std::move(handler));
}

void set_on_command(node& of, nb::object handler) {
  if (handler.is_none()) {
    check(atbus_node_on_command(of.self(), nullptr, nullptr, nullptr));
    of.on_command = {};
    return;
  }
  check(atbus_node_on_command(
      of.self(), nullptr,
      [](void* user, atbus_command* c) {
        with_lock([&] {
          node& self = node_of(user);
          const nb::object handler = self.on_command;
          if (!handler)
            return;
          atbus_command* const taken = atbus_command_detach(c);
          if (taken == nullptr)
            return;
          try {
            self.call_handler(handler, nb::cast(command{taken}));
          } catch (nb::python_error& thrown) {
            self.keep(thrown);
          }
        });
      },
      &of));
  of.on_command = std::move(handler);
}

void set_on_undelivered(node& of, nb::object handler) {
  if (handler.is_none()) {
    check(atbus_node_on_undelivered(of.self(), nullptr, nullptr));
    of.on_undelivered = {};
    return;
  }
  check(atbus_node_on_undelivered(
      of.self(),
      [](void* user, const atbus_undelivered* what) {
        with_lock([&] {
          const nb::object handler = node_of(user).on_undelivered;
          try {
            node_of(user).call_handler(
                handler, what->destination, what->type, to_bytes(what->bytes, what->size),
                static_cast<int>(what->outcome), static_cast<int>(what->reason), what->count);
          } catch (nb::python_error& thrown) {
            node_of(user).keep(thrown);
          }
        });
      },
      &of));
  of.on_undelivered = std::move(handler);
}

void set_on_endpoint(node& of, nb::object handler) {
  if (handler.is_none()) {
    check(atbus_node_on_endpoint(of.self(), nullptr, nullptr));
    of.on_endpoint = {};
    return;
  }
  check(atbus_node_on_endpoint(
      of.self(),
      [](void* user, const atbus_endpoint* which, atbus_endpoint_event event) {
        with_lock([&] {
          const nb::object handler = node_of(user).on_endpoint;
          node_of(user).call_handler(handler, which->id, static_cast<int>(event));
        });
      },
      &of));
  of.on_endpoint = std::move(handler);
}

void set_on_writable(node& of, nb::object handler) {
  if (handler.is_none()) {
    check(atbus_node_on_writable(of.self(), nullptr, nullptr));
    of.on_writable = {};
    return;
  }
  check(atbus_node_on_writable(
      of.self(),
      [](void* user, std::uint64_t id) {
        with_lock([&] {
          const nb::object handler = node_of(user).on_writable;
          node_of(user).call_handler(handler, id);
        });
      },
      &of));
  of.on_writable = std::move(handler);
}

void set_on_log(node& of, nb::object handler) {
  if (handler.is_none()) {
    check(atbus_node_on_log(of.self(), nullptr, nullptr));
    of.on_log = {};
    return;
  }
  check(atbus_node_on_log(
      of.self(),
      [](void* user, const char* line, std::size_t size) {
        with_lock([&] {
          const nb::object handler = node_of(user).on_log;
          try {
            node_of(user).call_handler(handler, to_text(line, size));
          } catch (nb::python_error& thrown) {
            node_of(user).keep(thrown);
          }
        });
      },
      &of));
  of.on_log = std::move(handler);
}

}  // namespace atbus_python
