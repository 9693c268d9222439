// Python classes around the functions of atbus/atbus.h.
//
// The interpreter's lock is held while a node polls, because polling never blocks, and released while it
// waits. Exceptions of handlers are kept, and raised by the poll that called them.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "handlers.h"
#include "lock.h"
#include "node.h"
#include "options.h"

namespace atbus_python {

node::node(std::uint64_t id, const nb::dict& given) {
  atbus_node_options options;
  option_texts texts;
  set_options(options, given, texts);
  check(atbus_node_new(id, &options, &self_));
}

namespace {

void send(node& of, std::uint64_t to, std::uint32_t type, nb::handle data) {
  const buffer bytes{data};
  check(atbus_node_send(of.self(), to, type, bytes.data(), bytes.size()));
}

bool try_send(node& of, std::uint64_t to, std::uint32_t type, nb::handle data) {
  const buffer bytes{data};
  const atbus_code how = atbus_node_send(of.self(), to, type, bytes.data(), bytes.size());
  if (how == ATBUS_WOULD_BLOCK)
    return false;
  check(how);
  return true;
}

void send_required(node& of, std::uint64_t to, std::uint32_t type, nb::handle data) {
  const buffer bytes{data};
  check(atbus_node_send_required(of.self(), to, type, bytes.data(), bytes.size()));
}

void broadcast(node& of, std::uint64_t prefix, unsigned length, std::uint32_t type,
               nb::handle data) {
  const buffer bytes{data};
  check(atbus_node_broadcast(of.self(), prefix, length, type, bytes.data(), bytes.size()));
}

atbus_request_handle ask(node& of, std::uint64_t to, std::uint32_t type, nb::handle data,
                         double timeout, nb::object function) {
  const buffer bytes{data};
  auto call = std::make_unique<one_call>(one_call{&of, std::move(function)});
  atbus_request_handle handle{};
  check(atbus_node_request(
      of.self(), to, type, bytes.data(), bytes.size(), to_ns(timeout),
      [](void* user, const atbus_response* r) {
        with_lock([&] {
          const std::unique_ptr<one_call> mine{static_cast<one_call*>(user)};
          try {
            mine->of->call_handler(mine->function, static_cast<int>(r->code), r->source,
                                   to_bytes(r->bytes, r->size));
          } catch (nb::python_error& thrown) {
            mine->of->keep(thrown);
          }
        });
      },
      call.get(), &handle));
  call.release();
  return handle;
}

void ask_command(node& of, std::uint64_t to, const std::vector<std::string>& words, double timeout,
                 nb::object function) {
  auto call = std::make_unique<one_call>(one_call{&of, std::move(function)});
  const std::vector<const char*> texts = pointers_to(words);
  check(atbus_node_command(
      of.self(), to, texts.data(), texts.size(), to_ns(timeout),
      [](void* user, atbus_code code, const char* const* values, std::size_t count) {
        with_lock([&] {
          const std::unique_ptr<one_call> mine{static_cast<one_call*>(user)};
          try {
            nb::list all;
            for (std::size_t i = 0; i != count; ++i)
              all.append(to_text(values[i], std::strlen(values[i])));
            mine->of->call_handler(mine->function, static_cast<int>(code), all);
          } catch (nb::python_error& thrown) {
            mine->of->keep(thrown);
          }
        });
      },
      call.get()));
  call.release();
}

std::size_t poll(node& of, std::size_t messages) {
  std::size_t delivered = 0;
  check(of.call([&] { return atbus_node_poll(of.self(), messages, 0, &delivered); }));
  return delivered;
}

// A list of messages whose data are views of one bytes object: a copy of all that has come.
nb::object receive(node& of, std::size_t messages) {
  const atbus_message* all = nullptr;
  const void* bytes = nullptr;
  std::size_t count = 0;
  std::size_t size = 0;
  const atbus_code how = atbus_node_receive(of.self(), messages, &all, &count, &bytes, &size);
  if (count == 0)  // messages go first: the next call raises what a handler has raised
    (void)of.call([&] { return how; });
  check(how);
  // What is made below may run the collector, and that finalizers, which may poll: the batch is copied before.
  const std::vector<atbus_message> mine{all, all + count};
  const nb::bytes copy = to_bytes(bytes, size);
  nb::object made = nb::steal(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!made)
    throw nb::python_error();
  Py_buffer view;
  if (PyObject_GetBuffer(copy.ptr(), &view, PyBUF_SIMPLE) != 0)
    throw nb::python_error();
  const nb::object whole = nb::steal(PyMemoryView_FromObject(copy.ptr()));
  PyBuffer_Release(&view);
  if (!whole)
    throw nb::python_error();
  Py_ssize_t at = 0;
  for (std::size_t i = 0; i != count; ++i) {
    const auto end = at + static_cast<Py_ssize_t>(mine[i].size);
    PyObject* const part = PySequence_GetSlice(whole.ptr(), at, end);
    PyList_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), make_message(mine[i], part));
    at = end;
  }
  return made;
}

