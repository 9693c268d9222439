// Python classes around the functions of atbus/atbus.h.
//
// The interpreter's lock is held while a node polls, because polling never blocks, and released while it
// waits. Exceptions of handlers are kept, and raised by the poll that called them.
#include <atbus/atbus.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

nb::object error_class;       // atbus.Error
PyTypeObject* message_class;  // atbus.Message

[[noreturn]] void raise(int code, const std::string& text) {
  const nb::object made = error_class(code, text);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

void check(atbus_code code) {
  if (code != ATBUS_OK) [[unlikely]]
    raise(code, atbus_last_error());
}

std::int64_t to_ns(double seconds) {
  constexpr double most = 9e9;  // seconds: what an int64 of nanoseconds holds
  if (std::isnan(seconds))
    raise(ATBUS_INVALID_ARGUMENT, "a time is not a number");
  return seconds >= most    ? ATBUS_FOR_EVER
         : seconds <= -most ? -ATBUS_FOR_EVER
                            : static_cast<std::int64_t>(seconds * 1e9);
}

// None: no limit.
std::int64_t to_timeout(std::optional<double> seconds) {
  return seconds ? to_ns(*seconds < 0 ? 0 : *seconds) : -1;
}

// The bytes of any object that has a buffer, or of a str in UTF-8.
class buffer {
 public:
  explicit buffer(nb::handle of) {
    if (PyBytes_CheckExact(of.ptr())) {
      data_ = PyBytes_AS_STRING(of.ptr());
      size_ = static_cast<std::size_t>(PyBytes_GET_SIZE(of.ptr()));
    } else if (PyUnicode_Check(of.ptr())) {
      Py_ssize_t size = 0;
      data_ = PyUnicode_AsUTF8AndSize(of.ptr(), &size);
      if (data_ == nullptr)
        throw nb::python_error();
      size_ = static_cast<std::size_t>(size);
    } else {
      if (PyObject_GetBuffer(of.ptr(), &view_, PyBUF_SIMPLE) != 0)
        throw nb::python_error();
      is_view_ = true;
      data_ = view_.buf;
      size_ = static_cast<std::size_t>(view_.len);
    }
  }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer() {
    if (is_view_)
      PyBuffer_Release(&view_);
  }
  [[nodiscard]] const void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  Py_buffer view_{};
  bool is_view_ = false;
  const void* data_ = nullptr;
  std::size_t size_ = 0;
};

nb::bytes to_bytes(const void* data, std::size_t size) {
  return nb::bytes(static_cast<const char*>(data), size);
}

// Bytes that are no UTF-8 are escaped.
nb::object to_text(const char* data, std::size_t size) {
  PyObject* const made =
      PyUnicode_DecodeUTF8(data, static_cast<Py_ssize_t>(size), "backslashreplace");
  if (made == nullptr)
    throw nb::python_error();
  return nb::steal(made);
}

// Steals `data`.
PyObject* make_message(const atbus_message& from, PyObject* data) {
  PyObject* const made = data != nullptr ? PyStructSequence_New(message_class) : nullptr;
  if (made == nullptr) {
    Py_XDECREF(data);
    throw nb::python_error();
  }
  PyStructSequence_SET_ITEM(made, 0, PyLong_FromUnsignedLongLong(from.source));
  PyStructSequence_SET_ITEM(made, 1, PyLong_FromUnsignedLong(from.type));
  PyStructSequence_SET_ITEM(made, 2, data);
  PyStructSequence_SET_ITEM(made, 3, PyBool_FromLong(from.redelivered));
  return made;
}

class node;

// A request or command of another node, kept until it is answered.
template <class Handle, void (*free_handle)(Handle*)>
class kept {
 public:
  explicit kept(Handle* taken) noexcept : at_(taken) {}
  kept(kept&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  kept& operator=(kept&&) = delete;
  ~kept() { free_handle(at_); }

  [[nodiscard]] Handle* at() const {
    if (at_ == nullptr)
      raise(ATBUS_INVALID_ARGUMENT, "it is answered already");
    return at_;
  }
  void end() noexcept { free_handle(std::exchange(at_, nullptr)); }

 private:
  Handle* at_;
};

class request : public kept<atbus_request, atbus_request_free> {
 public:
  explicit request(atbus_request* taken)
      : kept(taken),
        source(atbus_request_source(taken)),
        type(atbus_request_type(taken)),
        redelivered(atbus_request_redelivered(taken) != 0) {
    std::size_t size = 0;
    const void* const bytes = atbus_request_bytes(taken, &size);
    data = to_bytes(bytes, size);
  }
  void reply(nb::handle value) {
    const buffer bytes{value};
    check(atbus_request_reply(at(), bytes.data(), bytes.size()));
    end();
  }
  void fail(const std::string& why) {
    check(atbus_request_fail(at(), why.data(), why.size()));
    end();
  }
  [[nodiscard]] bool is_wanted() const { return atbus_request_is_wanted(at()) != 0; }

  std::uint64_t source;
  std::uint32_t type;
  bool redelivered;
  nb::object data;
};

std::vector<const char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<const char*> made;
  for (const std::string& one : texts)
    made.push_back(one.c_str());
  return made;
}

class command : public kept<atbus_command, atbus_command_free> {
 public:
  explicit command(atbus_command* taken) : kept(taken), source(atbus_command_source(taken)) {
    for (std::size_t i = 0; const char* const word = atbus_command_word(taken, i); ++i)
      words.emplace_back(word);
  }
  void reply(const std::vector<std::string>& values) {
    check(atbus_command_reply(at(), pointers_to(values).data(), values.size()));
    end();
  }
  void fail(const std::vector<std::string>& why) {
    check(atbus_command_fail(at(), pointers_to(why).data(), why.size()));
    end();
  }

  std::uint64_t source;
  std::vector<std::string> words;
};

// A function of Python that is called once, with the lock; owned by the call.
struct one_call {
  node* of;
  nb::object function;
};

class node {
 public:
  node(std::uint64_t id, const nb::dict& given);
  node(const node&) = delete;
  node& operator=(const node&) = delete;
  ~node() { free(); }

  // Nothing else uses the node when the last reference to it goes, on whatever thread that is.
  void free() noexcept {
    if (self_ == nullptr)
      return;
    atbus_node_adopt(self_);
    atbus_node_free(self_);
    self_ = nullptr;
  }
  // Handlers may have references to the node, and it to them.
  void forget_handlers() noexcept {
    for (nb::object* one : {&on_message, &on_request, &on_command, &on_undelivered, &on_endpoint,
                            &on_writable, &on_log})
      *one = {};
    on_request_of.clear();
  }
  [[nodiscard]] atbus_node* self() const {
    if (self_ == nullptr)
      raise(ATBUS_CLOSED, atbus_code_text(ATBUS_CLOSED));
    return self_;
  }

  // Runs what calls handlers, and raises what they raised.
  template <class What>
  atbus_code call(What&& what) {
    const atbus_code how = what();
    if (raised_) {
      nb::object first = std::exchange(raised_, {});
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(first.ptr())), first.ptr());
      throw nb::python_error();
    }
    return how;
  }
  // Calls a function of Python from a callback of C.
  template <class... Arguments>
  nb::object call_handler(const nb::object& function, Arguments&&... arguments) noexcept {
    if (!function)
      return {};  // it was removed in this poll
    try {
      return function(std::forward<Arguments>(arguments)...);
    } catch (nb::python_error& thrown) {
      keep(thrown);
    } catch (const std::exception& thrown) {
      PyErr_SetString(PyExc_RuntimeError, thrown.what());
      nb::python_error made;
      keep(made);
    }
    return {};
  }
  void keep(nb::python_error& thrown) noexcept {
    if (!raised_) {
      raised_ = nb::borrow(thrown.value());
      return;
    }
    thrown.restore();
    PyErr_WriteUnraisable(nullptr);
  }

  nb::object on_message, on_request, on_command, on_undelivered, on_endpoint, on_writable, on_log;
  std::map<std::uint32_t, nb::object> on_request_of;

 private:
  atbus_node* self_ = nullptr;
  nb::object raised_;
};

