// How a node runs: polls, batches, waiting, loops.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "node_calls.h"

using namespace atbus;
using namespace atbus::c_api;
using std::chrono::nanoseconds;

atbus_code atbus_node_poll(atbus_node* node, size_t messages, int64_t time_ns, size_t* delivered) {
  if (delivered != nullptr)
    *delivered = 0;
  return with(node, [&](atbus_node& of) {
    if (!of.self.is_open())
      return code_of(status{errc::closed});
    poll_limits limits{.time = nanoseconds{time_ns}};
    if (messages != 0)
      limits.messages = messages;
    const std::size_t count = of.self.poll(limits);  // a callback may have freed the node
    if (delivered != nullptr)
      *delivered = count;
    return ATBUS_OK;
  });
}

namespace {

void take_batches(atbus_node& of) {
  if (of.taker == nullptr) {
    auto made = std::make_shared<message_taker>(of.message_limit);
    // Within a callback this takes effect behind it; what comes before that goes to the callback of messages.
    of.self.on_message([made](const message& what) { made->take(to_c(what)); });
    detail::node_access::limit_shutdown(of.self, [made] { return made->room(); });
    of.taker = std::move(made);
  }
  of.taker->set_batches();
}

// Polls for no more messages than there is room for, however long they are.
void poll_for_batch(atbus_node& of, message_taker& into, std::size_t most) {
  struct polling {
    explicit polling(message_taker& taker) noexcept : of(taker) { of.is_polling = true; }
    ~polling() { of.is_polling = false; }
    message_taker& of;
  } const here{into};
  for (std::size_t room = into.room(most); room != 0; room = into.room(most)) {
    const std::size_t before = into.count();
    (void)of.self.poll({.messages = room});
    if (into.is_over || !of.self.is_open() || into.count() == before)
      return;
  }
}

}  // namespace

atbus_code atbus_node_receive(atbus_node* node, size_t messages, const atbus_message** array,
                              size_t* count, const void** bytes, size_t* size) {
  if (array == nullptr || count == nullptr || bytes == nullptr || size == nullptr)
    return refuse_null("a place for what has come");
  *array = nullptr;
  *bytes = nullptr;
  *count = *size = 0;
  return with(node, [&](atbus_node& of) {
    if (of.taker != nullptr && !of.taker->is_at_home())
      return code_of(status{errc::used_after_fork});
    const bool waits = of.taker != nullptr && of.taker->holds();
    if (!waits && !of.self.is_open())
      return code_of(status{errc::closed});
    if (of.taker != nullptr && of.taker->is_polling)
      return ATBUS_OK;
    take_batches(of);
    const std::shared_ptr<message_taker> taker = of.taker;  // callbacks may free the node
    const std::size_t most =
        std::min(messages != 0 ? messages : poll_limits{}.messages, longest_batch);
    taker->begin_batch(most);
    if (!waits)
      poll_for_batch(of, *taker, most);
    if (taker->is_over)
      return code_of(status{errc::closed});
    if (!taker->is_at_home())
      return code_of(status{errc::used_after_fork});
    bytes_view all;
    const std::span<const atbus_message> given = taker->give(most, all);
    *array = given.data();
    *count = given.size();
    *bytes = all.data();
    *size = all.size();
    return ATBUS_OK;
  });
}

atbus_code atbus_node_wait(atbus_node* node, int64_t timeout_ns) {
  return with(node, [&](atbus_node& of) { return code_of(of.self.wait(nanoseconds{timeout_ns})); });
}

atbus_code atbus_node_run(atbus_node* node) {
  return with(node, [](atbus_node& of) { return code_of(of.self.run()); });
}

atbus_code atbus_node_stop(atbus_node* node) {
  return with_open(node, [](atbus::node& self) { self.stop(); });
}

atbus_code atbus_node_shutdown(atbus_node* node, int64_t deadline_ns) {
  return with(node, [&](atbus_node& of) {
    if (of.taker != nullptr && of.taker->is_at_home())
      of.taker->begin_batch(poll_limits{}.messages);  // what was given takes no room
    return code_of(of.self.shutdown(nanoseconds{deadline_ns}));
  });
}

int atbus_node_is_settled(const atbus_node* node) {
  return is_usable(node) && node->self.is_settled() ? 1 : 0;
}

atbus_code atbus_node_flush(atbus_node* node) {
  return with_open(node, [](atbus::node& self) { self.flush(); });
}

int atbus_node_descriptor(const atbus_node* node) {
  return is_usable(node) ? node->self.descriptor() : -1;
}

int atbus_node_prepare_sleep(atbus_node* node) {
  bool ready = false;
  with(node, [&](atbus_node& of) {
    ready = of.self.prepare_sleep();
    return ATBUS_OK;
  });
  return ready ? 1 : 0;
}

atbus_code atbus_node_finish_sleep(atbus_node* node) {
  return with_open(node, [](atbus::node& self) { self.finish_sleep(); });
}

int64_t atbus_node_longest_sleep(const atbus_node* node) {
  return is_usable(node) ? node->self.longest_sleep().count() : 0;
}
