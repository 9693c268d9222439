/// @file
/// Blobs: what is longer than a message, or may be: files, snapshots, models. A blob travels in chunks
/// beside the messages, which do not wait for it, and has one outcome.
///
/// ```cpp
/// node.send_blob(2, 7, {owner, bytes}, [](const atbus::blob_outcome& o) { o.how().print(); });
///
/// node.on_blob(7, [](atbus::incoming_blob& blob) {
///   blob.accept([file = std::ofstream{"snapshot"}](const atbus::blob_part& part) mutable {
///     if (part.ended())
///       part.how().print();
///     else
///       file << part.text();
///   });
/// });
/// ```
///
/// Guarantee: each blob that node::send_blob accepted has exactly one outcome, and so exactly one
/// call. Its receiver gets the bytes in order, each once, and then exactly one end, unless it
/// refuses the rest or throws.
///
/// Memory: at most node_options::blob_window bytes are under way to one node, whatever the size and
/// the number of blobs. A receiver that is slow, or stopped, makes the sender stand still.
///
/// Order: blobs keep none among each other, nor with messages.
///
/// Policies: overflow_policy and message_deadline are for messages; no part of a blob is dropped by them.
///
/// Threads: the node's own.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

namespace detail {
class blob_exchange;
class incoming_blobs;
class outgoing_blobs;
}  // namespace detail

/// The longest note of a blob, and the longest text of a refusal, in bytes.
inline constexpr std::size_t blob_note_max = 1024;

/// Where the bytes of a blob come from.
class blob_source {
 public:
  /// These bytes, which must not change until the outcome. `owner` keeps them alive until then; it may
  /// be null if something else does.
  blob_source(std::shared_ptr<const void> owner, bytes_view bytes) noexcept
      : owner_(std::move(owner)), bytes_(bytes), size_(bytes.size()) {}
  /// `size` bytes that `next` makes: it is called, within poll, with room for the next ones in the
  /// channel itself, and fills all of it; it may be empty only if `size` is 0. Not ok: the blob ends with that outcome. It must not use
  /// the node, but for its stop(); a blob whose source does ends with invalid_argument. If it throws,
  /// the blob is cancelled, and the exception leaves poll.
  blob_source(std::uint64_t size, std::function<status(mutable_bytes)> next) noexcept
      : next_(std::move(next)), size_(size) {}

  /// All bytes of the blob.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

 private:
  friend class detail::outgoing_blobs;
  std::shared_ptr<const void> owner_;
  bytes_view bytes_;
  std::function<status(mutable_bytes)> next_;  // empty: bytes_
  std::uint64_t size_;
};

/// How a blob is sent.
struct blob_options {
  /// Told to the receiver with the beginning, for example a file's name: at most blob_note_max bytes.
  /// Copied.
  std::string_view note{};
};

/// The outcome of a blob. Valid until the call that got it returns.
class blob_outcome {
 public:
  /// Made by nodes. A program makes one to test its own handlers. `text` is not copied.
  blob_outcome(status how, bus_id destination, std::uint64_t taken, std::string_view text) noexcept
      : how_(how), destination_(destination), taken_(taken), text_(text) {}

  /// Whether the receiver has taken all of it.
  explicit operator bool() const noexcept { return static_cast<bool>(how_); }
  /// The outcome:
  ///
  ///     ok                the receiver has taken the last byte
  ///     request_failed    its handler refused it, or threw: text() says why
  ///     unknown_request   that node has no handler for blobs of this type
  ///     would_block       that node takes no more blobs at once: try later
  ///     cancelled         by node::cancel_blob, or its source has thrown; the receiver may have taken it
  ///     peer_closed       the process that had begun to take it has ended, or has lost it
  ///     outcome_unknown   the same, and it may have taken all of it
  ///     not_supported     that node is of a version without blobs
  ///     message_too_large a message limit on the way leaves no room for a chunk
  ///     protocol_error    the other end broke the protocol
  ///     denied            the access rules of either end
  ///     closed            this node ends, or was disconnected from that one
  ///     any other error   that of its source, or why its beginning was not delivered
  [[nodiscard]] status how() const noexcept { return how_; }
  /// The node that it was sent to.
  [[nodiscard]] bus_id destination() const noexcept { return destination_; }
  /// How many bytes the receiver has taken, as far as this node has heard.
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }
  /// What the receiver said with the refusal; may be empty.
  [[nodiscard]] std::string_view text() const noexcept { return text_; }

 private:
  status how_;
  bus_id destination_;
  std::uint64_t taken_;
  std::string_view text_;
};

/// What node::send_blob returns: whether the blob was accepted, and its name for node::cancel_blob. A plain
/// value.
class blob_handle {
 public:
  /// Of no blob.
  blob_handle() noexcept = default;

  /// Whether the blob was accepted.
  explicit operator bool() const noexcept { return static_cast<bool>(why_); }
  /// Why it was not: an error of node::send_blob.
  [[nodiscard]] status why() const noexcept { return why_; }

 private:
  friend class detail::outgoing_blobs;
  friend class node;
  blob_handle(status why, std::uint64_t number) noexcept : why_(why), number_(number) {}

  status why_ = errc::invalid_argument;
  std::uint64_t number_ = 0;
};