// What keeps the texts of options alive until the node has copied them.
struct option_texts {
  std::vector<std::string> tokens, parents;
  std::vector<const char*> token_list, parent_list;
  std::vector<std::unique_ptr<std::string>> others;

  const char* keep(nb::handle value) {
    return others.emplace_back(std::make_unique<std::string>(nb::cast<std::string>(value)))
        ->c_str();
  }
};

std::vector<std::string> texts_of(nb::handle value) {
  if (nb::isinstance<nb::str>(value))
    return {nb::cast<std::string>(value)};
  return nb::cast<std::vector<std::string>>(value);
}

bool set_text(atbus_node_options& to, const std::string& name, nb::handle value,
              option_texts& all) {
  const std::pair<const char*, const char**> places[] = {
      {"circuit_secret", &to.circuit_secret},
      {"certificate_chain", &to.certificate_chain},
      {"certificate_key", &to.certificate_key},
      {"certificate_authority", &to.certificate_authority},
      {"access", &to.access},
      {"directory", &to.directory},
      {"children", &to.children}};
  for (const auto& [key, place] : places) {
    if (name == key) {
      *place = all.keep(value);
      return true;
    }
  }
  return false;
}

bool set_time(atbus_node_options& to, const std::string& name, nb::handle value) {
  const std::pair<const char*, std::int64_t*> places[] = {
      {"first_idle_timeout", &to.first_idle_timeout_ns},
      {"ping_interval", &to.ping_interval_ns},
      {"retry_first", &to.retry_first_ns},
      {"retry_longest", &to.retry_longest_ns},
      {"message_deadline", &to.message_deadline_ns},
      {"drain", &to.drain_ns},
      {"strangers_first_byte_timeout", &to.strangers_first_byte_timeout_ns}};
  for (const auto& [key, place] : places) {
    if (name == key) {
      *place = to_ns(nb::cast<double>(value));
      return true;
    }
  }
  return false;
}

