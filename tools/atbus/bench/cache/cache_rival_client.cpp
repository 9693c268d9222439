// A client of `bench cache` that speaks memcached's text protocol or that of redis (RESP), over one
// connection: as many gets in flight as a client that is a node has, each followed by a set if it
// is a miss.
#include <charconv>
#include <deque>
#include <stdexcept>
#include <string>

#include "atbus/bench/cache/cache_load.h"
#include "atbus/bench/cache/cache_socket.h"
#include "atbus/bench/tasks.h"

namespace atbus::bench {
namespace {

constexpr std::string_view line_end = "\r\n";
constexpr std::size_t beside_a_value = 256;  // more than what stands around it in an answer

enum class cache_answer : std::uint8_t { incomplete, hit, miss, stored, refused };

struct parsed_answer {
  cache_answer what = cache_answer::incomplete;
  std::size_t length = 0;  // of the whole answer
  std::string_view value{};
};

std::size_t number_at(std::string_view digits) {
  std::size_t number = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (code != std::errc{} || end != digits.data() + digits.size()) {
    throw std::runtime_error("the server answered \"" + std::string{digits} + "\", not a number");
  }
  return number;
}

// A value of that length behind the first line, and what follows the value.
parsed_answer with_value(std::string_view text, std::size_t line, std::size_t length,
                         std::string_view behind) {
  const std::size_t begin = line + line_end.size();
  const std::size_t whole = begin + length + behind.size();
  if (text.size() < whole) {
    return {};
  }
  if (text.substr(begin + length, behind.size()) != behind) {
    throw std::runtime_error("the server's answer does not end as it should");
  }
  return {cache_answer::hit, whole, text.substr(begin, length)};
}

[[noreturn]] void throw_unexpected(std::string_view line) {
  constexpr std::size_t most = 100;
  throw std::runtime_error("the server answered: " + std::string{line.substr(0, most)});
}

struct memcached_protocol {
  static void get(cache_connection& to, const cache_key& key) {
    to.write("get ");
    to.write({key.data(), key.size()});
    to.write(line_end);
  }
  static void begin_set(cache_connection& to, const cache_key& key, std::size_t length) {
    to.write("set ");
    to.write({key.data(), key.size()});
    to.write(" 0 0 " + std::to_string(length) + "\r\n");
  }
  // VALUE <key> <flags> <bytes>, the value, END; or END alone.
  static parsed_answer parse(std::string_view text) {
    const std::size_t end = text.find(line_end);
    if (end == text.npos) {
      return {};
    }
    const std::string_view line = text.substr(0, end);
    const std::size_t whole = end + line_end.size();
    if (line.starts_with("VALUE ")) {
      return with_value(text, end, number_at(line.substr(line.rfind(' ') + 1)), "\r\nEND\r\n");
    }
    if (line == "END") {
      return {cache_answer::miss, whole};
    }
    if (line == "STORED") {
      return {cache_answer::stored, whole};
    }
    if (line == "NOT_STORED" || line.starts_with("SERVER_ERROR")) {
      return {cache_answer::refused, whole};
    }
    throw_unexpected(line);
  }
};

struct redis_protocol {
  static void get(cache_connection& to, const cache_key& key) {
    to.write("*2\r\n$3\r\nGET\r\n$16\r\n");
    to.write({key.data(), key.size()});
    to.write(line_end);
  }
  static void begin_set(cache_connection& to, const cache_key& key, std::size_t length) {
    to.write("*3\r\n$3\r\nSET\r\n$16\r\n");
    to.write({key.data(), key.size()});
    to.write("\r\n$" + std::to_string(length) + "\r\n");
  }
  // $<bytes> and the value, or $-1.
  static parsed_answer parse(std::string_view text) {
    static_assert(cache_key_bytes == 16);
    const std::size_t end = text.find(line_end);
    if (end == text.npos) {
      return {};
    }
    const std::string_view line = text.substr(0, end);
    const std::size_t whole = end + line_end.size();
    if (line == "$-1") {
      return {cache_answer::miss, whole};
    }
    if (line.starts_with('$')) {
      return with_value(text, end, number_at(line.substr(1)), line_end);
    }
    if (line == "+OK") {
      return {cache_answer::stored, whole};
    }
    if (line.starts_with("-OOM")) {
      return {cache_answer::refused, whole};
    }
    throw_unexpected(line);
  }
};

template <class Protocol>
class rival_client {
 public:
  explicit rival_client(worker& self)
      : self_{self},
        load_{self},
        filler_(load_.cases().longest(), 'Z'),
        connection_{self.address_of(0), load_.cases().longest() + beside_a_value} {}

