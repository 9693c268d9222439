// A node of Python, and what it is asked.
//
// Handlers may have references to their node, and it to them: close() ends that.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lock.h"
#include "simulation.h"
#include "values.h"

namespace atbus_python {

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
  // One of a simulation.
  node(atbus_node* taken, std::shared_ptr<simulated_bus> of) noexcept
      : bus_(std::move(of)), self_(taken) {}
  node(const node&) = delete;
  node& operator=(const node&) = delete;
  ~node() { free(); }

  // Nothing else uses the node when the last reference to it goes, on whatever thread that is.
  void free() noexcept {
    atbus_node* const ended = std::exchange(self_, nullptr);
    if (ended == nullptr)
      return;
    if (bus_ != nullptr)
      return bus_->free(ended, is_closed_);
    atbus_node_adopt(ended);
    atbus_node_free(ended);
  }
  [[nodiscard]] bool is_simulated() const noexcept { return bus_ != nullptr; }
  // Handlers may have references to the node, and it to them.
  void forget_handlers() noexcept {
    is_closed_ = true;
    for (nb::object* one : {&on_message, &on_request, &on_command, &on_undelivered, &on_endpoint,
                            &on_writable, &on_log})
      *one = {};
    // Their finalizers may set others.
    const std::map<std::uint32_t, nb::object> old = std::exchange(on_request_of, {});
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
    raised().raise();
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
    } catch (
        abi::__forced_unwind&) {  // before what it leaves lets go of objects, which needs the lock
      stay_here();
    }
    return {};
  }
  void keep(nb::python_error& thrown) noexcept { raised().keep(thrown); }

  nb::object on_message, on_request, on_command, on_undelivered, on_endpoint, on_writable, on_log;
  std::map<std::uint32_t, nb::object> on_request_of;

 private:
  // What runs a simulated node runs others too, and raises what their handlers raised.
  [[nodiscard]] raised_first& raised() noexcept { return bus_ != nullptr ? bus_->raised : raised_; }

  const std::shared_ptr<simulated_bus> bus_;  // null: it is not simulated
  atbus_node* self_ = nullptr;
  raised_first raised_;
  bool is_closed_ = false;
};

inline node& node_of(void* user) {
  return *static_cast<node*>(user);
}

}  // namespace atbus_python
