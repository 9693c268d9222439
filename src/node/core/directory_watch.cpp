#include "node/core/directory_watch.h"

#include <algorithm>
#include <utility>

#include "node/directory/file_directory.h"
#include "node/files/watched_file.h"

namespace atbus::detail {

directory_watch::~directory_watch() {
  if (directory_ != nullptr)
    directory_->unwatch(watch_);
}

void directory_watch::announce(const std::vector<std::string>& addresses) {
  if (directory_ == nullptr)
    return;
  if (const error bad = directory_->announce(node_.self.id, addresses);
      !bad && bad != errc::not_supported)
    events_.log("the directory was not told of " + addresses.back() + ": " + bad.text());
}

void directory_watch::lost(peer& of) {
  if (of.wanted && directory_ != nullptr)
    follow(of);
}

void directory_watch::open() {
  directory_ = node_.options.directory();
  if (directory_ == nullptr && !node_.options.directory_file().empty())
    directory_ = std::make_shared<file_directory>(node_.options.directory_file());
  if (directory_ == nullptr)
    return;
  watch_ = directory_->watch([this](bus_id id) { changes_.push_back(id); });
  clock_.replace([this] { look(); });
  look();
}

void directory_watch::look() {
  clock_.set(node_.now() + file_look_interval);  // first: all else takes memory
  const error now = directory_->poll();
  if (const std::string problem = now ? std::string{} : now.text(); problem != problem_) {
    problem_ = problem;
    events_.log(now ? "the directory is in use again" : problem);
  }
  for (; !changes_.empty(); changes_.pop_front()) {
    peer* const of = peers_.find(changes_.front());
    if (of == nullptr)
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
  std::list<dial> gone;
  for (auto at = of.dials.begin(); at != of.dials.end();) {
    const auto one = at++;
    if (one->listed && std::find(now.begin(), now.end(), one->to) == now.end())
      gone.splice(gone.end(), of.dials, one);
  }
  dialing_.end_dials(gone);
  bool is_listed = false;
  for (const address& to : now) {
    const auto known = std::ranges::find(of.dials, to, &dial::to);
    // Its turn comes when that link is lost.
    const bool later = of.current != nullptr && of.current->stage != session_stage::away &&
                       of.current->at.kind() != link_kind::relayed;
    if (known != of.dials.end() && known->is_to_sibling()) {
      known->offered = false;
      known->as = relation::peer;
      is_listed = known->listed = true;
    } else if (later || known != of.dials.end()) {
      is_listed = true;
    } else if (const error bad = dialing_.start_dial(of.dials, &of, to, false); bad) {
      is_listed = of.dials.back().listed = true;
    } else {
      events_.log_cause(bad.code(), "the directory's address of " + of.id.to_string() + ", " +
                                        to.to_string() + ", can't be used: " + bad.text());
    }
  }
  const auto by_connect = [](const dial& one) {
    return !one.offered && !one.listed && !one.is_relayed();
  };
  of.wanted = false;
  if (is_listed || std::any_of(of.dials.begin(), of.dials.end(), by_connect))
    retention_.set_wanted(of);
}

}  // namespace atbus::detail