bool set_amount(atbus_node_options& to, const std::string& name, nb::handle value) {
  const std::pair<const char*, std::uint64_t*> large[] = {
      {"message_limit", &to.message_limit},
      {"send_buffer_size", &to.send_buffer_size},
      {"send_buffer_number", &to.send_buffer_number},
      {"sessions", &to.sessions},
      {"clients", &to.clients},
      {"requests", &to.requests},
      {"strangers_bytes", &to.strangers_bytes}};
  for (const auto& [key, place] : large) {
    if (name == key) {
      *place = nb::cast<std::uint64_t>(value);
      return true;
    }
  }
  const std::pair<const char*, std::uint32_t*> small[] = {
      {"fault_tolerance", &to.fault_tolerance},
      {"connections", &to.connections},
      {"unconfirmed", &to.unconfirmed},
      {"strangers_per_address", &to.strangers_per_address},
      {"strangers_handshakes_per_second", &to.strangers_handshakes_per_second}};
  for (const auto& [key, place] : small) {
    if (name == key) {
      *place = nb::cast<std::uint32_t>(value);
      return true;
    }
  }
  const std::pair<const char*, int*> flags[] = {
      {"allow_unauthenticated", &to.allow_unauthenticated},
      {"allow_unencrypted", &to.allow_unencrypted},
      {"overflow", &to.overflow},
      {"restart", &to.restart}};
  for (const auto& [key, place] : flags) {
    if (name == key) {
      *place = nb::cast<int>(value);
      return true;
    }
  }
  return false;
}

void set_list(std::vector<std::string>& texts, std::vector<const char*>& list,
              const char* const*& place, nb::handle value) {
  texts = texts_of(value);
  list = pointers_to(texts);
  list.push_back(nullptr);
  place = list.data();
}

void set_option(atbus_node_options& to, const std::string& name, nb::handle value,
                option_texts& all) {
  try {
    if (name == "token")
      return set_list(all.tokens, all.token_list, to.tokens, value);
    if (name == "parent")
      return set_list(all.parents, all.parent_list, to.parents, value);
    if (set_text(to, name, value, all) || set_time(to, name, value) || set_amount(to, name, value))
      return;
  } catch (const nb::cast_error&) {
    raise(ATBUS_INVALID_ARGUMENT, "the option " + name + " has a value of the wrong type");
  }
  raise(ATBUS_INVALID_ARGUMENT, "there is no option " + name);
}

