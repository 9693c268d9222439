// The functions of C, from outside: what these tests link shows nothing else.
#pragma once

#include <atbus/atbus.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace atbus_c_test {

using namespace std::chrono_literals;
constexpr std::int64_t second = 1'000'000'000;

inline std::string new_address() {
  static int count = 0;
  return "unix://@atbus-c-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

// A node, and a record of what its callbacks got.
class node {
 public:
  explicit node(std::uint64_t id, const atbus_node_options* options = nullptr) {
    EXPECT_EQ(atbus_node_new(id, options, &self), ATBUS_OK) << atbus_last_error();
    atbus_node_on_message(
        self,
        [](void* user, const atbus_message* m) {
          auto& of = *static_cast<node*>(user);
          of.got.emplace_back(static_cast<const char*>(m->bytes), m->size);
          of.last = *m;
        },
        this);
    atbus_node_on_undelivered(
        self,
        [](void* user, const atbus_undelivered* what) {
          static_cast<node*>(user)->reasons.push_back(what->reason);
        },
        this);
    atbus_node_on_endpoint(
        self,
        [](void* user, const atbus_endpoint*, atbus_endpoint_event event) {
          static_cast<node*>(user)->events.push_back(event);
        },
        this);
  }
  node(const node&) = delete;
  node& operator=(const node&) = delete;
  ~node() { atbus_node_free(self); }

  [[nodiscard]] bool is_connected() const {
    return !events.empty() && events.back() == ATBUS_ENDPOINT_CONNECTED;
  }

  atbus_node* self = nullptr;
  std::vector<std::string> got;
  atbus_message last{};
  std::vector<atbus_code> reasons;
  std::vector<atbus_endpoint_event> events;
};

class CApi : public ::testing::Test {
 protected:
  static bool until(std::initializer_list<node*> all, const std::function<bool()>& done) {
    for (const auto end = std::chrono::steady_clock::now() + 20s;
         std::chrono::steady_clock::now() < end;) {
      for (node* one : all) {
        EXPECT_EQ(atbus_node_poll(one->self, 0, 0, nullptr), ATBUS_OK);
      }
      if (done())
        return true;
    }
    return false;
  }
  static void connect(node& one, node& two) {
    ASSERT_EQ(atbus_node_listen(two.self, new_address().c_str()), ATBUS_OK) << atbus_last_error();
    ASSERT_EQ(
        atbus_node_connect(one.self, atbus_node_id(two.self), atbus_node_address(two.self, 0)),
        ATBUS_OK)
        << atbus_last_error();
    ASSERT_TRUE(until({&one, &two}, [&] { return one.is_connected() && two.is_connected(); }));
  }
};

struct outcome {
  int calls = 0;
  atbus_code code = ATBUS_OK;
  std::string text;

  static void of_response(void* user, const atbus_response* r) {
    auto& self = *static_cast<outcome*>(user);
    ++self.calls;
    self.code = r->code;
    self.text.assign(static_cast<const char*>(r->bytes), r->size);
  }
  static void of_reply(void* user, atbus_code code, const char* const* values, std::size_t count) {
    auto& self = *static_cast<outcome*>(user);
    ++self.calls;
    self.code = code;
    for (std::size_t i = 0; i != count; ++i)
      self.text.append(values[i]).append(";");
  }
};

}  // namespace atbus_c_test