  void run() {
    bool has_ended = false;
    std::int64_t give_up_ns = 0;
    while (!has_ended || !waiting_.empty()) {
      while (!has_ended && waiting_.size() != load_.work().in_flight) {
        const std::optional<cache_case> next = load_.next();
        has_ended = !next;
        if (next) {
          Protocol::get(connection_, cache_cases::key(next->number));
          waiting_.push_back({*next, false});
        }
      }
      if (!connection_.move()) {
        connection_.wait();
      }
      take_answers();
      if (self_.stopped()) {
        constexpr std::int64_t patience_ns = 2 * ns_per_s;
        give_up_ns = give_up_ns == 0 ? now_ns() + patience_ns : give_up_ns;
        if (now_ns() > give_up_ns) {
          break;
        }
      }
    }
    load_.end(waiting_.empty());
    self_.finish(load_.figures());
  }

 private:
  struct access {
    cache_case of;
    bool is_set;
  };

  // Answers come in the order of the requests.
  void take_answers() {
    for (;;) {
      const parsed_answer answer = Protocol::parse(connection_.received());
      if (answer.what == cache_answer::incomplete) {
        return;
      }
      if (waiting_.empty()) {
        throw std::runtime_error("the server answered what was not asked");
      }
      const access first = waiting_.front();
      const bool is_of_set =
          answer.what == cache_answer::stored || answer.what == cache_answer::refused;
      if (is_of_set != first.is_set) {
        throw_unexpected(connection_.received());
      }
      waiting_.pop_front();
      take(answer, first.of);
      connection_.drop(answer.length);
    }
  }

  void take(const parsed_answer& answer, const cache_case& of) {
    if (answer.what == cache_answer::hit) {
      load_.hit(of, answer.value.data(), answer.value.size());
    } else if (answer.what == cache_answer::miss) {
      load_.miss(of);
      set(of);
    } else if (answer.what == cache_answer::stored) {
      load_.stored(of);
    } else {
      load_.refused();
    }
  }

  void set(const cache_case& of) {
    const std::size_t length = load_.cases().value_bytes(of.number);
    const cache_stamp stamp = load_.cases().stamp(of.number);
    Protocol::begin_set(connection_, cache_cases::key(of.number), length);
    connection_.write(half(stamp.first));
    connection_.write_in_place(std::string_view{filler_}.substr(0, length - 2 * cache_stamp_half));
    connection_.write(half(stamp.last));
    connection_.write(line_end);
    waiting_.push_back({of, true});
  }

  static std::string_view half(const std::array<std::uint64_t, 2>& of) noexcept {
    return {reinterpret_cast<const char*>(of.data()), sizeof of};
  }

  worker& self_;
  cache_load load_;
  std::string filler_;
  cache_connection connection_;
  std::deque<access> waiting_;
};

template <class Protocol>
void run_rival_client(worker& self) {
  rival_client<Protocol> client{self};
  if (self.wait_for_start()) {
    client.run();
  }
}

}  // namespace

void ask_cache_rival(worker& self) {
  if (!self.wait_for(0, worker_state::listening)) {
    return;
  }
  if (self.work().cache.system == cache_system::memcached) {
    run_rival_client<memcached_protocol>(self);
  } else {
    run_rival_client<redis_protocol>(self);
  }
}

}  // namespace atbus::bench
