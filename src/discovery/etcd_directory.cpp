#include <poll.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "atbus/clock.hpp"
#include "atbus/etcd.hpp"
#include "discovery/etcd_client.h"
#include "discovery/etcd_reader.h"
#include "discovery/etcd_settings.h"
#include "discovery/etcd_writer.h"
#include "discovery/http_loop.h"
#include "discovery/record_text.h"
#include "system/fork_guard.h"

namespace atbus {
namespace detail {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds end_limit = 500ms;

class etcd_of_program final : public etcd_directory {
 public:
  etcd_of_program(const etcd_options& options, std::unique_ptr<http_loop> loop)
      : options_(options), loop_(std::move(loop)) {
    sleep();
  }
  ~etcd_of_program() override {
    try {
      end();
    } catch (const std::bad_alloc&) {
      // What is left there goes with the lease.
    }
  }

  [[nodiscard]] std::vector<std::string> lookup(bus_id id) override {
    const directory_record* const known = records().find(id);
    return known != nullptr ? known->addresses : std::vector<std::string>{};
  }
  [[nodiscard]] std::optional<directory_record> find(bus_id id) override;
  [[nodiscard]] std::vector<bus_id> members(std::string_view service) override {
    return records().members(service);
  }
  watch_id watch(std::function<void(bus_id)> changed) override {
    return records().watch(std::move(changed));
  }
  watch_id watch_members(std::string service, std::function<void()> changed) override {
    return records().watch_members(std::move(service), std::move(changed));
  }
  void unwatch(watch_id which) override { records().unwatch(which); }
  error announce(const directory_record& record) override;
  error withdraw(bus_id id) override;
  [[nodiscard]] int descriptor() const noexcept override { return loop_->descriptor(); }
  error poll() override;
  [[nodiscard]] etcd_stats stats() const override { return stats_; }

 private:
  [[nodiscard]] record_table& records() noexcept { return reader_.keys().records(); }
  [[nodiscard]] bool is_in_child() const noexcept { return forks_so_far() != forks_before_; }
  [[nodiscard]] bool is_announced(const directory_record& record) const noexcept {
    return options_.announce == announcing::always || record.place != tree_place::leaf ||
           !record.services.empty();
  }
  [[nodiscard]] error problem();
  void step();
  // Takes what has come.
  void work();
  void sleep() noexcept;
  // What was under way may be lost.
  void start_again() noexcept;
  void end();

  const etcd_options options_;
  const std::uint64_t forks_before_ = forks_so_far();
  etcd_stats stats_;
  random_pause pauses_;
  const std::unique_ptr<http_loop> loop_;
  etcd_client client_{*loop_, options_, stats_, pauses_};
  etcd_reader reader_{client_, options_, stats_, pauses_};
  etcd_writer writer_{client_, reader_, options_, stats_, pauses_};
};

std::optional<directory_record> etcd_of_program::find(bus_id id) {
  const directory_record* const known = records().find(id);
  if (known == nullptr)
    return std::nullopt;
  std::optional<directory_record> copy{*known};
  copy->age = now() - reader_.confirmed();
  return copy;
}

error etcd_of_program::announce(const directory_record& record) {
  if (options_.announce == announcing::never)
    return {errc::not_supported, "this program only reads etcd (etcd_options::announce)"};
  if (is_in_child())
    return {errc::used_after_fork};
  if (!is_announced(record))
    return withdraw(record.id);
  try {
    if (const result<std::string> text = write_record(record); !text)
      return text.error();
    writer_.put(record);
    work();
  } catch (const std::bad_alloc&) {
    start_again();
    return {errc::out_of_memory};
  }
  return {};
}

error etcd_of_program::withdraw(bus_id id) {
  if (options_.announce == announcing::never)
    return {errc::not_supported, "this program only reads etcd (etcd_options::announce)"};
  if (is_in_child())
    return {errc::used_after_fork};
  try {
    writer_.remove(id);
    work();
  } catch (const std::bad_alloc&) {
    start_again();
    return {errc::out_of_memory};
  }
  return {};
}

error etcd_of_program::poll() {
  if (is_in_child())
    return {errc::used_after_fork};
  try {
    step();
  } catch (const std::bad_alloc&) {
    start_again();
    return {errc::out_of_memory, "there was no memory for what etcd has sent; it is asked again"};
  }
  records().tell_changed();
  return problem();
}

error etcd_of_program::problem() {
  if (!client_.problem())
    return client_.problem();
  if (!writer_.problem())
    return writer_.problem();
  return reader_.keys().problem();
}

void etcd_of_program::step() {
  loop_->drive();
  work();
}

void etcd_of_program::work() {
  const auto time = now();
  client_.work(time);
  reader_.work(time);
  writer_.work(time);
  loop_->send();
  sleep();
}

void etcd_of_program::sleep() noexcept {
  loop_->wake_at(std::max(client_.next(), std::min(reader_.next(), writer_.next())));
}

void etcd_of_program::start_again() noexcept {
  client_.start_again();
  reader_.list_again();
  writer_.start_again();
  sleep();
}

void etcd_of_program::end() {
  if (is_in_child() || !client_.problem() || reader_.revision() == 0)
    return;
  writer_.remove_all();
  for (const auto limit = now() + end_limit; !writer_.is_done() && now() < limit;) {
    step();
    pollfd ready{.fd = loop_->descriptor(), .events = POLLIN, .revents = 0};
    if (!writer_.is_done())
      (void)::poll(&ready, 1, 20);
  }
}

}  // namespace
}  // namespace detail

result<std::shared_ptr<etcd_directory>> etcd_directory::open(const etcd_options& options) {
  if (error why = detail::check_etcd(options); !why)
    return why;
  try {
    auto loop = detail::http_loop::make(
        {.authority = options.authority, .certificate = options.certificate, .key = options.key});
    if (!loop)
      return loop.error();
    return std::shared_ptr<etcd_directory>{
        std::make_shared<detail::etcd_of_program>(options, *std::move(loop))};
  } catch (const std::bad_alloc&) {
    return error{errc::out_of_memory};
  }
}

}  // namespace atbus
