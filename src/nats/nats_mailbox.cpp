#include "nats/nats_mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <map>
#include <new>
#include <utility>

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

}  // namespace

std::shared_ptr<nats_mailbox> nats_mailbox::make() {
  std::shared_ptr<nats_mailbox> made{new nats_mailbox};
  made->bell_ = file{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!made->bell_)
    return nullptr;
  made->self_ = made;
  made->renumber();
  return made;
}

void nats_mailbox::renumber() {
  {
    mailbox_list& list = mailboxes();
    const std::lock_guard lock{list.mutex};
    list.all.erase(number_);
    number_ = ++list.latest;
    list.all.emplace(number_, self_);
  }
  (void)take();
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

nats_news nats_mailbox::take() {
  std::uint64_t rings = 0;
  (void)kernel().read(bell_.get(), &rings, sizeof rings);
  const std::lock_guard lock{mutex_};
  bytes_ = 0;
  return std::exchange(news_, {});
}

void nats_mailbox::on_message(natsConnection* /*at*/, natsSubscription* /*by*/, natsMsg* message,
                              void* closure) {
  nats_message owned{message};
  const auto box = find(closure);
  if (box == nullptr)
    return;
  const auto length = static_cast<std::size_t>(natsMsg_GetDataLength(message));
  const std::lock_guard lock{box->mutex_};
  if (box->bytes_ + length > bytes_max)
    return;
  try {
    box->news_.messages.push_back(std::move(owned));
  } catch (const std::bad_alloc&) {
    return;  // lost on the way: its link ends
  }
  box->bytes_ += length + 256;  // with what a message costs besides
  if (box->news_.messages.size() == 1)
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
  const char* text = nullptr;
  if (natsConnection_GetLastError(at, &text) == NATS_OK || text == nullptr || *text == '\0')
    text = natsStatus_GetText(what);
  try {
    const std::lock_guard lock{box->mutex_};
    box->news_.problem = text;
    box->ring();
  } catch (const std::bad_alloc&) {
    return;  // nobody learns of it
  }
}

}  // namespace atbus::detail
