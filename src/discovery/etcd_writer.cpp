#include "discovery/etcd_writer.h"

#include <algorithm>
#include <utility>

#include "atbus/clock.hpp"
#include "discovery/dialled_addresses.h"
#include "discovery/record_text.h"

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto not_now = std::chrono::nanoseconds::max();

}  // namespace

void etcd_writer::put(directory_record record) {
  entry& of = records_[record.id];
  of.record = std::move(record);
  of.is_wanted = of.is_owed = true;
}

void etcd_writer::remove(bus_id id) {
  const auto found = records_.find(id);
  if (found == records_.end())
    return;
  found->second.is_wanted = false;
  found->second.is_owed = true;
  if (lease_ == 0 && found->second.under_way == 0)
    records_.erase(found);
  if (records_.empty())
    forget_refusals();
}

void etcd_writer::remove_all() {
  for (auto& [id, one] : records_) {
    one.is_wanted = false;
    one.is_owed = true;
  }
}

bool etcd_writer::wants_any() const noexcept {
  return std::ranges::any_of(records_, [](const auto& one) { return one.second.is_wanted; });
}

bool etcd_writer::owes_any() const noexcept {
  return std::ranges::any_of(
      records_, [](const auto& one) { return one.second.is_owed && one.second.under_way == 0; });
}

std::size_t etcd_writer::under_way() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(records_, [](const auto& one) { return one.second.under_way != 0; }));
}

void etcd_writer::start_again() noexcept {
  for (auto& [id, one] : records_) {
    client_.cancel(one.under_way);
    one.is_owed = true;
  }
  client_.cancel(lease_call_);
  keep_at_ = 0ns;
}

bool etcd_writer::has_work() const noexcept {
  if (lease_ == 0)
    return lease_call_ == 0 && std::ranges::any_of(records_, [](const auto& one) {
             return one.second.is_wanted || one.second.under_way == 0;
           });
  if (!wants_any())
    return lease_call_ == 0 && under_way() == 0;
  return reviewed_ != reader_.revision() || (owes_any() && under_way() < requests_max);
}

std::chrono::nanoseconds etcd_writer::next() const noexcept {
  const bool keeps = lease_ != 0 && lease_call_ == 0 && wants_any();
  return std::min(has_work() ? again_at_ : not_now, keeps ? keep_at_ : not_now);
}

void etcd_writer::work(std::chrono::nanoseconds now) {
  if (!client_.is_ready(now))
    return;
  // Also while etcd takes nothing more, so that it keeps what it has.
  if (lease_call_ == 0 && lease_ != 0 && wants_any() && now >= keep_at_)
    keep_alive();
  if (now < again_at_)
    return;
  if (lease_call_ == 0 && lease_ == 0 && wants_any())
    return grant();
  if (lease_call_ == 0 && lease_ != 0 && !wants_any() && under_way() == 0)
    return revoke();
  review();
  work_out();
}

void etcd_writer::work_out() {
  if (lease_ == 0) {
    std::erase_if(records_, [](const auto& one) {
      return !one.second.is_wanted && one.second.under_way == 0;
    });
    if (records_.empty())
      forget_refusals();
    return;
  }
  // All that is left of them goes with the lease.
  if (!wants_any())
    return;
  std::size_t count = under_way();
  for (auto& [id, one] : records_) {
    if (count == requests_max)
      return;
    if (!one.is_owed || one.under_way != 0)
      continue;
    ++count;
    if (one.is_wanted)
      put_one(id, one);
    else
      remove_one(id, one);
    one.is_owed = false;
  }
}

void etcd_writer::grant() {
  lease_call_ =
      client_.ask("/v3/lease/grant", ask_for_lease(options_.lease_time.count()),
                  [this](const etcd_answer& answer) {
                    lease_call_ = 0;
                    if (answer.cause == etcd_cause::unreachable)
                      return;
                    const result<etcd_lease> made = read_lease(answer.body);
                    if (answer.cause != etcd_cause::done)
                      return refuse(answer);
                    if (!made || made->seconds <= 0)
                      return client_.fail(errc::protocol_error,
                                          "is none, or is broken: it has granted no lease");
                    ++stats_.leases;
                    lease_ = made->id;
                    keep_at_ = now() + pauses_.about(options_.lease_time / 3);
                    work_out();
                  });
}

