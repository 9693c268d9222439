#include "node/core/directory_watch.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/text.h"
#include "node/directory/file_directory.h"
#include "node/files/watched_file.h"

namespace atbus::detail {

directory_watch::~directory_watch() {
  close();
}

void directory_watch::close() noexcept {
  if (directory_ == nullptr)
    return;
  clock_.cancel();
  withdraw();
  directory_->unwatch(watch_);
  if (readable_)
    node_.on.channels.unwatch_descriptor(readable_.get());
  readable_.reset();
  other_looked_.reset();
  directory_.reset();
}

void directory_watch::withdraw() noexcept {
  // In a forked child, the node that was announced is its parent's.
  if (directory_ == nullptr || !std::exchange(announced_, false) || forks_so_far() != forks_before_)
    return;
  try {
    (void)directory_->withdraw(node_.self.id);
  } catch (const std::bad_alloc&) {
    // The record stays until its time is over, as that of a node that was killed.
  }
}

tree_place directory_watch::place() const {
  const bool has_parent = !node_.options.parents().empty();
  if (node_.options.children().empty())
    return has_parent ? tree_place::leaf : tree_place::none;
  return has_parent ? tree_place::relay : tree_place::root;
}

error directory_watch::tell() {
  // A node that leaves is not to be dialled; in a forked child, the node that is known is its parent's.
  if (node_.leaving || forks_so_far() != forks_before_)
    return {};
  // First what holds if there is no memory for the rest: it may be known there, and is told again.
  const bool was_announced = std::exchange(announced_, true);
  owes_announcement_ = true;
  directory_record record{.id = node_.self.id,
                          .services = services_,
                          .labels = node_.options.labels(),
                          .place = place()};
  if (addresses_ != nullptr)
    record.addresses = *addresses_;
  error bad = directory_->announce(record);
  announced_ = was_announced || bad != errc::not_supported;
  owes_announcement_ = !bad && bad != errc::not_supported;
  return bad;
}

error directory_watch::offer(std::string_view service) {
  constexpr std::size_t name_max = 128;
  constexpr std::size_t services_max = 256;
  if (directory_ == nullptr) {
    return {errc::not_supported,
            "this node has no directory (node_options::directory), so nobody would hear of the "
            "service " +
                in_quotes(service)};
  }
  if (service.empty() || service.size() > name_max || !std::ranges::all_of(service, is_printable)) {
    return {errc::invalid_argument,
            "the name of a service has 1 to " + std::to_string(name_max) + " printable characters"};
  }
  if (std::ranges::find(services_, service) != services_.end())
    return {};
  if (services_.size() == services_max)
    return {errc::invalid_argument,
            "a node offers at most " + std::to_string(services_max) + " services"};
  services_.emplace_back(service);
  error bad = tell();
  if (bad == errc::not_supported)
    services_.pop_back();
  return bad;
}

error directory_watch::withdraw(std::string_view service) {
  const auto found = std::ranges::find(services_, service);
  if (found == services_.end())
    return {errc::not_found, "this node does not offer the service " + in_quotes(service)};
  services_.erase(found);
  return tell();
}

void directory_watch::announce(const std::vector<std::string>& addresses) {
  if (directory_ == nullptr)
    return;
  addresses_ = &addresses;
  if (const error bad = tell(); !bad && bad != errc::not_supported)
    events_.log("the directory was not told of " + addresses.back() + ": " + bad.text());
}

void directory_watch::lost(peer& of) {
  if ((of.wanted || &of == parent_.last) && directory_ != nullptr)
    follow(of);
}

void directory_watch::open() {
  directory_ = node_.options.directory();
  if (directory_ == nullptr && !node_.options.directory_file().empty())
    directory_ = std::make_shared<file_directory>(node_.options.directory_file());
  if (directory_ == nullptr)
    return;
  watch_ = directory_->watch([this](bus_id id) { note_change(id); });
  watch_descriptor();
  clock_.replace([this] { look(); });
  look();
}

void directory_watch::watch_descriptor() {
  const int descriptor = directory_->descriptor();
  if (descriptor < 0)
    return;
  readable_ = guarded_file::make([] { return kernel().epoll_create(EPOLL_CLOEXEC); });
  other_looked_ =
      guarded_file::make([] { return kernel().eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  epoll_event interest{.events = EPOLLIN, .data = {}};
  int code = 0;
  for (const int one : {descriptor, other_looked_.get()}) {
    if (code == 0 && kernel().epoll_ctl(readable_.get(), EPOLL_CTL_ADD, one, &interest) != 0)
      code = errno;
  }
  if (code == 0)
    code = node_.on.channels.watch_descriptor(readable_.get());
  if (code == 0)
    return;
  readable_.reset();
  other_looked_.reset();
  events_.log(
      error{errc::system_error, "changes of the directory are seen every 2 s only", code}.text());
}

void directory_watch::note_change(bus_id id) {
  changes_.push_back(id);
  const std::uint64_t one = 1;
  if (!looking_ && other_looked_)
    (void)kernel().write(other_looked_.get(), &one, sizeof one);
}

void directory_watch::look_if_readable(std::chrono::nanoseconds now) {
  next_glance_ = now + glance_interval;
  epoll_event event;
  if (kernel().epoll_wait(readable_.get(), &event, 1, 0) <= 0)
    return;
  look();
  std::uint64_t count = 0;  // last: a look that fails is repeated
  (void)kernel().read(other_looked_.get(), &count, sizeof count);
}

void directory_watch::look() {
  struct frame {
    bool& looking;
    ~frame() { looking = false; }
  } const at_end{looking_ = true};
  clock_.set(node_.now() + file_look_interval);  // first: all else takes memory
  const error now = directory_->poll();
  if (const std::string problem = now ? std::string{} : now.text(); problem != problem_) {
    problem_ = problem;
    events_.log(now ? "the directory is in use again" : problem);
  }
  if (now && owes_announcement_)
    (void)tell();
  for (; !changes_.empty(); changes_.pop_front()) {
    peer* const of = peers_.find(changes_.front());
    const bool is_lost_parent = of != nullptr && of == parent_.last && !reachability::is_there(*of);
    if (of == nullptr || (is_mere_neighbour(*of) && !is_lost_parent))
      continue;
    follow(*of);
    if (of->sessions.empty())
      retention_.let_go(*of);
  }
}

peer* directory_watch::find_or_look_up(bus_id id) {
  peer* const known = peers_.find(id);
  if (known != nullptr && (known->wanted || !known->sessions.empty()))
    return known;
  if (directory_ == nullptr || !node_.fault || id == node_.self.id || id == bus_id{} ||
      directory_->lookup(id).empty())
    return known;
  peer& of = peers_.find_or_make(id);
  follow(of);
  if (of.wanted || known != nullptr)
    return &of;
  retention_.forget(of);
  return nullptr;
}

void directory_watch::follow(peer& of) {
  std::vector<address> now;
  for (const std::string& text : directory_->lookup(of.id)) {
    if (const result<address> to = address::parse(text))
      now.push_back(*to);
    else
      events_.log_cause(to.error().code(), "the directory: " + to.error().text());
  }
  // Dialled as the parent, with any id: a peer would not take its place.
  const bool is_parent = &of == parent_.last;
  std::list<dial>& dials = is_parent ? parent_.dials : of.dials;
  std::list<dial> gone;
  for (auto at = dials.begin(); at != dials.end();) {
    const auto one = at++;
    if (one->listed && std::find(now.begin(), now.end(), one->to) == now.end())
      gone.splice(gone.end(), dials, one);
  }
  dialing_.end_dials(gone);
  bool is_listed = false;
  for (const address& to : now) {
    const auto known = std::ranges::find(dials, to, &dial::to);
    // Its turn comes when that link is lost.
    const bool later = of.current != nullptr && of.current->stage != session_stage::away &&
                       of.current->at.kind() != link_kind::relayed;
    if (known != dials.end() && known->is_to_sibling()) {
      known->offered = false;
      known->as = relation::peer;
      is_listed = known->listed = true;
    } else if (later || known != dials.end()) {
      is_listed = true;
    } else if (const error bad = dialing_.start_dial(dials, is_parent ? nullptr : &of, to, false);
               bad) {
      is_listed = dials.back().listed = true;
    } else {
      events_.log_cause(bad.code(), "the directory's address of " + of.id.to_string() + ", " +
                                        to.to_string() + ", can't be used: " + bad.text());
    }
  }
  const auto by_connect = [](const dial& one) {
    return !one.offered && !one.listed && !one.is_relayed();
  };
  of.wanted = false;
  if ((is_listed && !is_parent) || std::any_of(of.dials.begin(), of.dials.end(), by_connect))
    retention_.set_wanted(of);
}

}  // namespace atbus::detail
