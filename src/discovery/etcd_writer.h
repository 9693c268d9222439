// The records of this program in etcd, and the lease that they are on.
//
// One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "atbus/bus_id.hpp"
#include "atbus/etcd.hpp"
#include "discovery/etcd_client.h"
#include "discovery/etcd_reader.h"

namespace atbus::detail {

class etcd_writer {
 public:
  static constexpr std::size_t requests_max = 8;  // at a time

  etcd_writer(etcd_client& client, const etcd_reader& reader, const etcd_options& options,
              etcd_stats& stats, random_pause& pauses)
      : client_(client), reader_(reader), options_(options), stats_(stats), pauses_(pauses) {}

  // One that write_record() takes.
  void put(directory_record record);
  void remove(bus_id id);
  void work(std::chrono::nanoseconds now);
  // When it has something to do, if the client is ready.
  [[nodiscard]] std::chrono::nanoseconds next() const noexcept;
  // Answers may have been lost: asks again.
  void start_again() noexcept;
  // Removes all, and all at once.
  void remove_all();
  // Nothing of this program is in etcd, or will be.
  [[nodiscard]] bool is_done() const noexcept {
    return records_.empty() && lease_ == 0 && lease_call_ == 0;
  }

  // No error, or what keeps etcd from taking records.
  [[nodiscard]] const error& problem() const noexcept { return problem_; }

 private:
  using call = etcd_client::call;
  struct entry {
    directory_record record;
    bool is_wanted = true;
    bool is_owed = true;
    call under_way = 0;
    std::int64_t revision = 0;  // of the last put; 0: none
  };

  [[nodiscard]] bool wants_any() const noexcept;
  [[nodiscard]] bool owes_any() const noexcept;
  [[nodiscard]] std::size_t under_way() const noexcept;
  [[nodiscard]] bool has_work() const noexcept;
  void grant();
  void keep_alive();
  void revoke();
  [[nodiscard]] std::string text_of(const directory_record& record) const;
  void put_one(bus_id id, entry& of);
  void remove_one(bus_id id, entry& of);
  void lose_lease() noexcept;
  void refuse(const etcd_answer& answer);
  // What was refused is not wanted any more.
  void forget_refusals() noexcept;
  void work_out();
  // Puts again what somebody has removed.
  void review();

  etcd_client& client_;
  const etcd_reader& reader_;
  const etcd_options& options_;
  etcd_stats& stats_;
  random_pause& pauses_;
  std::map<bus_id, entry> records_;
  std::int64_t lease_ = 0;  // 0: none
  call lease_call_ = 0;
  std::chrono::nanoseconds keep_at_{0};
  std::chrono::nanoseconds again_at_{0};  // after a refusal
  std::size_t refusals_ = 0;              // in a row
  std::int64_t reviewed_ = 0;
  error problem_;
};

}  // namespace atbus::detail
