// Peers that stand in the directory: dialled as if connect() named them, for as long as they do.
#include <algorithm>
#include <utility>

#include "node/core/node_core.h"
#include "node/directory/file_directory.h"

namespace atbus::detail {
namespace {

constexpr std::chrono::nanoseconds look_interval = std::chrono::seconds{2};

}  // namespace

void node_core::open_directory() {
  directory_ = options_.directory();
  if (directory_ == nullptr && !options_.directory_file().empty())
    directory_ = std::make_shared<file_directory>(options_.directory_file());
  if (directory_ == nullptr)
    return;
  directory_watch_ = directory_->watch([this](bus_id id) { directory_changes_.push_back(id); });
  directory_clock_.replace([this] { look_at_directory(); });
  look_at_directory();
}

void node_core::look_at_directory() {
  const error now = directory_->poll();
  if (const std::string problem = now ? std::string{} : now.text(); problem != directory_problem_) {
    directory_problem_ = problem;
    log(now ? "the directory is in use again" : problem);
  }
  for (const bus_id id : std::exchange(directory_changes_, {})) {
    peer* const of = find(id);
    if (of == nullptr)
      continue;
    follow_directory(*of);
    if (of->sessions.empty())
      let_go(*of);
  }
  directory_clock_.set(on_.clock.now() + look_interval);
}

peer* node_core::find_or_look_up(bus_id id) {
  peer* const known = find(id);
  if (known != nullptr && (known->wished || !known->sessions.empty()))
    return known;
  if (directory_ == nullptr || !fault_ || id == self_.id || id == bus_id{} ||
      directory_->lookup(id).empty())
    return known;
  peer& of = find_or_make(id);
  follow_directory(of);
  if (of.wished || known != nullptr)
    return &of;
  forget(of);
  return nullptr;
}

void node_core::follow_directory(peer& of) {
  std::vector<address> now;
  for (const std::string& text : directory_->lookup(of.id)) {
    if (const result<address> to = address::parse(text))
      now.push_back(*to);
    else
      log_cause(to.error().code(), "the directory: " + to.error().text());
  }
  std::list<dial> gone;
  for (auto at = of.dials.begin(); at != of.dials.end();) {
    const auto one = at++;
    if (one->listed && std::find(now.begin(), now.end(), one->to) == now.end())
      gone.splice(gone.end(), of.dials, one);
  }
  end_dials(gone);
  bool is_listed = false;
  for (const address& to : now) {
    const auto known = std::ranges::find(of.dials, to, &dial::to);
    // Its turn comes when that link is lost.
    const bool later = of.current != nullptr && of.current->at.kind() != link_kind::relayed;
    if (known != of.dials.end() && known->is_to_sibling()) {
      known->offered = false;
      known->as = relation::peer;
      is_listed = known->listed = true;
    } else if (later || known != of.dials.end()) {
      is_listed = true;
    } else if (const error bad = start_dial(of.dials, &of, to, false); bad) {
      is_listed = of.dials.back().listed = true;
    } else {
      log_cause(bad.code(), "the directory's address of " + of.id.to_string() + ", " +
                                to.to_string() + ", can't be used: " + bad.text());
    }
  }
  const auto by_connect = [](const dial& one) {
    return !one.offered && !one.listed && !one.is_relayed();
  };
  of.wished = false;
  if (is_listed || std::any_of(of.dials.begin(), of.dials.end(), by_connect))
    wish_for(of);
}

}  // namespace atbus::detail