// Without the lock what waits, but not what runs other nodes meanwhile.
template <class Wait>
atbus_code unlocked(const node& of, Wait&& wait) {
  std::optional<without_lock> unlocked_here;
  if (!of.is_simulated())
    unlocked_here.emplace();
  return wait();
}

bool wait(node& of, std::optional<double> timeout) {
  const std::int64_t limit = to_timeout(timeout);
  atbus_node* const self = of.self();
  const atbus_code how =
      of.call([&] { return unlocked(of, [&] { return atbus_node_wait(self, limit); }); });
  if (how == ATBUS_TIMED_OUT)
    return false;
  check(how);
  return true;
}

// False: some messages have no outcome.
bool shutdown(node& of, double deadline) {
  const std::int64_t limit = to_ns(deadline);
  atbus_node* const self = of.self();
  const atbus_code how = unlocked(of, [&] { return atbus_node_shutdown(self, limit); });
  if (atbus_node_is_open(self) == 0)
    of.forget_handlers();
  (void)of.call([&] { return how; });
  if (how == ATBUS_TIMED_OUT)
    return false;
  check(how);
  return true;
}

nb::dict stats(node& of) {
  atbus_node_stats all{};
  all.size = sizeof all;
  check(atbus_node_get_stats(of.self(), &all));
  nb::dict made;
#define ATBUS_COUNTER(name) made[#name] = all.name
  ATBUS_COUNTER(accepted);
  ATBUS_COUNTER(accepted_bytes);
  ATBUS_COUNTER(delivered);
  ATBUS_COUNTER(delivered_bytes);
  ATBUS_COUNTER(redelivered);
  ATBUS_COUNTER(commands);
  ATBUS_COUNTER(replies);
  ATBUS_COUNTER(requests);
  ATBUS_COUNTER(expired_requests);
  ATBUS_COUNTER(responses);
  ATBUS_COUNTER(late_responses);
  ATBUS_COUNTER(would_block);
  ATBUS_COUNTER(refused);
  ATBUS_COUNTER(not_delivered);
  ATBUS_COUNTER(outcome_unknown);
  ATBUS_COUNTER(deadline_drops);
  ATBUS_COUNTER(overflow_drops);
  ATBUS_COUNTER(duplicates);
  ATBUS_COUNTER(broadcast_drops);
  ATBUS_COUNTER(registrations);
  ATBUS_COUNTER(registrations_failed);
  ATBUS_COUNTER(links_lost);
  ATBUS_COUNTER(violations);
  ATBUS_COUNTER(dials);
  ATBUS_COUNTER(relayed);
  ATBUS_COUNTER(relay_drops);
  ATBUS_COUNTER(access_denied);
#undef ATBUS_COUNTER
  return made;
}

std::vector<std::string> addresses(node& of) {
  std::vector<std::string> made;
  while (const char* const one = atbus_node_address(of.self(), made.size()))
    made.emplace_back(one);
  return made;
}

// Sends through a node from another thread.
class thread_sender {
 public:
  explicit thread_sender(node& of) { check(atbus_thread_sender_new(of.self(), &self_)); }
  thread_sender(const thread_sender&) = delete;
  thread_sender& operator=(const thread_sender&) = delete;
  ~thread_sender() { atbus_thread_sender_free(self_); }

  // Waits for room, without the lock.
  void send(std::uint64_t to, std::uint32_t type, nb::handle data) {
    const buffer bytes{data};
    for (;;) {
      const atbus_code how = atbus_thread_sender_send(self_, to, type, bytes.data(), bytes.size());
      if (how != ATBUS_WOULD_BLOCK)
        return check(how);
      {
        const without_lock unlocked;
        (void)atbus_thread_sender_wait(self_, 100'000'000);
      }
      if (PyErr_CheckSignals() != 0)
        throw nb::python_error();
    }
  }

 private:
  atbus_thread_sender* self_ = nullptr;
};

void make_message_class(nb::module_& in) {
  static PyStructSequence_Field fields[] = {
      {"source", "the bus id of the node that sent it"},
      {"type", "the number that was passed to send"},
      {"data", "the payload: bytes, or of receive() a memoryview"},
      {"redelivered", "True: an earlier incarnation of this node may have handled it"},
      {nullptr, nullptr}};
  static PyStructSequence_Desc what = {"atbus.Message", "A message that has come.", fields, 4};
  message_class = PyStructSequence_NewType(&what);
  in.attr("Message") = nb::borrow(reinterpret_cast<PyObject*>(message_class));
}

}  // namespace
}  // namespace atbus_python

using namespace atbus_python;
using namespace nb::literals;

