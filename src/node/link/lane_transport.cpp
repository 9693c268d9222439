#include "node/link/lane_transport.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "atbus/clock.hpp"
#include "atbus/inspect.hpp"
#include "channel/lane_handles.h"
#include "channel/shm/segment_view.h"
#include "node/link/lane_link.h"
#include "protocol/message_head.h"

namespace atbus::detail {
namespace {

// A call with the longest address fits.
constexpr std::uint64_t least_message_limit = 1024;

// Where nothing tells of it.
constexpr std::chrono::nanoseconds look_for_room = std::chrono::milliseconds{20};

std::string private_prefix(bus_id id) {
  return "atbus-" + id.to_hex() + "-";
}

}  // namespace

lane_transport::lane_transport(lane_transport_options options)
    : options_(std::move(options)),
      epoll_(guarded_file::make([] { return kernel().epoll_create(EPOLL_CLOEXEC); })) {
  if (options_.message_limit == 0)
    options_.message_limit = build_settings::message_limit + message_head_size;
  options_.message_limit = std::max(options_.message_limit, least_message_limit);
}

lane_transport::~lane_transport() {
  close();
}

// Links and inboxes stay until the transport ends: an event of theirs may be running.
void lane_transport::close() noexcept {
  if (std::exchange(closed_, true))
    return;
  watched_.clear();
  waiting_.clear();
  due_.clear();
  problems_.clear();
  exchanges_.clear();
  flush();
  // Close the inboxes before this node's own lanes end: a peer that sees such an end then finds the reason.
  for (const auto& at : inboxes_) {
    if (at->durable)
      at->in.close();
    else
      (void)at->in.remove();
  }
  for (const auto& of : links_) {
    of->now_ = lane_link::phase::closed;
    of->session_ = 0;
    of->claimed_.reset();
    of->out_.reset();
  }
}

void lane_transport::start(const node_instance& self, link_events& events) {
  self_ = self;
  events_ = &events;
}

// --- inboxes

result<std::string> lane_transport::listen(const address& at) {
  if (at.kind() != address_kind::mem && at.kind() != address_kind::shm)
    return error{errc::not_supported,
                 at.to_string() + ": links over lanes are at shm:// or mem://"};
  if (closed_)
    return error{errc::closed, at.to_string() + ": the transport is closed"};
  if (!at.name().empty()) {
    auto opened = open_inbox(at, at.kind() == address_kind::shm);
    if (!opened)
      return opened.error();
    return (*opened)->in.address();
  }
  const auto made_up = at.with_name(private_address(at.kind()).name());
  for (const auto& own : inboxes_) {
    if (made_up && own->where.name() == made_up->name() && own->where.kind() == at.kind())
      return own->in.address();  // made for dialling
  }
  auto opened = open_inbox(*made_up, false);
  if (!opened)
    return opened.error();
  return (*opened)->in.address();
}

std::uint64_t lane_transport::message_limit() const noexcept {
  std::uint64_t least = transport::message_limit();
  for (const auto& own : inboxes_)
    least = std::min(least, own->in.message_limit());
  return least;
}

address lane_transport::private_address(address_kind kind) const {
  const bool handed = kind == address_kind::unix_socket;  // no node listens there
  return *address::parse(std::string{name(kind)} + (handed ? "://@" : "://") +
                         private_prefix(self_.id) + bus_id{self_.incarnation}.to_hex());
}

result<lane_transport::inbox*> lane_transport::own_inbox(address_kind kind) {
  inbox* found = nullptr;
  for (const auto& own : inboxes_) {
    if (own->where.kind() == kind && (found == nullptr || (own->durable && !found->durable)))
      found = own.get();
  }
  if (found != nullptr)
    return found;
  return open_inbox(private_address(kind), false);
}

result<lane_transport::inbox*> lane_transport::open_inbox(const address& at, bool durable) {
  if (!epoll_)
    return error{errc::system_error, at.to_string() + ": can't make an epoll instance", EMFILE};
  if (!durable && at.kind() == address_kind::shm)
    clean_earlier_incarnations();
  receiver_options options;
  options.lanes = options_.lanes;
  options.lane_size = options_.lane_size;
  options.message_limit = options_.message_limit;
  options.directory = options_.directory;
  auto opened = at.kind() == address_kind::unix_socket ? open_handed(at, options)
                                                       : receiver::open(at.to_string(), options);
  if (!opened)
    return opened.error();
  epoll_event interest{.events = EPOLLIN, .data = {}};
  if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, opened->descriptor(), &interest) != 0) {
    error failed{errc::system_error, at.to_string() + ": can't watch its doorbell", errno};
    if (!durable)
      (void)opened->remove();
    return failed;
  }
  inboxes_.push_back(std::make_unique<inbox>(inbox{std::move(*opened), at, durable}));
  inbox& made = *inboxes_.back();
  made.lanes.resize(made.in.lane_count());
  // Messages for another node that had this name before go back to their senders.
  for (std::uint32_t lane = 0; lane != made.in.lane_count(); ++lane) {
    const bus_id reader = reader_of(made.in.note(lane));
    if (reader != bus_id{} && reader != self_.id)
      made.in.drop(lane);
  }
  made.in.on_problem([this](const error& what) { problems_.push_back(what); });
  return &made;
}

