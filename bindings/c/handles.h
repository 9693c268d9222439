// What the handles of C stand for.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/atbus.h"
#include "atbus/bytes.hpp"
#include "atbus/node.hpp"
#include "failure.h"
#include "node/node_access.h"
#include "ownership.h"

namespace atbus::c_api {

inline constexpr std::size_t longest_batch = 65'536;  // messages

// Where messages go once atbus_node_receive was called: into batches, or to a callback again.
class message_taker {
 public:
  // With room for a message of `longest` bytes, so that receiving one takes no memory.
  explicit message_taker(std::size_t longest);

  // Not null: the callback gets them. Else they wait here.
  void set_callback(atbus_message_callback call, void* user) noexcept;
  void set_batches() noexcept { into_batches_ = true; }
  void take(const atbus_message& what);

  // False in a forked child: the messages are the parent's.
  [[nodiscard]] bool is_at_home() const noexcept { return getpid() == process_; }
  // Whether messages wait that no batch has given.
  [[nodiscard]] bool holds() const noexcept { return given_ != all_.size(); }
  // How many messages may come, however long they are, for which there is room. 0: none, or `most` wait.
  [[nodiscard]] std::size_t room(std::size_t most) const noexcept;
  // The same of what comes in between of batches; without a limit where the callback gets it.
  [[nodiscard]] std::size_t room() const noexcept;
  // How many there are.
  [[nodiscard]] std::size_t count() const noexcept { return all_.size(); }
  // What was given is not needed any more. Throws std::bad_alloc; then no message is lost.
  void begin_batch(std::size_t most);
  // The messages that wait, at most `most`, and their bytes.
  [[nodiscard]] std::span<const atbus_message> give(std::size_t most, bytes_view& bytes) noexcept;

  bool is_polling = false;  // atbus_node_receive does
  bool is_over = false;     // a callback has freed the node

 private:
  atbus_message_callback call_ = nullptr;
  void* user_ = nullptr;
  bool into_batches_ = true;
  const pid_t process_ = getpid();
  std::size_t longest_;
  std::vector<atbus_message> all_;  // in order; their pointers are set when they are given
  std::vector<std::byte> bytes_;    // its size is what it has room for
  std::size_t used_ = 0;
  std::size_t given_ = 0;        // messages
  std::size_t given_bytes_ = 0;  // of these
};

// The simulated process of a node, which refers to the node where it is.
class node_process {
 public:
  node_process() = default;
  node_process(const node_process&) = delete;
  node_process& operator=(const node_process&) = delete;

  // The handle ends; its node is closed.
  virtual void let_go() noexcept = 0;

 protected:
  ~node_process() = default;
};

}  // namespace atbus::c_api

struct atbus_node {
  atbus_node(atbus::bus_id id, const atbus::node_options& options)
      : atbus_node(atbus::node{id, options}, options.message_limit()) {}
  atbus_node(atbus::node made, std::size_t limit) : self(std::move(made)), message_limit(limit) {
    atbus::detail::node_access::before_polls(self, [all = answers] { all->collect(); });
  }
  ~atbus_node() {
    if (taker != nullptr)
      taker->is_over = true;
    answers->end();  // it was closed before
    if (process != nullptr)
      process->let_go();
  }

  void set_thread(const char* thread) noexcept {
    owner = thread;
    answers->set_thread(thread);
  }

  const char* owner = &atbus::c_api::this_thread;
  // The same for the requests and commands that it has handed out.
  std::shared_ptr<atbus::c_api::ownership> answers =
      std::make_shared<atbus::c_api::ownership>(owner);
  atbus::node self;
  bool is_freed = false;                    // atbus_node_free is at work
  std::optional<atbus::node_slot> claimed;  // ends before the node does
  std::string address;                      // that atbus_node_address has given last
  std::size_t message_limit;
  std::shared_ptr<atbus::c_api::message_taker> taker;  // once atbus_node_receive was called
  atbus::c_api::node_process* process = nullptr;       // null: this one, or it has ended
};

// In a callback `at` is what the node has; once it is detached, `kept`.
struct atbus_request final : atbus::c_api::answerable {
  atbus_request(atbus::request& of, std::shared_ptr<atbus::c_api::ownership> by) noexcept
      : answerable(std::move(by)), at(&of), bytes(of.bytes()) {}
  // May throw std::bad_alloc; then `of` is as it was.
  atbus_request(atbus::request&& of, std::shared_ptr<atbus::c_api::ownership> by)
      : answerable(std::move(by)),
        copy(of.bytes().begin(), of.bytes().end()),
        kept(std::move(of)),
        at(&*kept),
        bytes(copy) {}

  std::vector<std::byte> copy;  // of its bytes, once it is kept
  std::optional<atbus::request> kept;
  atbus::request* at;
  atbus::bytes_view bytes;
};

struct atbus_command final : atbus::c_api::answerable {
  atbus_command(atbus::command& of, std::shared_ptr<atbus::c_api::ownership> by) noexcept
      : answerable(std::move(by)), at(&of) {}
  atbus_command(atbus::command&& of, std::shared_ptr<atbus::c_api::ownership> by) noexcept
      : answerable(std::move(by)), kept(std::move(of)), at(&*kept) {}

  std::optional<atbus::command> kept;
  atbus::command* at;
};

// Found by their arguments.
[[nodiscard]] inline const char* owner_of(const atbus_request& request) noexcept {
  return request.owner->thread();
}
[[nodiscard]] inline const char* owner_of(const atbus_command& command) noexcept {
  return command.owner->thread();
}

namespace atbus::c_api {

inline bytes_view view_of(const void* bytes, std::size_t size) noexcept {
  return {static_cast<const std::byte*>(bytes), size};
}
// Whether there are as many bytes as are said. If not, that is kept as the last failure.
[[nodiscard]] inline bool are_bytes(const void* bytes, std::size_t size) noexcept {
  if (bytes != nullptr || size == 0) [[likely]]
    return true;
  refuse_null("a pointer to bytes whose size is not 0");
  return false;
}

// Sends the first `size` bytes of a claim. Errors: as of atbus_node_commit.
template <class Slot>
[[nodiscard]] atbus_code commit(std::optional<Slot>& claimed, std::size_t size) noexcept {
  if (!claimed || !claimed->is_open() || size > claimed->bytes().size()) [[unlikely]]
    return code_of(
        error{errc::invalid_argument,
              "nothing is claimed, or it was given up meanwhile, or it is less than is committed"});
  claimed->commit(size);
  claimed.reset();
  return ATBUS_OK;
}

// Errors: invalid_argument (one of them is null).
result<std::vector<std::string>> words_of(const char* const* words, std::size_t count);

}  // namespace atbus::c_api