node::node(std::uint64_t id, const nb::dict& given) {
  atbus_node_options options;
  atbus_node_options_init(&options);
  option_texts texts;
  for (const auto& [name, value] : given) {
    if (!value.is_none())
      set_option(options, nb::cast<std::string>(name), value, texts);
  }
  check(atbus_node_new(id, &options, &self_));
}

node& node_of(void* user) {
  return *static_cast<node*>(user);
}

void set_on_message(node& of, nb::object handler) {
  of.on_message = handler.is_none() ? nb::object{} : std::move(handler);
  if (!of.on_message)
    return check(atbus_node_on_message(of.self(), nullptr, nullptr));
  check(atbus_node_on_message(
      of.self(),
      [](void* user, const atbus_message* m) {
        const nb::gil_scoped_acquire lock;
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
      },
      &of));
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
  of.on_request = handler.is_none() ? nb::object{} : std::move(handler);
  if (!of.on_request)
    return check(atbus_node_on_any_request(of.self(), nullptr, nullptr));
  check(atbus_node_on_any_request(
      of.self(),
      [](void* user, atbus_request* r) {
        const nb::gil_scoped_acquire lock;
        const nb::object handler = node_of(user).on_request;
        call_request_handler(node_of(user), handler, r);
      },
      &of));
}

void set_on_request(node& of, std::uint32_t type, nb::object handler) {
  if (handler.is_none()) {
    of.on_request_of.erase(type);
    return check(atbus_node_on_request(of.self(), type, nullptr, nullptr));
  }
  of.on_request_of.insert_or_assign(type, std::move(handler));
  check(atbus_node_on_request(
      of.self(), type,
      [](void* user, atbus_request* r) {
        const nb::gil_scoped_acquire lock;
        node& self = node_of(user);
        const auto found = self.on_request_of.find(atbus_request_type(r));
        if (found == self.on_request_of.end())
          return;
        const nb::object handler = found->second;
        call_request_handler(self, handler, r);
      },
      &of));
}

void set_on_command(node& of, nb::object handler) {
  of.on_command = handler.is_none() ? nb::object{} : std::move(handler);
  if (!of.on_command)
    return check(atbus_node_on_command(of.self(), nullptr, nullptr, nullptr));
  check(atbus_node_on_command(
      of.self(), nullptr,
      [](void* user, atbus_command* c) {
        const nb::gil_scoped_acquire lock;
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
      },
      &of));
}

void set_on_undelivered(node& of, nb::object handler) {
  of.on_undelivered = handler.is_none() ? nb::object{} : std::move(handler);
  if (!of.on_undelivered)
    return check(atbus_node_on_undelivered(of.self(), nullptr, nullptr));
  check(atbus_node_on_undelivered(
      of.self(),
      [](void* user, const atbus_undelivered* what) {
        const nb::gil_scoped_acquire lock;
        const nb::object handler = node_of(user).on_undelivered;
        node_of(user).call_handler(
            handler, what->destination, what->type, to_bytes(what->bytes, what->size),
            static_cast<int>(what->outcome), static_cast<int>(what->reason), what->count);
      },
      &of));
}

void set_on_endpoint(node& of, nb::object handler) {
  of.on_endpoint = handler.is_none() ? nb::object{} : std::move(handler);
  if (!of.on_endpoint)
    return check(atbus_node_on_endpoint(of.self(), nullptr, nullptr));
  check(atbus_node_on_endpoint(
      of.self(),
      [](void* user, const atbus_endpoint* which, atbus_endpoint_event event) {
        const nb::gil_scoped_acquire lock;
        const nb::object handler = node_of(user).on_endpoint;
        node_of(user).call_handler(handler, which->id, static_cast<int>(event));
      },
      &of));
}

void set_on_writable(node& of, nb::object handler) {
  of.on_writable = handler.is_none() ? nb::object{} : std::move(handler);
  if (!of.on_writable)
    return check(atbus_node_on_writable(of.self(), nullptr, nullptr));
  check(atbus_node_on_writable(
      of.self(),
      [](void* user, std::uint64_t id) {
        const nb::gil_scoped_acquire lock;
        const nb::object handler = node_of(user).on_writable;
        node_of(user).call_handler(handler, id);
      },
      &of));
}

