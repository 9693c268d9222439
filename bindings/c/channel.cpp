#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "handles.h"
#include "options.h"

struct atbus_thread_sender {
  explicit atbus_thread_sender(atbus::node_sender made) : self(std::move(made)) {}

  const char* owner = nullptr;  // of the first other thread that uses it
  atbus::node_sender self;
};

struct atbus_sender {
  explicit atbus_sender(atbus::sender made) : self(std::move(made)) {}

  const char* owner = &atbus::c_api::this_thread;
  atbus::sender self;
  std::optional<atbus::message_slot> claimed;
};

struct atbus_receiver {
  atbus_receiver(atbus::receiver made, const char* first) : owner(first), self(std::move(made)) {}

  mutable const char* owner;  // null: the first thread that uses it
  atbus::receiver self;
  std::string address;  // that atbus_receiver_address has given last
};

using namespace atbus;
using namespace atbus::c_api;
using std::chrono::nanoseconds;

namespace {

bool is_usable_by_first(atbus_thread_sender* sender) noexcept {
  if (sender != nullptr && sender->owner == nullptr)
    sender->owner = &this_thread;
  return is_usable(sender);
}

bool is_usable_by_first(const atbus_receiver* receiver) noexcept {
  if (receiver != nullptr && receiver->owner == nullptr)
    receiver->owner = &this_thread;
  return is_usable(receiver);
}

// Who only asks it something does not use it: the thread that opens shards may ask for their address.
bool is_free_or_usable(const atbus_receiver* receiver) noexcept {
  return (receiver != nullptr && receiver->owner == nullptr) || is_usable(receiver);
}

}  // namespace

atbus_code atbus_thread_sender_new(atbus_node* node, atbus_thread_sender** sender) {
  if (sender == nullptr)
    return refuse_null("the place for the sender");
  *sender = nullptr;
  if (!is_usable(node))
    return ATBUS_INVALID_ARGUMENT;
  return guard([&] {
    *sender = new atbus_thread_sender{node->self.sender()};
    return ATBUS_OK;
  });
}

atbus_code atbus_thread_sender_send(atbus_thread_sender* sender, uint64_t to, uint32_t type,
                                    const void* bytes, size_t size) {
  if (!is_usable_by_first(sender) || !are_bytes(bytes, size))
    return ATBUS_INVALID_ARGUMENT;
  return code_of(sender->self.send(bus_id{to}, type, view_of(bytes, size)));
}

atbus_code atbus_thread_sender_wait(atbus_thread_sender* sender, int64_t timeout_ns) {
  if (!is_usable_by_first(sender))
    return ATBUS_INVALID_ARGUMENT;
  return guard([&] { return code_of(sender->self.wait_writable(nanoseconds{timeout_ns})); });
}

void atbus_thread_sender_free(atbus_thread_sender* sender) {
  delete sender;
}

atbus_code atbus_sender_open(const char* address, const atbus_channel_options* options,
                             atbus_sender** sender) {
  if (address == nullptr || sender == nullptr)
    return refuse_null(address == nullptr ? "the address" : "the place for the sender");
  *sender = nullptr;
  return guard([&] {
    const result<sender_options> wanted = to_sender_options(options);
    if (!wanted)
      return code_of(wanted.error());
    result<atbus::sender> made = sender::open(address, *wanted);
    if (made)
      *sender = new atbus_sender{*std::move(made)};
    return code_of(made.error());
  });
}

atbus_code atbus_sender_send(atbus_sender* sender, const void* bytes, size_t size) {
  if (!is_usable(sender) || !are_bytes(bytes, size)) [[unlikely]]
    return ATBUS_INVALID_ARGUMENT;
  return code_of(sender->self.send(view_of(bytes, size)));
}

void* atbus_sender_claim(atbus_sender* sender, size_t size, atbus_code* code) {
  atbus_code how = ATBUS_INVALID_ARGUMENT;
  void* at = nullptr;
  if (is_usable(sender)) [[likely]] {
    sender->claimed.reset();
    const message_slot& slot = sender->claimed.emplace(sender->self.claim(size));
    how = code_of(slot.why());
    if (slot) [[likely]]
      at = slot.bytes().data();
    else
      sender->claimed.reset();
  }
  if (code != nullptr)
    *code = how;
  return at;
}

atbus_code atbus_sender_commit(atbus_sender* sender, size_t size) {
  if (!is_usable(sender)) [[unlikely]]
    return ATBUS_INVALID_ARGUMENT;
  return commit(sender->claimed, size);
}

atbus_code atbus_sender_flush(atbus_sender* sender, int64_t timeout_ns) {
  if (!is_usable(sender))
    return ATBUS_INVALID_ARGUMENT;
  return guard([&] { return code_of(sender->self.flush(nanoseconds{timeout_ns})); });
}