// Removes the inboxes that killed incarnations of this node left, unless a peer still sends to one.
void lane_transport::clean_earlier_incarnations() const {
  const auto names = names_in(options_.directory, segment_prefix);
  if (!names)
    return;
  for (const std::string& name : *names) {
    if (name.starts_with(private_prefix(self_.id)))
      (void)clean_segment(name, {.directory = options_.directory});
  }
}

// --- receiving

// Of each message: a call less.
[[gnu::always_inline]] inline taken lane_transport::receive(inbox& from,
                                                            const received_message& message) {
  const place& at = from.lanes[message.lane];
  if (at.session != message.session || at.link == nullptr || is_transports_own(message.bytes))
      [[unlikely]]
    return receive_other(from, message);
  return taken{events_->received(*at.link, message.bytes, message.redelivered)};
}

std::size_t lane_transport::poll(const poll_limits& limits) {
  if (closed_ || (inboxes_.empty() && links_.empty() && problems_.empty()) ||
      std::exchange(polling_, true))
    return 0;
  struct frame {
    lane_transport& of;
    ~frame() { of.polling_ = false; }
  } const guard{*this};
  if (rings_owed_ != 0)
    ring_again();
  if (!watched_.empty())
    tend_watched();
  if (!waiting_.empty())
    tell_writable();
  std::size_t told = 0;
  poll_ends_ = false;
  // Inboxes may be opened meanwhile: those have their turn in the next poll.
  const std::size_t count = inboxes_.size();
  for (std::size_t i = 0; i != count && told < limits.messages && !poll_ends_ && !closed_; ++i) {
    inbox& from = *inboxes_[(turn_ + i) % count];
    const auto each = [&](const received_message& message) { return receive(from, message); };
    told += from.in.poll(each, {.messages = limits.messages - told, .time = limits.time});
    // Dropped within the handler, it would lose the mark that an earlier incarnation may have handled its message.
    if (const auto lane = std::exchange(from.refused, std::nullopt))
      from.in.drop(*lane);
    look_for_ends(from);
  }
  if (count > 1)
    turn_ = (turn_ + 1) % count;
  if (!due_.empty())
    tell_due();
  if (!problems_.empty())
    tell_problems();
  return told;
}

void lane_transport::tell_problems() {
  for (const error& what : std::exchange(problems_, {})) {
    if (!closed_)
      events_->problem(what);
  }
}

void lane_transport::end_poll() noexcept {
  poll_ends_ = true;
  for (const auto& own : inboxes_)
    own->in.end_poll();
}

