#include "node/link/stream_transport.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "channel/connection/connection_set.h"
#include "channel/stream/frame_queue.h"
#include "core/error_text.h"
#include "core/first_exception.h"
#include "node/link/lane_transport.h"
#include "protocol/control.h"
#include "protocol/message_head.h"
#include "system/socket.h"

namespace atbus::detail {
namespace {

connection_options for_links(const stream_transport_options& options) {
  const std::uint64_t limit = options.message_limit == 0
                                  ? build_settings::message_limit + message_head_size
                                  : options.message_limit;
  return {.socket = options.socket,
          .message_limit = limit,
          .buffer = options.buffer,
          .release = release_policy::by_user,
          .confirm_timeout = options.confirm_timeout,
          .user_confirms = true,
          .unconfirmed_message_limit = control_size_max};
}

constexpr std::string_view binding_label = "EXPORTER-atbus registration";

// The longest message always finds room beside what is half released.
std::uint64_t data_limit(const stream_transport_options& options, std::uint64_t message_limit) {
  const std::uint64_t wanted = options.buffer == send_buffer_kind::growing
                                   ? options.send_buffer_size
                                   : options.send_buffer_number * frame_block_size;
  return std::max(wanted == 0 ? frame_queue_size_default : wanted, 2 * frame_size(message_limit));
}

}  // namespace

class connection_link final : public link {
 public:
  connection_link(stream_transport& owner, connection at) noexcept
      : owner_(owner), at_(at), entry_(connection_core::find(at, core_)) {}

  // From here on it is what the connection has for a context.
  void begin_to_read() noexcept {
    at_.set_context(this);
    if (entry_ != nullptr)
      entry_->reader = received;
  }

  [[nodiscard]] std::byte* claim(std::size_t length, message_purpose purpose,
                                 status& why) noexcept override {
    if (entry_ == nullptr) [[unlikely]] {
      why = errc::closed;
      return nullptr;
    }
    if (purpose == message_purpose::data && !has_room_for(length)) [[unlikely]] {
      waits_ = true;
      why = errc::would_block;
      return nullptr;
    }
    if (const status usable = core_->usable(); !usable) [[unlikely]] {
      why = usable;
      return nullptr;
    }
    return core_->claim(*entry_, length, why);
  }
  [[nodiscard]] std::size_t share() const noexcept override {
    const std::size_t all = owner_.data_limit_;
    return entry_ != nullptr && entry_->queued() <= all / 2 ? all / 4 : 0;
  }
  [[nodiscard]] std::size_t queued() const noexcept override { return at_.queued(); }
  bool commit(std::size_t length) noexcept override {
    if (!has_claim())
      return false;
    core_->commit(*entry_, length);
    return true;
  }
  [[nodiscard]] bool has_claim() const noexcept override {
    return entry_ != nullptr && entry_->chunk.frame != nullptr;
  }
  void flush() noexcept override { (void)at_.flush(); }
  [[nodiscard]] direct_place place() noexcept override {
    if (entry_ == nullptr || entry_->queued() >= owner_.data_limit_)
      return {};
    // Data does not fill the part of the queue that is for control messages.
    frame_chunk& chunk = entry_->chunk;
    chunk.end = chunk.at + std::min(chunk.room(), owner_.data_limit_ - entry_->queued());
    return {.chunk = &chunk};
  }

  [[nodiscard]] bool keeps() const noexcept override { return true; }
  void release(std::uint64_t messages) noexcept override {
    (void)at_.release(static_cast<std::size_t>(messages));
    if (waits_ && at_.queued() <= owner_.data_limit_ / 2) {
      waits_ = false;
      if (!std::exchange(is_roomy_, true))
        owner_.roomy_.push_back(this);
    }
  }
  [[nodiscard]] bool settled() const noexcept override { return at_.queued() == 0; }
  void take_unreleased(const std::function<void(bytes_view, errc)>& each) override {
    at_.unreleased([&](bytes_view message, bool written) {
      each(message, written ? errc::outcome_unknown : errc::not_delivered);
    });
  }

  [[nodiscard]] std::uint64_t bytes_read() const noexcept override {
    return entry_ != nullptr && entry_->link != nullptr ? entry_->link->bytes_read() : 0;
  }
  void pause() noexcept override { (void)at_.pause(); }
  void resume() noexcept override { (void)at_.resume(); }
  void close(std::chrono::nanoseconds linger) noexcept override { (void)at_.close(linger); }
  void abort() noexcept override { (void)at_.abort(); }