NB_MODULE(_bus, m) {
  make_message_class(m);
  m.def("set_error_class", [](nb::object which) { error_class = std::move(which); });
  m.def("code_name", [](int code) { return std::string{atbus_code_name(code)}; });
  m.def("code_text", [](int code) { return std::string{atbus_code_text(code)}; });
  m.def("version", [] { return std::string{atbus_version()}; });

  nb::class_<atbus_request_handle>(m, "RequestHandle");
  nb::class_<request>(m, "Request")
      .def_ro("source", &request::source)
      .def_ro("type", &request::type)
      .def_ro("redelivered", &request::redelivered)
      .def_ro("data", &request::data)
      .def_prop_ro("is_wanted", &request::is_wanted)
      .def("reply", &request::reply, "data"_a)
      .def("fail", &request::fail, "why"_a);
  nb::class_<command>(m, "Command")
      .def_ro("source", &command::source)
      .def_prop_ro("words",
                   [](const command& of) {
                     nb::list all;
                     for (const std::string& one : of.words)
                       all.append(to_text(one.data(), one.size()));
                     return all;
                   })
      .def("reply", &command::reply, "values"_a = std::vector<std::string>{})
      .def("fail", &command::fail, "why"_a = std::vector<std::string>{});
  nb::class_<thread_sender>(m, "ThreadSender")
      .def(nb::init<node&>())
      .def("send", &thread_sender::send, "to"_a, "type"_a, "data"_a);
  nb::class_<node>(m, "Node", nb::is_weak_referenceable())
      .def(nb::init<std::uint64_t, const nb::dict&>())
      .def("adopt", [](node& of) { check(atbus_node_adopt(of.self())); })
      .def("close",
           [](node& of) {
             const atbus_code how = atbus_node_close(of.self());
             if (how == ATBUS_OK)
               of.forget_handlers();
             check(of.call([&] { return how; }));
           })
      .def("is_open", [](node& of) { return atbus_node_is_open(of.self()) != 0; })
      .def("id", [](node& of) { return atbus_node_id(of.self()); })
      .def("incarnation", [](node& of) { return atbus_node_incarnation(of.self()); })
      .def("parent", [](node& of) { return atbus_node_parent(of.self()); })
      .def("listen",
           [](node& of, const std::string& a) { check(atbus_node_listen(of.self(), text_of(a))); })
      .def("addresses", &addresses)
      .def("connect",
           [](node& of, std::uint64_t id, const std::string& address) {
             check(atbus_node_connect(of.self(), id, text_of(address)));
           })
      .def("disconnect",
           [](node& of, std::uint64_t id) { check(atbus_node_disconnect(of.self(), id)); })
      .def("set_policy",
           [](node& of, std::uint64_t id, int overflow, double deadline) {
             check(atbus_node_set_policy(of.self(), id, overflow, to_ns(deadline)));
           })
      .def("set_tokens",
           [](node& of, const std::vector<std::string>& tokens) {
             std::vector<const char*> list = pointers_to(tokens);
             list.push_back(nullptr);
             check(atbus_node_set_tokens(of.self(), list.data()));
           })
      .def("send", &send)
      .def("try_send", &try_send)
      .def("send_required", &send_required)
      .def("broadcast", &broadcast)
      .def("request", &ask)
      .def("cancel",
           [](node& of, const atbus_request_handle& handle) {
             return atbus_node_cancel(of.self(), &handle) == ATBUS_OK;
           })
      .def("command", &ask_command)
      .def("on_message", &set_on_message, nb::arg().none())
      .def("on_request", &set_on_request, nb::arg(), nb::arg().none())
      .def("on_any_request", &set_on_any_request, nb::arg().none())
      .def("on_command", &set_on_command, nb::arg().none())
      .def("on_undelivered", &set_on_undelivered, nb::arg().none())
      .def("on_endpoint", &set_on_endpoint, nb::arg().none())
      .def("on_writable", &set_on_writable, nb::arg().none())
      .def("on_log", &set_on_log, nb::arg().none())
      .def("poll", &poll)
      .def("receive", &receive)
      .def("wait", &wait, nb::arg().none())
      .def("shutdown", &shutdown)
      .def("stop", [](node& of) { check(atbus_node_stop(of.self())); })
      .def("is_settled", [](node& of) { return atbus_node_is_settled(of.self()) != 0; })
      .def("flush", [](node& of) { check(atbus_node_flush(of.self())); })
      .def("descriptor", [](node& of) { return atbus_node_descriptor(of.self()); })
      .def("prepare_sleep", [](node& of) { return atbus_node_prepare_sleep(of.self()) != 0; })
      .def("finish_sleep", [](node& of) { check(atbus_node_finish_sleep(of.self())); })
      .def("longest_sleep", [](node& of) { return atbus_node_longest_sleep(of.self()); })
      .def("stats", &stats);
  bind_simulation(m);
}
