// What a node calls back.
#include <chrono>
#include <functional>
#include <string_view>

#include "node_calls.h"

using namespace atbus;
using namespace atbus::c_api;
using std::chrono::nanoseconds;

atbus_code atbus_node_on_message(atbus_node* node, atbus_message_callback call, void* user) {
  return with(node, [&](atbus_node& of) {
    if (of.taker != nullptr && of.taker->holds())
      return code_of(error{errc::invalid_argument,
                           "messages wait for atbus_node_receive, which has to give them first"});
    if (!of.self.is_open())
      return code_of(status{errc::closed});
    if (of.taker != nullptr) {
      of.taker->set_callback(call, user);
      return ATBUS_OK;
    }
    if (call == nullptr) {
      of.self.on_message({});
      return ATBUS_OK;
    }
    of.self.on_message([call, user](const message& what) {
      const atbus_message arrived = to_c(what);
      call(user, &arrived);
    });
    return ATBUS_OK;
  });
}

namespace {

std::function<void(request&)> handler_of(const atbus_node& by, atbus_request_callback call,
                                         void* user) {
  if (call == nullptr)
    return {};
  return [call, user, owner = by.answers](request& what) {
    atbus_request arrived{what, owner};
    call(user, &arrived);
  };
}

std::function<void(command&)> handler_of(const atbus_node& by, atbus_command_callback call,
                                         void* user) {
  if (call == nullptr)
    return {};
  return [call, user, owner = by.answers](command& what) {
    atbus_command arrived{what, owner};
    call(user, &arrived);
  };
}

}  // namespace

atbus_code atbus_node_on_request(atbus_node* node, uint32_t type, atbus_request_callback call,
                                 void* user) {
  return with_open(
      node, [&](atbus::node& self) { self.on_request(type, handler_of(*node, call, user)); });
}

atbus_code atbus_node_on_any_request(atbus_node* node, atbus_request_callback call, void* user) {
  return with_open(node,
                   [&](atbus::node& self) { self.on_request(handler_of(*node, call, user)); });
}

atbus_code atbus_node_on_command(atbus_node* node, const char* name, atbus_command_callback call,
                                 void* user) {
  return with_open(node, [&](atbus::node& self) {
    if (name != nullptr)
      self.on_command(name, handler_of(*node, call, user));
    else
      self.on_command(handler_of(*node, call, user));
  });
}

atbus_code atbus_node_on_undelivered(atbus_node* node, atbus_undelivered_callback call,
                                     void* user) {
  return with_open(node, [&](atbus::node& self) {
    if (call == nullptr)
      return self.on_undelivered({});
    self.on_undelivered([call, user](const undelivered& what) {
      const atbus_undelivered reported = to_c(what);
      call(user, &reported);
    });
  });
}

atbus_code atbus_node_on_endpoint(atbus_node* node, atbus_endpoint_callback call, void* user) {
  return with_open(node, [&](atbus::node& self) {
    if (call == nullptr)
      return self.on_endpoint({});
    self.on_endpoint([call, user](const endpoint& which, endpoint_event event) {
      const atbus_endpoint seen = to_c(which);
      call(user, &seen, static_cast<atbus_endpoint_event>(event));
    });
  });
}

atbus_code atbus_node_on_writable(atbus_node* node, atbus_writable_callback call, void* user) {
  return with_open(node, [&](atbus::node& self) {
    if (call == nullptr)
      return self.on_writable({});
    self.on_writable([call, user](bus_id id) { call(user, id.value()); });
  });
}

atbus_code atbus_node_on_log(atbus_node* node, atbus_log_callback call, void* user) {
  return with_open(node, [&](atbus::node& self) {
    if (call == nullptr)
      return self.on_log({});
    self.on_log([call, user](std::string_view line) { call(user, line.data(), line.size()); });
  });
}

atbus_code atbus_node_on_ready(atbus_node* node, uint64_t id, int64_t timeout_ns,
                               atbus_ready_callback call, void* user) {
  return with(node, [&](atbus_node& of) {
    if (call == nullptr)
      return refuse_null("the callback");
    return code_of(of.self.on_ready(bus_id{id}, nanoseconds{timeout_ns}, [call, user](status how) {
      call(user, static_cast<atbus_code>(how.code()));
    }));
  });
}
