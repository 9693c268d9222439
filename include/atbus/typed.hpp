/// @file
/// Messages, requests and responses that are values of C++ types instead of bytes.
///
/// ```cpp
/// struct position {
///   static constexpr std::uint32_t message_type = 12;
///   double x, y;
/// };
///
/// node.on<position>([](const position& p, const atbus::message& m) { move(m.source(), p); });
/// node.send(2, position{1, 2});
///
/// node.on_request<query>([](const query& q) { return look_up(q); });   // replies with an answer
/// auto r = co_await node.request<answer>(2, query{"maps"}, 1s);         // a typed_response<answer>
/// ```
///
/// A type travels if it has a number and a codec. The number is `T::message_type`, or that of a
/// specialization of message_type for types of others. There is a codec for structs that can be
/// copied byte by byte, which travel in place; atbus/msgpack.hpp adds one for types with
/// MSGPACK_DEFINE; specialize `codec` for all else, such as protobuf:
///
/// ```cpp
/// template <std::derived_from<google::protobuf::MessageLite> T>
/// struct atbus::codec<T> {
///   static std::size_t size(const T& value) { return value.ByteSizeLong(); }
///   static void write(const T& value, atbus::mutable_bytes to) {
///     value.SerializeToArray(to.data(), static_cast<int>(to.size()));
///   }
///   static bool read(atbus::bytes_view from, T& value) {
///     return value.ParseFromArray(from.data(), static_cast<int>(from.size()));
///   }
/// };
/// ```
///
/// A message whose bytes its codec refuses reaches no handler of its type: node_stats::malformed
/// counts it and on_log names it. A request of that kind fails, and a response has the outcome
/// `malformed`. Structs carry neither names nor versions: both ends need the same declaration, and
/// only their size is checked.
///
/// GCC 12 destroys a temporary like `order{"pear", 1}` twice if it stands inside a co_await and owns
/// memory. Give such a value a name: `const order pear{"pear", 1}; co_await node.request<...>(2, pear, 1s)`.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/request.hpp"
#include "atbus/status.hpp"

namespace atbus {

/// The number of a type's messages, as message_type<T>::value. Specialize it for types that have no
/// member `message_type`.
template <class T>
struct message_type : std::integral_constant<std::uint32_t, T::message_type> {};

/// How a value becomes bytes, and bytes become a value. A codec has, to write, one of
///
///     static bytes_view bytes(const T&)                 bytes that are valid as long as the value is
///     static std::size_t size(const T&) and
///     static void write(const T&, mutable_bytes)        exactly as many
///     static void append(const T&, std::vector<std::byte>&)
///
/// and, to read, one of
///
///     static const T* view(bytes_view)                  the value in place; null: malformed
///     static bool read(bytes_view, T&)                  false: malformed
///
/// The bytes to read are aligned to 8 bytes. They may come from anywhere: a codec checks them.
template <class T>
struct codec;

namespace detail {

// They can be copied byte by byte, but what they point to stays behind.
template <class T>
inline constexpr bool is_view = false;
template <class Char, class Traits>
inline constexpr bool is_view<std::basic_string_view<Char, Traits>> = true;
template <class Item, std::size_t extent>
inline constexpr bool is_view<std::span<Item, extent>> = true;

template <class T>
concept defines_msgpack = requires {
  &T::msgpack_unpack;
};

}  // namespace detail

/// A struct that can be copied byte by byte and has no stricter alignment than 8; no string_view
/// and no span. Its padding travels as it is. It must have no pointers. One with MSGPACK_DEFINE
/// travels as msgpack all the same (msgpack.hpp).
template <class T>
requires std::is_trivially_copyable_v<T> && std::is_class_v<T> &&(alignof(T) <= 8) &&
    (!std::is_empty_v<T>)&&(!detail::is_view<T>)&&(!detail::defines_msgpack<T>)struct codec<T> {
  /// The bytes of the value itself.
  static bytes_view bytes(const T& value) noexcept {
    return {reinterpret_cast<const std::byte*>(&value), sizeof(T)};
  }
  /// The value in place, if there are exactly as many bytes as it has.
  static const T* view(bytes_view from) noexcept {
    return from.size() == sizeof(T) ? reinterpret_cast<const T*>(from.data()) : nullptr;
  }
};

/// A type that has a codec: the body of a response.
template <class T>
concept has_codec = requires(const T& value, bytes_view bytes) {
  requires requires {
    codec<T>::bytes(value);
  } || requires {
    codec<T>::size(value);
  } || requires(std::vector<std::byte> & to) {
    codec<T>::append(value, to);
  };
  requires requires {
    codec<T>::view(bytes);
  } || requires(T & to) {
    codec<T>::read(bytes, to);
  };
};

/// A type that has a number, too: a message or a request.
template <class T>
concept typed_message = has_codec<T> && requires {
  { message_type<T>::value } -> std::convertible_to<std::uint32_t>;
};

/// The outcome of a request with typed bodies.
template <class Reply>
class typed_response {
 public:
  /// Reads the response. Without memory for it, the outcome is out_of_memory.
  explicit typed_response(const response& from) : how_(from.how()), source_(from.source()) {
    read(from.bytes());
  }
  /// Reads the response.
  explicit typed_response(const kept_response& from) : how_(from.how()), source_(from.source()) {
    read(from.bytes());
  }