atbus_code atbus_sender_wait_writable(atbus_sender* sender, int64_t timeout_ns) {
  if (!is_usable(sender))
    return ATBUS_INVALID_ARGUMENT;
  return guard([&] { return code_of(sender->self.wait_writable(nanoseconds{timeout_ns})); });
}

void atbus_sender_free(atbus_sender* sender) {
  if (sender != nullptr && is_usable(sender))
    delete sender;
}

atbus_code atbus_receiver_open(const char* address, const atbus_channel_options* options,
                               atbus_receiver** receiver) {
  if (address == nullptr || receiver == nullptr)
    return refuse_null(address == nullptr ? "the address" : "the place for the receiver");
  *receiver = nullptr;
  return guard([&] {
    const result<receiver_options> wanted = to_receiver_options(options);
    if (!wanted)
      return code_of(wanted.error());
    result<atbus::receiver> made = receiver::open(address, *wanted);
    if (made)
      *receiver = new atbus_receiver{*std::move(made), &this_thread};
    return code_of(made.error());
  });
}

atbus_code atbus_receiver_open_shards(const char* address, uint32_t shards,
                                      const atbus_channel_options* options,
                                      atbus_receiver** receivers) {
  if (receivers == nullptr)
    return refuse_null("the place for the receivers");
  // More places are not there, as no more may be asked for.
  if (shards <= atbus::receiver::shards_max)
    std::fill_n(receivers, shards, nullptr);
  if (address == nullptr)
    return refuse_null("the address");
  return guard([&] {
    const result<receiver_options> wanted = to_receiver_options(options);
    if (!wanted)
      return code_of(wanted.error());
    auto made = receiver::open_shards(address, shards, *wanted);
    if (!made)
      return code_of(made.error());
    std::vector<std::unique_ptr<atbus_receiver>> handles;
    for (receiver& each : *made)
      handles.push_back(std::make_unique<atbus_receiver>(std::move(each), nullptr));
    for (std::size_t i = 0; i != handles.size(); ++i)
      receivers[i] = handles[i].release();
    return ATBUS_OK;
  });
}

const char* atbus_receiver_address(atbus_receiver* receiver) {
  if (!is_free_or_usable(receiver))
    return nullptr;
  const atbus_code made = guard([&] {
    receiver->address = receiver->self.address();
    return ATBUS_OK;
  });
  return made == ATBUS_OK ? receiver->address.c_str() : nullptr;
}

atbus_code atbus_receiver_poll(atbus_receiver* receiver, size_t messages, atbus_bytes_callback each,
                               void* user, size_t* delivered) {
  if (delivered != nullptr)
    *delivered = 0;
  if (!is_usable_by_first(receiver))
    return ATBUS_INVALID_ARGUMENT;
  if (each == nullptr)
    return refuse_null("the callback");
  return guard([&] {
    if (!receiver->self.is_open())
      return code_of(status{errc::closed});
    poll_limits limits;
    if (messages != 0)
      limits.messages = messages;
    const std::size_t count = receiver->self.poll(
        [&](bytes_view bytes) { each(user, bytes.data(), bytes.size()); }, limits);
    if (delivered != nullptr)
      *delivered = count;
    return ATBUS_OK;
  });
}

atbus_code atbus_receiver_wait(atbus_receiver* receiver, int64_t timeout_ns) {
  if (!is_usable_by_first(receiver))
    return ATBUS_INVALID_ARGUMENT;
  return guard([&] { return code_of(receiver->self.wait(nanoseconds{timeout_ns})); });
}

int atbus_receiver_descriptor(const atbus_receiver* receiver) {
  return is_free_or_usable(receiver) ? receiver->self.descriptor() : -1;
}

int atbus_receiver_prepare_sleep(atbus_receiver* receiver) {
  if (!is_usable_by_first(receiver))
    return 0;
  bool ready = false;
  guard([&] {
    ready = receiver->self.prepare_sleep();
    return ATBUS_OK;
  });
  return ready ? 1 : 0;
}

atbus_code atbus_receiver_finish_sleep(atbus_receiver* receiver) {
  if (!is_usable_by_first(receiver))
    return ATBUS_INVALID_ARGUMENT;
  return guard([&] {
    receiver->self.finish_sleep();
    return ATBUS_OK;
  });
}

int64_t atbus_receiver_longest_sleep(const atbus_receiver* receiver) {
  return is_usable_by_first(receiver) ? receiver->self.longest_sleep().count() : 0;
}

atbus_code atbus_receiver_remove(atbus_receiver* receiver) {
  if (!is_usable_by_first(receiver))
    return ATBUS_INVALID_ARGUMENT;
  return guard([&] {
    error bad = receiver->self.remove();
    if (bad)
      delete receiver;
    return code_of(std::move(bad));
  });
}

void atbus_receiver_free(atbus_receiver* receiver) {
  if (receiver != nullptr && is_usable_by_first(receiver))
    delete receiver;
}