  [[nodiscard]] std::optional<byte_buffer> binding() const override {
    if (tls() == nullptr)
      return byte_buffer{};
    byte_buffer key(32);
    if (!tls()->export_key(binding_label, std::span<std::byte, 32>{key}))
      return std::nullopt;
    return key;
  }
  [[nodiscard]] link_kind kind() const noexcept override { return kind_; }
  [[nodiscard]] link_trust trust() const noexcept override { return trust_; }
  [[nodiscard]] bool is_trusted() const noexcept override {
    return tls() == nullptr || tls_access::trusts(owner_.options_.socket.tls, *tls());
  }
  [[nodiscard]] link_origin origin() const override {
    if (entry_ == nullptr || entry_->link == nullptr)
      return {};
    link_origin from;
    if (!entry_->carried)
      from = remote_origin(entry_->link->descriptor());
    if (tls() != nullptr)
      from.names = tls()->peer_names();
    return from;
  }
  [[nodiscard]] std::string peer() const override { return at_.peer(); }
  [[nodiscard]] std::uint64_t message_limit() const noexcept override {
    return entry_ != nullptr ? entry_->limit : 0;
  }
  void confirm(const node_instance&) noexcept override { (void)at_.confirm(); }

 private:
  friend class stream_transport;

  static std::size_t received(void* context, message_run& run, std::size_t most) {
    auto& of = *static_cast<connection_link*>(context);
    return run.tell(most, [&of, &events = *of.owner_.events_](bytes_view message) {
      events.received(of, message, false);
    });
  }
  // Null: it is not encrypted, or not open.
  [[nodiscard]] const tls_socket* tls() const noexcept {
    return entry_ != nullptr && entry_->link != nullptr ? entry_->link->tls() : nullptr;
  }
  [[nodiscard]] bool has_room_for(std::size_t length) const noexcept {
    // What is too long at all is for the connection to refuse.
    return entry_->queued() + frame_size(length) <= owner_.data_limit_ || length > entry_->limit;
  }

