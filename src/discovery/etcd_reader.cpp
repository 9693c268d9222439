#include "discovery/etcd_reader.h"

#include <algorithm>
#include <utility>

#include "atbus/clock.hpp"

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto never = std::chrono::nanoseconds::max();
constexpr std::chrono::nanoseconds list_pause = 100ms;
constexpr std::chrono::nanoseconds first_check_pause = 200ms;
constexpr std::chrono::nanoseconds second_check_pause = 1s;

}  // namespace

etcd_reader::etcd_reader(etcd_client& client, const etcd_options& options, etcd_stats& stats,
                         random_pause& pauses)
    : client_(client),
      options_(options),
      stats_(stats),
      pauses_(pauses),
      range_(keys_with(options.prefix)),
      keys_(options.prefix, options.max_records, stats),
      generation_(client.generation()),
      confirmed_(now()) {}

void etcd_reader::stop() noexcept {
  client_.cancel(list_);
  client_.cancel(watch_);
  client_.cancel(check_);
  from_.clear();
}

void etcd_reader::list_again() noexcept {
  stop();
  stage_ = stage::list;
  // The first time at once. Something is wrong if no check comes between.
  std::chrono::nanoseconds pause = lists_in_a_row_ == 0 ? 0ns : list_pause;
  for (std::size_t i = 1; i < lists_in_a_row_ && pause < etcd_client::pause_max; ++i)
    pause *= 2;
  ++lists_in_a_row_;
  list_at_ = now() + pauses_.about(std::min(pause, etcd_client::pause_max));
}

std::chrono::nanoseconds etcd_reader::next() const noexcept {
  if (client_.generation() != generation_ || stage_ == stage::watch)
    return 0ns;
  if (stage_ == stage::list)
    return list_ != 0 ? never : list_at_;
  if (!is_watching_)
    return watched_by_;
  const auto relist = keys_.count() ? never : relist_at_;
  return std::min(relist, check_ != 0 ? never : check_at_);
}

void etcd_reader::work(std::chrono::nanoseconds now) {
  if (generation_ != client_.generation()) {
    generation_ = client_.generation();
    stop();
    if (stage_ == stage::follow)
      stage_ = stage::watch;
  }
  if (!client_.is_ready(now))
    return;
  if (stage_ == stage::list && list_ == 0 && now >= list_at_) {
    ask_page();
  } else if (stage_ == stage::watch) {
    watch();
  } else if (stage_ == stage::follow && !is_watching_) {
    if (now >= watched_by_)
      client_.fail(errc::not_connected, "does not begin to watch");
  } else if (stage_ == stage::follow && !keys_.count() && now >= relist_at_) {
    list_again();
  } else if (stage_ == stage::follow && check_ == 0 && now >= check_at_) {
    check();
  }
}

void etcd_reader::ask_page() {
  if (from_.empty()) {
    from_ = range_.first;
    list_revision_ = 0;
    page_limit_ = page_keys;
    without_values_ = false;
    keys_.begin_list();
  }
  list_ = client_.ask("/v3/kv/range",
                      ask_for_page({.first = from_, .last = range_.last}, page_limit_,
                                   list_revision_, without_values_),
                      [this, without = without_values_](const etcd_answer& answer) {
                        list_ = 0;
                        take_page(answer, without);
                      });
}

bool etcd_reader::is_in_order(const etcd_page& page) const {
  std::string_view before = from_;
  for (const etcd_pair& one : page.pairs) {
    if (one.key < before || one.key >= range_.last ||
        (&one != &page.pairs.front() && one.key == before))
      return false;
    before = one.key;
  }
  return page.header.revision > 0 && (!page.has_more || !page.pairs.empty());
}

void etcd_reader::take_page(const etcd_answer& answer, bool without_values) {
  switch (answer.cause) {
    case etcd_cause::done:
      break;
    case etcd_cause::unreachable:
      return;
    case etcd_cause::compacted:  // while it was listed
      return list_again();
    case etcd_cause::too_large:
      // Of one key alone nothing but its name can be had.
      without_values_ = page_limit_ == 1;
      page_limit_ = std::max<std::size_t>(1, page_limit_ / 8);
      if (!without_values)
        return;
      [[fallthrough]];
    default:
      return client_.fail(answer.cause == etcd_cause::denied ? errc::denied : errc::not_connected,
                          "refuses to list the keys below its prefix: " + answer.text);
  }
  const result<etcd_page> page = read_page(answer.body);
  if (!page || !is_in_order(*page)) {
    return client_.fail(errc::protocol_error,
                        "is none, or is broken: it has sent keys that nobody has asked for");
  }
  if (list_revision_ == 0) {
    list_revision_ = page->header.revision;
    cluster_ = page->header.cluster;
  }
  bool has_room = true;
  bool is_whole = !page->has_more;
  for (const etcd_pair& one : page->pairs) {
    is_whole = is_whole && has_room;
    has_room = has_room && (without_values ? keys_.list_without_value(one) : keys_.list(one));
  }
  without_values_ = false;
  if (page->has_more && has_room) {
    from_ = page->pairs.back().key + '\0';
    return;
  }
  keys_.end_list(is_whole);
  from_.clear();
  next_ = list_revision_ + 1;
  stage_ = stage::watch;
  ++stats_.lists;
  confirmed_ = now();
  relist_at_ = confirmed_ + pauses_.about(relist_interval);
  client_.works();
}