  /// Whether there is a reply.
  explicit operator bool() const noexcept { return static_cast<bool>(how_); }
  /// The outcome; see response::how. malformed: the reply is none of that type.
  [[nodiscard]] status how() const noexcept { return how_; }
  /// The node that was asked.
  [[nodiscard]] bus_id source() const noexcept { return source_; }
  /// The reply; there must be one.
  [[nodiscard]] Reply& operator*() noexcept { return *reply_; }
  /// The reply; there must be one.
  [[nodiscard]] const Reply& operator*() const noexcept { return *reply_; }
  /// The reply; there must be one.
  [[nodiscard]] const Reply* operator->() const noexcept { return &*reply_; }
  /// Of request_failed, the reason.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  void read(bytes_view bytes) {
    try {
      read_into(bytes);
    } catch (const std::bad_alloc&) {
      reply_.reset();
      how_ = errc::out_of_memory;
    }
  }
  void read_into(bytes_view bytes) {
    if (!how_) {
      text_ = as_text(bytes);
    } else if constexpr (requires { codec<Reply>::view(bytes); }) {
      if (const Reply* const in_place = codec<Reply>::view(bytes))
        reply_ = *in_place;
      else
        how_ = errc::malformed;
    } else {
      if (!codec<Reply>::read(bytes, reply_.emplace()))
        how_ = errc::malformed;
    }
  }

  status how_;
  bus_id source_;
  std::optional<Reply> reply_;
  std::string text_;
};

namespace detail {

// Calls `use` with the bytes of the value; they are valid until it returns.
template <class T, class Use>
decltype(auto) with_bytes_of(const T& value, Use&& use) {
  if constexpr (requires { codec<T>::bytes(value); }) {
    return use(bytes_view{codec<T>::bytes(value)});
  } else {
    std::vector<std::byte> bytes;
    if constexpr (requires { codec<T>::size(value); }) {
      bytes.resize(codec<T>::size(value));
      codec<T>::write(value, mutable_bytes{bytes});
    } else {
      codec<T>::append(value, bytes);
    }
    return use(bytes_view{bytes});
  }
}

// Calls `use` with the value that the bytes are. False: they are none.
template <class T, class Use>
bool with_value_of(bytes_view bytes, Use&& use) {
  if constexpr (requires { codec<T>::view(bytes); }) {
    const T* const in_place = codec<T>::view(bytes);
    if (in_place == nullptr)
      return false;
    use(*in_place);
  } else {
    T value{};
    if (!codec<T>::read(bytes, value))
      return false;
    use(std::as_const(value));
  }
  return true;
}

// One address for each type.
template <class T>
inline constexpr char type_tag = 0;

// A handler of values of that type, as one of messages or requests.
template <class T, class Handler, class Carrier>
bool call_typed(Handler& handler, Carrier& carrier) {
  return with_value_of<T>(carrier.bytes(), [&](const T& value) {
    if constexpr (std::invocable<Handler&, const T&, Carrier&>)
      handler(value, carrier);
    else if constexpr (std::is_void_v<std::invoke_result_t<Handler&, const T&>>)
      handler(value);
    else
      carrier.reply(handler(value));
  });
}

}  // namespace detail

template <class T>
requires(!std::convertible_to<const T&, bytes_view> &&
         !std::convertible_to<const T&, std::string_view>) status request::reply(const T& value) {
  static_assert(has_codec<T>, "the type has no codec: see atbus/typed.hpp");
  return detail::with_bytes_of(value, [this](bytes_view bytes) { return reply(bytes); });
}

/// What `co_await node.request<Reply>(...)` waits for. Works in any coroutine type.
template <class Reply>
class typed_request_awaitable {
 public:
  /// Made by nodes: `make` makes the awaitable of the bytes.
  template <class T, class Make>
  typed_request_awaitable(const T& value, Make&& make)
      : bytes_(copy_of(value)), wait_(make(bytes_.empty() ? stable_bytes(value) : bytes_)) {}

  /// Always false: the coroutine waits for the response.
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  /// Sends the request. False: it was refused, and the coroutine goes on at once.
  bool await_suspend(std::coroutine_handle<> waiting) { return wait_.await_suspend(waiting); }
  /// The response; or, of a request that was refused, the error of node::request as its outcome.
  [[nodiscard]] typed_response<Reply> await_resume() {
    return typed_response<Reply>{wait_.await_resume()};
  }

 private:
  template <class T>
  static bytes_view stable_bytes(const T& value) noexcept {
    if constexpr (requires { codec<T>::bytes(value); })
      return codec<T>::bytes(value);
    else
      return {};
  }
  template <class T>
  static std::vector<std::byte> copy_of(const T& value) {
    std::vector<std::byte> bytes;
    if constexpr (!requires { codec<T>::bytes(value); })
      detail::with_bytes_of(value, [&](bytes_view all) { bytes.assign(all.begin(), all.end()); });
    return bytes;
  }

  std::vector<std::byte> bytes_;  // where the value itself is not its bytes
  request_awaitable wait_;
};

}  // namespace atbus