  stream_transport& owner_;
  connection at_;
  connection_core* core_ = nullptr;
  connection_entry* entry_;  // null: the set has been closed
  link_kind kind_ = link_kind::tcp;
  link_trust trust_ = link_trust::unproven;
  bool waits_ = false;     // data was refused for want of room
  bool is_roomy_ = false;  // it is in roomy_
  std::size_t index_ = 0;  // in links_
};

stream_transport::stream_transport(const stream_transport_options& options, lane_transport* lanes)
    : options_(options),
      lanes_(lanes),
      of_links_(for_links(options)),
      data_limit_(data_limit(options, of_links_.message_limit)) {
  of_links_.send_buffer_size = data_limit_ + options_.control_reserve;
  // What is contiguous may leave a hole at the end of a ring: one as long as a message, or as what
  // control messages may use.
  of_links_.send_buffer_number = (data_limit_ + frame_size(of_links_.message_limit) +
                                  2 * options_.control_reserve + frame_block_size - 1) /
                                 frame_block_size;
}

stream_transport::~stream_transport() = default;

void stream_transport::start(const node_instance&, link_events& events) {
  events_ = &events;
  auto opened = connection_set::open(
      {.on_open = [this](connection at) { tell_opened(at); },
       .on_message = {},  // connection_link::received
       .on_writable =
           [this](connection at) {
             events_->writable(*static_cast<connection_link*>(at.context()));
           },
       .on_close = [this](connection at, const error& why) { tell_closed(at, why); },
       .on_problem = [this](const error& what) { events_->problem(what); }},
      // Flushed by the node, when its acknowledgements are there too.
      {.lanes = lanes_, .flush_in_poll = false, .write_delay = options_.write_delay});
  if (opened) {
    set_.emplace(std::move(*opened));
  } else {
    unusable_ = std::move(opened).error();
  }
}

error stream_transport::check(const address& at) const {
  if (!set_)
    return error_at(at.to_string(), unusable_);
  if (is_network(kind_of(at.kind())) && !options_.no_tls &&
      at.flag(address_option::tls).value_or(true))
    return error_at(at.to_string(), options_.no_tls);
  return {};
}

result<std::string> stream_transport::listen(const address& at) {
  const std::string text = at.to_string();
  if (error unusable = check(at); !unusable)
    return unusable;
  return set_->listen(text, {.connection = of_links_,
                             .backlog = options_.backlog,
                             .connections = options_.connections,
                             .unconfirmed = options_.unconfirmed,
                             .strangers = options_.strangers});
}

result<link*> stream_transport::connect(const address& to) {
  const std::string text = to.to_string();
  if (error unusable = check(to); !unusable)
    return unusable;
  const auto dialled =
      set_->connect(text, {.connection = of_links_, .connect_timeout = options_.connect_timeout});
  if (!dialled)
    return dialled.error();
  connection_link& made = add(*dialled);
  made.kind_ = kind_of(to.kind());
  return &made;
}

connection_link& stream_transport::add(connection at) {
  try {
    roomy_.reserve(std::bit_ceil(links_.size() + 1));
    links_.push_back(std::make_unique<connection_link>(*this, at));
  } catch (const std::bad_alloc&) {
    (void)at.abort();  // nothing knows of it
    throw;
  }
  connection_link& made = *links_.back();
  made.index_ = links_.size() - 1;
  made.begin_to_read();
  return made;
}

// Its place is taken by lanes, once the node knows of them.
void stream_transport::take_over(connection at) {
  struct end_of_connection {
    connection at;
    ~end_of_connection() { (void)at.abort(); }
  } const end{at};
  link* const made = lanes_->join(at.id(), at.peer());
  auto* const before = static_cast<connection_link*>(at.context());
  if (made == nullptr) {
    return events_->problem(
        {errc::protocol_error, at.peer() + ": the other end has not said who it is in its lane"});
  }
  void* const session = before != nullptr ? before->context : nullptr;
  made->context = session;
  first_exception thrown;
  bool is_told = false;
  thrown.keep([&] {
    events_->opened(*made, before == nullptr);
    is_told = true;
  });
  if (!is_told && made->context == session) {  // the end of the connection ends the session
    made->context = nullptr;
    made->abort();
  } else if (before != nullptr) {
    at.set_context(nullptr);
    remove(*before);
  }
  thrown.rethrow();
}

void stream_transport::tell_opened(connection at) {
  connection_core* core = nullptr;
  if (connection_core::find(at, core)->pairing.now() == lane_pairing::state::lanes)
    return take_over(at);
  const bool accepted = at.context() == nullptr;
  connection_link& of = accepted ? add(at) : *static_cast<connection_link*>(at.context());
  if (accepted && at.listener().starts_with("unix://"))
    of.kind_ = link_kind::unix_socket;
  else if (of.entry_->carried)
    of.kind_ = link_kind::carried;
  if (at.same_user())
    of.trust_ = link_trust::same_user;
  else if (of.tls() != nullptr && of.tls()->has_peer_certificate())
    of.trust_ = link_trust::certified;
  events_->opened(of, accepted);
}

void stream_transport::remove(connection_link& gone) noexcept {
  const std::size_t index = gone.index_;
  links_.back()->index_ = index;
  std::swap(links_[index], links_.back());
  links_.pop_back();
}

void stream_transport::tell_closed(connection at, const error& why) {
  if (at.context() == nullptr)
    return;  // lanes have taken its place
  struct last_word {
    stream_transport& owner;
    connection_link& of;
    ~last_word() { owner.remove(of); }
  } const end{*this, *static_cast<connection_link*>(at.context())};
  std::erase(roomy_, &end.of);
  events_->closed(end.of, why);
}

void stream_transport::tell_writable() {
  // What is released meanwhile is told the next time.
  for (std::size_t left = roomy_.size(); left != 0 && !roomy_.empty(); --left) {
    connection_link& of = *roomy_.front();
    roomy_.erase(roomy_.begin());
    of.is_roomy_ = false;
    if (of.at_.is_open())
      events_->writable(of);
  }
}

void stream_transport::close() noexcept {
  if (set_) {
    stats_at_close_ = set_->stats();
    set_->close();
  }
  for (const auto& of : links_)
    of->entry_ = nullptr;
  roomy_.clear();
}

std::size_t stream_transport::poll(const poll_limits& limits) {
  if (!set_)
    return 0;
  if (!roomy_.empty())
    tell_writable();
  return set_->poll(limits);
}

void stream_transport::end_poll() noexcept {
  if (set_)
    set_->end_poll();
}

void stream_transport::flush() noexcept {
  if (set_)
    set_->flush();
}
void stream_transport::flush_due() noexcept {
  if (set_)
    set_->flush_due();
}
int stream_transport::descriptor() const noexcept {
  return set_ ? set_->descriptor() : -1;
}
bool stream_transport::prepare_sleep() {
  return roomy_.empty() && (!set_ || set_->prepare_sleep());
}
void stream_transport::finish_sleep() {
  if (set_)
    set_->finish_sleep();
}
channel_stats stream_transport::stats() const noexcept {
  return stats_at_close_ ? *stats_at_close_ : set_ ? set_->stats() : channel_stats{};
}
std::chrono::nanoseconds stream_transport::longest_sleep() const noexcept {
  return set_ ? set_->longest_sleep() : std::chrono::nanoseconds{-1};
}

}  // namespace atbus::detail