bool etcd_reader::is_other_etcd(const etcd_header& header, std::int64_t next) const noexcept {
  return header.cluster != cluster_ || header.revision < next - 1;
}

void etcd_reader::watch() {
  stage_ = stage::follow;
  is_watching_ = false;
  watched_by_ = now() + etcd_client::answer_limit;
  lines_.emplace(http_loop::answer_max);
  differed_at_.reset();
  watched_with_ = client_.token_number();
  ++stats_.watches;
  watch_ = client_.follow(
      "/v3/watch", ask_for_watch(range_, next_),
      [this](std::string_view bytes) { take_part(bytes); },
      [this](const etcd_answer& answer) {
        watch_ = 0;
        if (answer.cause == etcd_cause::unreachable) {
          stage_ = stage::watch;
          return;
        }
        if (answer.cause == etcd_cause::too_large) {  // more at once than is ever taken
          ++stats_.too_large;
          return list_again();
        }
        client_.fail(answer.cause == etcd_cause::denied ? errc::denied : errc::not_connected,
                     answer.text.empty() ? "has ended the watch"
                                         : "refuses to watch its keys: " + answer.text);
      });
}

void etcd_reader::take_part(std::string_view bytes) {
  bool is_ended = false;
  const bool fits = lines_->take(bytes, [&](std::string_view line) {
    is_ended = !take_line(line);
    return !is_ended;
  });
  if (fits || is_ended)
    return;
  // What it was is not known.
  ++stats_.too_large;
  list_again();
}

bool etcd_reader::take_line(std::string_view line) {
  const result<etcd_news> news = read_news(line);
  if (!news) {
    client_.fail(errc::protocol_error, "is none, or is broken: " + news.error().text());
    return false;
  }
  if (news->is_canceled)
    return take_end_of_watch(*news);
  if (news->is_created) {
    if (is_other_etcd(news->header, next_)) {
      list_again();
      return false;
    }
    is_watching_ = true;
    // After a pause it brings what has changed meanwhile first.
    check_at_ =
        std::max(confirmed_ + pauses_.about(options_.lease_time), now() + first_check_pause);
    client_.works();
  }
  take_events(*news);
  return true;
}

bool etcd_reader::take_end_of_watch(const etcd_news& news) {
  if (news.compacted > 0) {
    ++stats_.compactions;
    list_again();
  } else if (client_.is_end_of_token(news.reason, watched_with_)) {
    client_.cancel(watch_);
    stage_ = stage::watch;
  } else {
    client_.fail(news.reason.find("permission denied") != std::string::npos ? errc::denied
                                                                            : errc::not_connected,
                 "has ended the watch: " + news.reason);
  }
  return false;
}

void etcd_reader::take_events(const etcd_news& news) {
  std::int64_t last = 0;
  for (const etcd_event& one : news.events) {
    if (!one.pair.key.starts_with(options_.prefix))
      continue;
    last = std::max(last, one.pair.revision);
    if (one.is_removal)
      keys_.remove(one.pair.key);
    else
      keys_.put(one.pair);
  }
  if (last != 0)
    next_ = std::max(next_, news.is_fragment ? last : last + 1);
  else if (news.events.empty() && !news.is_created)
    next_ = std::max(next_, news.header.revision + 1);
  // Otherwise it is still behind.
  if (next_ > news.header.revision && !news.is_created)
    confirmed_ = now();
}

void etcd_reader::check() {
  check_ = client_.ask("/v3/kv/range", ask_for_changes(range_, next_),
                       [this, asked = next_](const etcd_answer& answer) {
                         check_ = 0;
                         take_check(answer, asked);
                       });
}

// `asked`: from where on. What the stream has brought meanwhile may be newer than the answer.
void etcd_reader::take_check(const etcd_answer& answer, std::int64_t asked) {
  if (answer.cause == etcd_cause::unreachable)
    return;
  const result<etcd_page> page = read_page(answer.body);
  if (answer.cause != etcd_cause::done || !page) {
    return client_.fail(answer.cause == etcd_cause::denied ? errc::denied : errc::not_connected,
                        "does not list its keys any more: " +
                            (answer.cause == etcd_cause::done ? page.error().text() : answer.text));
  }
  if (is_other_etcd(page->header, asked))
    return list_again();
  const auto known = keys_.count();
  if (page->pairs.empty() && (!known || *known == page->count)) {
    ++stats_.checks;
    confirmed_ = now();
    differed_at_.reset();
    lists_in_a_row_ = 0;
    client_.lasts();
    check_at_ = confirmed_ + pauses_.about(options_.lease_time);
    client_.works();
  } else if (differed_at_ == next_) {
    list_again();  // the stream brings nothing
  } else {
    differed_at_ = next_;
    check_at_ = now() + second_check_pause;
  }
}

}  // namespace atbus::detail