void set_on_log(node& of, nb::object handler) {
  of.on_log = handler.is_none() ? nb::object{} : std::move(handler);
  if (!of.on_log)
    return check(atbus_node_on_log(of.self(), nullptr, nullptr));
  check(atbus_node_on_log(
      of.self(),
      [](void* user, const char* line, std::size_t size) {
        const nb::gil_scoped_acquire lock;
        const nb::object handler = node_of(user).on_log;
        try {
          node_of(user).call_handler(handler, to_text(line, size));
        } catch (nb::python_error& thrown) {
          node_of(user).keep(thrown);
        }
      },
      &of));
}

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
        const nb::gil_scoped_acquire lock;
        const std::unique_ptr<one_call> mine{static_cast<one_call*>(user)};
        try {
          mine->of->call_handler(mine->function, static_cast<int>(r->code), r->source,
                                 to_bytes(r->bytes, r->size));
        } catch (nb::python_error& thrown) {
          mine->of->keep(thrown);
        }
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
        const nb::gil_scoped_acquire lock;
        const std::unique_ptr<one_call> mine{static_cast<one_call*>(user)};
        try {
          nb::list all;
          for (std::size_t i = 0; i != count; ++i)
            all.append(to_text(values[i], std::strlen(values[i])));
          mine->of->call_handler(mine->function, static_cast<int>(code), all);
        } catch (nb::python_error& thrown) {
          mine->of->keep(thrown);
        }
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
  nb::object made = nb::steal(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!made)
    throw nb::python_error();
  const nb::bytes copy = to_bytes(bytes, size);
  Py_buffer view;
  if (PyObject_GetBuffer(copy.ptr(), &view, PyBUF_SIMPLE) != 0)
    throw nb::python_error();
  const nb::object whole = nb::steal(PyMemoryView_FromObject(copy.ptr()));
  PyBuffer_Release(&view);
  if (!whole)
    throw nb::python_error();
  Py_ssize_t at = 0;
  for (std::size_t i = 0; i != count; ++i) {
    const auto end = at + static_cast<Py_ssize_t>(all[i].size);
    PyObject* const part = PySequence_GetSlice(whole.ptr(), at, end);
    PyList_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), make_message(all[i], part));
    at = end;
  }
  return made;
}

bool wait(node& of, std::optional<double> timeout) {
  const std::int64_t limit = to_timeout(timeout);
  atbus_node* const self = of.self();
  atbus_code how = ATBUS_OK;
  {
    const nb::gil_scoped_release unlocked;
    how = atbus_node_wait(self, limit);
  }
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
        const nb::gil_scoped_release unlocked;
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
             const atbus_code how = of.call([&] { return atbus_node_close(of.self()); });
             check(how);
             of.forget_handlers();
           })
      .def("is_open", [](node& of) { return atbus_node_is_open(of.self()) != 0; })
      .def("id", [](node& of) { return atbus_node_id(of.self()); })
      .def("incarnation", [](node& of) { return atbus_node_incarnation(of.self()); })
      .def("parent", [](node& of) { return atbus_node_parent(of.self()); })
      .def("listen",
           [](node& of, const std::string& a) { check(atbus_node_listen(of.self(), a.c_str())); })
      .def("addresses", &addresses)
      .def("connect",
           [](node& of, std::uint64_t id, const std::string& address) {
             check(atbus_node_connect(of.self(), id, address.c_str()));
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
      .def("shutdown",
           [](node& of, double deadline) {
             const std::int64_t limit = to_ns(deadline);
             atbus_node* const self = of.self();
             return static_cast<int>(of.call([&] {
               const nb::gil_scoped_release unlocked;
               return atbus_node_shutdown(self, limit);
             }));
           })
      .def("flush", [](node& of) { check(atbus_node_flush(of.self())); })
      .def("descriptor", [](node& of) { return atbus_node_descriptor(of.self()); })
      .def("prepare_sleep", [](node& of) { return atbus_node_prepare_sleep(of.self()) != 0; })
      .def("finish_sleep", [](node& of) { check(atbus_node_finish_sleep(of.self())); })
      .def("longest_sleep", [](node& of) { return atbus_node_longest_sleep(of.self()); })
      .def("stats", &stats);
}