void etcd_writer::keep_alive() {
  lease_call_ =
      client_.ask("/v3/lease/keepalive", name_lease(lease_), [this](const etcd_answer& answer) {
        lease_call_ = 0;
        if (answer.cause == etcd_cause::unreachable)
          return;
        const result<etcd_lease> left = read_lease(answer.body);
        if (answer.cause == etcd_cause::no_lease || (left && left->seconds <= 0))
          return lose_lease();
        if (answer.cause != etcd_cause::done) {
          refuse(answer);
          keep_at_ = std::min(again_at_, now() + pauses_.about(options_.lease_time / 3));
          return;
        }
        if (!left)
          return client_.fail(errc::protocol_error,
                              "is none, or is broken: " + left.error().text());
        keep_at_ = now() + pauses_.about(options_.lease_time / 3);
        if (!owes_any() && under_way() == 0)
          problem_ = {};
      });
}

void etcd_writer::revoke() {
  lease_call_ =
      client_.ask("/v3/lease/revoke", name_lease(lease_), [this](const etcd_answer& answer) {
        lease_call_ = 0;
        if (answer.cause == etcd_cause::unreachable)
          return;
        if (answer.cause != etcd_cause::done && answer.cause != etcd_cause::no_lease)
          return refuse(answer);
        lease_ = 0;
        for (auto& [id, one] : records_)
          one.is_owed = true;
        work_out();
      });
}

std::string etcd_writer::text_of(const directory_record& record) const {
  directory_record told = record;
  told.addresses = addresses_to_dial(record.addresses, options_.host, client_.own_host());
  const result<std::string> text = write_record(told);
  return text ? *text : *write_record({.id = record.id});  // never: it was tried before
}

void etcd_writer::put_one(bus_id id, entry& of) {
  of.under_way = client_.ask(
      "/v3/kv/put", ask_to_put(options_.prefix + to_key(id), text_of(of.record), lease_),
      [this, id, lease = lease_](const etcd_answer& answer) {
        entry& put = records_.at(id);
        put.under_way = 0;
        const result<etcd_header> header = read_header(answer.body);
        if (answer.cause == etcd_cause::done && header) {
          put.revision = header->revision;
          // A lease that was lost meanwhile has taken it along.
          put.is_owed = put.is_owed || lease != lease_;
          ++stats_.puts;
          refusals_ = 0;
          problem_ = {};
          return work_out();
        }
        put.is_owed = true;
        if (answer.cause == etcd_cause::no_lease && lease == lease_)
          lose_lease();
        else if (answer.cause == etcd_cause::done)
          client_.fail(errc::protocol_error, "is none, or is broken: " + header.error().text());
        else if (answer.cause != etcd_cause::unreachable)
          refuse(answer);
      });
}

void etcd_writer::remove_one(bus_id id, entry& of) {
  of.under_way = client_.ask("/v3/kv/txn", ask_to_remove(options_.prefix + to_key(id), lease_),
                             [this, id](const etcd_answer& answer) {
                               const auto found = records_.find(id);
                               found->second.under_way = 0;
                               if (answer.cause == etcd_cause::done) {
                                 if (!found->second.is_wanted)
                                   records_.erase(found);
                                 return;
                               }
                               found->second.is_owed = true;
                               if (answer.cause != etcd_cause::unreachable)
                                 refuse(answer);
                             });
}

void etcd_writer::lose_lease() noexcept {
  if (lease_ != 0)  // a put and what keeps the lease alive may both find that it is gone
    ++stats_.leases_lost;
  lease_ = 0;
  for (auto& [id, one] : records_)
    one.is_owed = true;
}

void etcd_writer::refuse(const etcd_answer& answer) {
  ++stats_.refused_writes;
  ++refusals_;
  std::chrono::nanoseconds pause = etcd_client::pause_min;
  for (std::size_t i = 1; i < refusals_ && pause < etcd_client::pause_max; ++i)
    pause *= 2;
  again_at_ = now() + pauses_.about(std::min(pause, etcd_client::pause_max));
  const errc code = answer.cause == etcd_cause::no_space ? errc::no_space
                    : answer.cause == etcd_cause::denied ? errc::denied
                                                         : errc::invalid_argument;
  if (problem_.code() != code && !records_.empty())
    problem_ = {code,
                "etcd does not take the records of this program, so others may not find it: " +
                    answer.text};
}

void etcd_writer::forget_refusals() noexcept {
  problem_ = {};
  refusals_ = 0;
}

void etcd_writer::review() {
  if (reviewed_ == reader_.revision())
    return;
  reviewed_ = reader_.revision();
  for (auto& [id, one] : records_) {
    if (!one.is_wanted || one.is_owed || one.under_way != 0 || one.revision > reviewed_)
      continue;
    one.is_owed = reader_.is_whole() && reader_.find(id) == nullptr;
  }
}

}  // namespace atbus::detail
