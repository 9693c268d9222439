// Values of Python as values of C, and the other way round. With the interpreter's lock.
#pragma once

#include <atbus/atbus.h>
#include <nanobind/nanobind.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lock.h"

namespace atbus_python {

namespace nb = nanobind;

inline nb::object error_class;       // atbus.Error
inline PyTypeObject* message_class;  // atbus.Message

[[noreturn]] inline void raise(int code, const std::string& text) {
  nb::object made;
  try {
    made = error_class(code, text);
  } catch (abi::__forced_unwind&) {  // nanobind would catch it, and end the process
    stay_here();
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

inline void check(atbus_code code) {
  if (code != ATBUS_OK) [[unlikely]]
    raise(code, atbus_last_error());
}

// The first exception that handlers of one turn raised; others are written to standard error.
class raised_first {
 public:
  void keep(nb::python_error& thrown) noexcept {
    if (!first_) {
      first_ = nb::borrow(thrown.value());
      return;
    }
    thrown.restore();
    PyErr_WriteUnraisable(nullptr);
  }
  void raise() {
    if (!first_)
      return;
    const nb::object first = std::exchange(first_, {});
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(first.ptr())), first.ptr());
    throw nb::python_error();
  }
  [[nodiscard]] explicit operator bool() const noexcept { return first_.is_valid(); }

 private:
  nb::object first_;
};

inline std::int64_t to_ns(double seconds) {
  constexpr double most = 9e9;  // seconds: what an int64 of nanoseconds holds
  if (std::isnan(seconds))
    raise(ATBUS_INVALID_ARGUMENT, "a time is not a number");
  return seconds >= most    ? ATBUS_FOR_EVER
         : seconds <= -most ? -ATBUS_FOR_EVER
                            : static_cast<std::int64_t>(seconds * 1e9);
}

// None: no limit.
inline std::int64_t to_timeout(std::optional<double> seconds) {
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

inline nb::bytes to_bytes(const void* data, std::size_t size) {
  return nb::bytes(static_cast<const char*>(data), size);
}

// Bytes that are no UTF-8 are escaped.
inline nb::object to_text(const char* data, std::size_t size) {
  PyObject* const made =
      PyUnicode_DecodeUTF8(data, static_cast<Py_ssize_t>(size), "backslashreplace");
  if (made == nullptr)
    throw nb::python_error();
  return nb::steal(made);
}

// Steals `data`.
inline PyObject* make_message(const atbus_message& from, PyObject* data) {
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

// C would take what is in front of a zero byte for all of it.
inline const char* text_of(const std::string& from) {
  if (from.find('\0') != std::string::npos)
    raise(ATBUS_INVALID_ARGUMENT, "a text has a zero byte in it");
  return from.c_str();
}

inline std::vector<const char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<const char*> made;
  for (const std::string& one : texts)
    made.push_back(text_of(one));
  return made;
}

}  // namespace atbus_python