taken lane_transport::receive_other(inbox& from, const received_message& message) {
  const place& at = from.lanes[message.lane];
  if (at.link != nullptr && at.session != message.session)
    lane_ended(*at.link);
  if (is_transports_own(message.bytes)) {
    // Lanes that were handed over are paired already.
    const bool handed = from.where.kind() == address_kind::unix_socket;
    try {
      const auto record = handed ? std::nullopt : read_pairing_record(message.bytes);
      if (!record)
        refuse(from, message.lane, "it sent what is no pairing record");
      else if (record->kind == pairing_kind::call)
        called(from, message, *record);
      else
        answered(from, message, *record);
    } catch (const std::bad_alloc&) {
      from.in.drop(message.lane);  // so that it does not wait for an answer
      throw;
    }
    return taken::yes;
  }
  const auto source = to_instance(from.in.note(message.lane), self_.id);
  if (!source) {
    refuse(from, message.lane, "it sent messages before it said who it is");
    return taken::yes;
  }
  if (events_->inherited(*source, message.bytes, message.redelivered,
                         from.in.has_sender(message.lane)))
    return taken::yes;
  if (!closed_)
    from.refused = message.lane;
  return taken::no;
}

void lane_transport::refuse(inbox& from, std::uint32_t lane, const std::string& what) {
  const error why{errc::protocol_error, from.in.address() + ": the sender in lane " +
                                            std::to_string(lane) +
                                            " is not listened to any more: " + what};
  if (lane_link* const of = from.lanes[lane].link)
    end(*of, why);
  from.in.drop(lane);
  events_->problem(why);
}

void lane_transport::look_for_ends(inbox& at) {
  if (closed_ || at.changes_seen == at.in.session_changes())
    return;
  at.changes_seen = at.in.session_changes();
  for (std::uint32_t i = 0; i != at.lanes.size(); ++i) {
    if (at.lanes[i].link != nullptr && at.in.session(i) != at.lanes[i].session)
      lane_ended(*at.lanes[i].link);
  }
}

// --- sending

void lane_transport::flush() noexcept {
  while (!unpublished_.empty())
    unpublished_.back()->flush();
  if (rings_owed_ != 0)
    ring_again();
}

// Nothing else wakes a peer that sleeps: its messages would lie in its lane until the next one.
void lane_transport::ring_again() noexcept {
  for (const auto& of : links_) {
    if (of->out_)
      (void)of->out_->flush();
  }
  for (exchange& with : exchanges_) {
    if (with.out)
      (void)with.out->flush();
  }
}

// --- sleeping

bool lane_transport::prepare_sleep() {
  flush();
  bool quiet = !closed_ && due_.empty() && problems_.empty();
  for (const auto& own : inboxes_) {
    // Lanes become free while it prepares.
    quiet = quiet && own->in.prepare_sleep() && own->changes_seen == own->in.session_changes();
  }
  for (lane_link* const of : waiting_)
    quiet = quiet && of->out_->prepare_sleep();
  quiet = quiet && problems_.empty();
  if (!quiet)
    finish_sleep();
  return quiet;
}

bool lane_transport::has_messages() noexcept {
  return !closed_ && std::ranges::any_of(inboxes_, [](const auto& own) {
    return lane_handles::has_messages(own->in);
  });
}

void lane_transport::finish_sleep() {
  for (const auto& own : inboxes_)
    own->in.finish_sleep();
  for (lane_link* const of : waiting_)
    of->out_->finish_sleep();
}

std::chrono::nanoseconds lane_transport::longest_sleep() const noexcept {
  constexpr std::chrono::nanoseconds never{-1};
  auto longest = never;
  const auto at_most = [&](std::chrono::nanoseconds time) {
    if (time >= std::chrono::nanoseconds{0})
      longest = longest == never ? time : std::min(longest, time);
  };
  for (const auto& own : inboxes_)
    at_most(own->in.longest_sleep());
  for (const lane_link* const of : waiting_)
    at_most(of->out_->longest_sleep());
  if (room_unwatched_)
    at_most(look_for_room);
  if (rings_owed_ != 0)
    at_most(short_sleep);
  if (!watched_.empty()) {
    const auto time = now();
    for (const lane_link* const of : watched_)
      at_most(std::max(of->look_again_at_ - time, std::chrono::nanoseconds{0}));
  }
  return longest;
}

}  // namespace atbus::detail