/// The name of a blob at its receiver, for node::resume_blob and node::refuse_blob. A plain value.
struct blob_id {
  bus_id source;                  ///< The node that sends it.
  std::uint64_t incarnation = 0;  ///< Of that node.
  std::uint64_t number = 0;       ///< Among the blobs of that incarnation.

  friend bool operator==(const blob_id&, const blob_id&) noexcept = default;
};

/// What a receiver is told: bytes in place, or the end. Valid until the receiver returns, and so are its
/// bytes.
class blob_part {
 public:
  /// Made by nodes. A program makes one to test its own receivers.
  blob_part(const blob_id& id, std::uint64_t size, std::uint64_t position,
            bytes_view bytes) noexcept
      : id_(id), size_(size), position_(position), bytes_(bytes) {}
  /// The end of a blob of which `position` bytes were told.
  blob_part(const blob_id& id, std::uint64_t size, std::uint64_t position, status how) noexcept
      : id_(id), size_(size), position_(position), how_(how), ended_(true) {}

  /// The name of the blob.
  [[nodiscard]] const blob_id& id() const noexcept { return id_; }
  /// All bytes of the blob.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// How many bytes come before these.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  /// The next bytes; empty at the end.
  [[nodiscard]] bytes_view bytes() const noexcept { return bytes_; }
  /// The same as characters.
  [[nodiscard]] std::string_view text() const noexcept { return as_text(bytes_); }
  /// Whether these are the last bytes. The end follows.
  [[nodiscard]] bool is_last() const noexcept {
    return !ended_ && position_ + bytes_.size() == size_;
  }

  /// Whether this is the end. Nothing more is told.
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  /// At the end: ok, all bytes were told. Else why it broke off: peer_closed (the sending process has
  /// ended, or has lost it), cancelled or another error of its sender, protocol_error, message_too_large (a
  /// message limit leaves no room for a grant), closed (this node ends, or was disconnected).
  [[nodiscard]] status how() const noexcept { return how_; }

  /// Holds the sender back: it sends what it was granted, at most a window, and then nothing until
  /// node::resume_blob. In the last part it holds the end back, too: whatever is to be done with the
  /// bytes can be done before the sender hears that they were taken.
  void pause() const noexcept { paused_ = true; }
  /// Refuses the rest: the sender's outcome is request_failed with the first blob_note_max bytes of the
  /// text, or fewer where a message limit is that small. Nothing more is told here. Without effect at the end.
  void refuse(std::string_view why) const {
    refused_ = true;
    why_ = why.substr(0, blob_note_max);
  }

 private:
  friend class detail::incoming_blobs;
  blob_id id_;
  std::uint64_t size_;
  std::uint64_t position_;
  bytes_view bytes_;
  status how_;
  bool ended_ = false;
  mutable bool paused_ = false;
  mutable bool refused_ = false;
  mutable std::string why_;
};

/// The beginning of a blob from another node. The handler of node::on_blob accepts or refuses it. Valid
/// until that returns.
class ATBUS_API incoming_blob {
 public:
  incoming_blob(const incoming_blob&) = delete;
  incoming_blob& operator=(const incoming_blob&) = delete;

  /// The name of the blob.
  [[nodiscard]] const blob_id& id() const noexcept { return id_; }
  /// The node that sends it.
  [[nodiscard]] bus_id source() const noexcept { return id_.source; }
  /// The number that was passed to node::send_blob.
  [[nodiscard]] std::uint32_t type() const noexcept { return type_; }
  /// What the sender says it will send, in bytes. No receiver gets more.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// blob_options::note.
  [[nodiscard]] std::string_view note() const noexcept { return note_; }
  /// True if an earlier incarnation of this node may have been told of this beginning.
  [[nodiscard]] bool redelivered() const noexcept { return redelivered_; }

  /// `receiver` is called with each part, and with the end; then it is destroyed. It need not be
  /// copyable. One that throws, or refuses the rest, hears nothing more: the sender's outcome is
  /// request_failed, with the text "its handler threw" or that of the refusal.
  template <class Receiver>
  requires std::invocable<Receiver&, const blob_part&>
  void accept(Receiver receiver) {
    receiver_ = [kept = std::make_shared<Receiver>(std::move(receiver))](const blob_part& part) {
      (*kept)(part);
    };
  }
  /// Collects the bytes, if there are at most `limit`, and calls `call` once: with ok and all of them,
  /// or with why the blob broke off and none. Otherwise refuses the blob, and nothing is called.
  void collect(std::uint64_t limit,
               std::function<void(status how, std::vector<std::byte> bytes)> call);
  /// Refuses the blob: the sender's outcome is request_failed with the first blob_note_max bytes of the
  /// text. So does a handler that does nothing.
  void refuse(std::string_view why) {
    receiver_ = nullptr;
    refusal_ = why.substr(0, blob_note_max);
  }

 private:
  friend class detail::incoming_blobs;
  incoming_blob(const blob_id& id, std::uint32_t type, std::uint64_t size, std::string_view note,
                bool redelivered) noexcept
      : id_(id), size_(size), note_(note), type_(type), redelivered_(redelivered) {}

  blob_id id_;
  std::uint64_t size_;
  std::string_view note_;
  std::uint32_t type_;
  bool redelivered_;
  std::function<void(const blob_part&)> receiver_;  // empty: it is refused
  std::string refusal_;                             // empty: the handler has said nothing
};

}  // namespace atbus
