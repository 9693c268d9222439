#include "nats/nats_mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <utility>

#include "nats/carrier_frame.h"

namespace atbus::detail {
namespace {

struct mailbox_list {
  std::mutex mutex;
  std::map<std::uintptr_t, std::weak_ptr<nats_mailbox>> all;
  std::uintptr_t latest = 0;
};
// Never destroyed: threads of libnats may outlive static objects.
mailbox_list& mailboxes() {
  static auto* const kept = new mailbox_list;
  return *kept;
}

// What libnats holds for each message besides its bytes, rounded up.
constexpr std::size_t message_overhead = 256;

// Subject, reply and headers. libnats keeps them in one piece, in this order, with the data behind them. It says no
// length of headers, and looking at them costs it the square of their number.
std::size_t bytes_beside(const natsMsg& message) noexcept {
  const char* const subject = natsMsg_GetSubject(&message);
  const auto from = reinterpret_cast<std::uintptr_t>(subject);
  const auto to = reinterpret_cast<std::uintptr_t>(natsMsg_GetData(&message));
  if (from <= to)
    return to - from;
  const char* const reply = natsMsg_GetReply(&message);
  return std::strlen(subject) + (reply != nullptr ? std::strlen(reply) : 0);
}

// Of this error, where libnats tells; else of the connection's latest.
const char* text_of(natsConnection* at, natsStatus what) noexcept {
  natsStatus own = NATS_OK;
  const char* text = nats_GetLastError(&own);
  if (own == what && text != nullptr && *text != '\0')
    return text;
  text = nullptr;
  if (natsConnection_GetLastError(at, &text) == what && text != nullptr && *text != '\0')
    return text;
  return natsStatus_GetText(what);
}

// 0: too long for one of a carrier's.
std::size_t size_of(const natsMsg& message, std::size_t data_max) noexcept {
  const auto data = static_cast<std::size_t>(natsMsg_GetDataLength(&message));
  const std::size_t beside = bytes_beside(message);
  return data > data_max || beside > nats_mailbox::beside_max ? 0
                                                              : data + beside + message_overhead;
}

}  // namespace

std::shared_ptr<nats_mailbox> nats_mailbox::make() {
  std::shared_ptr<nats_mailbox> made{new nats_mailbox};
  made->bell_ = file{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!made->bell_)
    return nullptr;
  mailbox_list& list = mailboxes();
  const std::lock_guard lock{list.mutex};
  made->number_ = ++list.latest;
  list.all.emplace(made->number_, made);
  return made;
}

void nats_mailbox::renumber() noexcept {
  {
    mailbox_list& list = mailboxes();
    const std::lock_guard lock{list.mutex};
    auto entry = list.all.extract(number_);
    number_ = ++list.latest;
    entry.key() = number_;
    list.all.insert(std::move(entry));
  }
  (void)take();
  const std::lock_guard lock{mutex_};
  openings_.clear();
}

nats_mailbox::~nats_mailbox() {
  mailbox_list& list = mailboxes();
  const std::lock_guard lock{list.mutex};
  list.all.erase(number_);
}

std::shared_ptr<nats_mailbox> nats_mailbox::find(void* closure) {
  mailbox_list& list = mailboxes();
  const std::lock_guard lock{list.mutex};
  const auto at = list.all.find(reinterpret_cast<std::uintptr_t>(closure));
  return at == list.all.end() ? nullptr : at->second.lock();
}

void nats_mailbox::ring() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(bell_.get(), &one, sizeof one);
}

nats_news nats_mailbox::take() noexcept {
  std::uint64_t rings = 0;
  (void)kernel().read(bell_.get(), &rings, sizeof rings);
  const std::lock_guard lock{mutex_};
  bytes_ = 0;
  return std::exchange(news_, {});
}

std::vector<nats_message> nats_mailbox::take_openings(std::size_t most) {
  const std::lock_guard lock{mutex_};
  const auto end =
      openings_.begin() + static_cast<std::ptrdiff_t>(std::min(most, openings_.size()));
  std::vector<nats_message> taken{std::move_iterator{openings_.begin()}, std::move_iterator{end}};
  openings_.erase(openings_.begin(), end);
  return taken;
}

bool nats_mailbox::has_openings() {
  const std::lock_guard lock{mutex_};
  return !openings_.empty();
}

void nats_mailbox::on_message(natsConnection* /*at*/, natsSubscription* /*by*/, natsMsg* message,
                              void* closure) {
  nats_message owned{message};
  const std::size_t size = size_of(*message, carrier_message_max);
  const auto box = find(closure);
  if (box == nullptr || size == 0)
    return;
  const std::lock_guard lock{box->mutex_};
  if (box->bytes_ + size > bytes_max)
    return;
  try {
    box->news_.messages.push_back(std::move(owned));
  } catch (const std::bad_alloc&) {
    return;  // lost on the way: its link ends
  }
  box->bytes_ += size;
  if (box->news_.messages.size() == 1)
    box->ring();
}

void nats_mailbox::on_opening(natsConnection* /*at*/, natsSubscription* /*by*/, natsMsg* message,
                              void* closure) {
  nats_message owned{message};
  const auto box = find(closure);
  if (box == nullptr || size_of(*message, carrier_opening_max) == 0)
    return;
  const std::lock_guard lock{box->mutex_};
  if (box->openings_.size() == openings_max)
    return;
  try {
    box->openings_.push_back(std::move(owned));
  } catch (const std::bad_alloc&) {
    return;  // the other end dials again
  }
  if (box->openings_.size() == 1)
    box->ring();
}

void nats_mailbox::on_disconnected(natsConnection* /*at*/, void* closure) {
  if (const auto box = find(closure)) {
    const std::lock_guard lock{box->mutex_};
    box->news_.disconnected = true;
    box->ring();
  }
}

void nats_mailbox::on_closed(natsConnection* /*at*/, void* closure) {
  if (const auto box = find(closure)) {
    const std::lock_guard lock{box->mutex_};
    box->news_.closed = true;
    box->ring();
  }
}

void nats_mailbox::on_error(natsConnection* at, natsSubscription* /*by*/, natsStatus what,
                            void* closure) {
  const auto box = find(closure);
  if (box == nullptr)
    return;
  const char* const text = text_of(at, what);
  try {
    const std::lock_guard lock{box->mutex_};
    if (box->news_.problems.size() == problems_max)
      return;
    box->news_.problems.emplace_back(text);
    box->ring();
  } catch (const std::bad_alloc&) {
    return;  // nobody learns of it
  }
}

}  // namespace atbus::detail
