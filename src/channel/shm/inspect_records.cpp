// Walks the records of a lane without taking part in its protocol.
#include <algorithm>
#include <deque>

#include "atbus/inspect.hpp"
#include "channel/shm/segment_view.h"

namespace atbus {
namespace detail {
namespace {

constexpr std::size_t chunk_size = 64 * 1024;

// The bytes of a lane by position, read in chunks.
class lane_bytes {
 public:
  lane_bytes(const segment_view& view, std::uint32_t lane) : view_(view), lane_(lane) {
    buffer_.reserve(chunk_size);
  }

  // `size` bytes at `position`, which do not wrap and end before `tail`. Null if the file is too short, or
  // if `head` has passed the position, so that the sender may have written there.
  [[nodiscard]] const std::byte* at(std::uint64_t position, std::size_t size, std::uint64_t tail) {
    if (position - begin_ > buffer_.size() || buffer_.size() - (position - begin_) < size) {
      if (!load(position, std::max(size, chunk_size), tail))
        return nullptr;
    }
    return buffer_.data() + (position - begin_);
  }

 private:
  bool load(std::uint64_t position, std::size_t size, std::uint64_t tail) {
    const std::uint64_t offset = position & (view_.geometry().lane_size - 1);
    const std::uint64_t most = std::min(view_.geometry().lane_size - offset, tail - position);
    buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(most, size)));
    begin_ = position;
    if (!view_.read(view_.geometry().lane_offset(lane_) + offset, buffer_.data(), buffer_.size()))
      return false;
    // pread acts as an acquire: the bytes read before are older than this value.
    const std::uint64_t head = view_.slot_word(lane_, offsetof(lane_slot, head));
    return static_cast<std::int64_t>(head - position) <= 0;
  }

  const segment_view& view_;
  std::uint32_t lane_;
  std::uint64_t begin_ = 0;
  std::vector<std::byte> buffer_;
};

std::string_view kind_name(std::uint64_t header) noexcept {
  switch (record_kind_of(header)) {
    case record_kind::message:
      return "message";
    case record_kind::padding:
      return "padding";
    case record_kind::open:
      return "open";
  }
  return "impossible";
}

class record_walk {
 public:
  record_walk(const segment_view& view, std::uint32_t lane, const slot_copy& slot,
              const records_options& options)
      : geometry_(view.geometry()),
        bytes_(view, lane),
        options_(options),
        done_(slot.at(offsetof(lane_slot, done))),
        handling_(slot.at(offsetof(lane_slot, handling))),
        tail_(slot.at(offsetof(lane_slot, tail))) {}

  records_report run(std::uint64_t position) {
    while (position != tail_ && found_ < options_.most_records) {
      record_report record;
      record.position = position;
      const std::uint64_t size = read(record);
      if (size == 0) {
        report_.complete = false;
        break;
      }
      count(record);
      keep(std::move(record));
      position += size;
    }
    report_.complete &= position == tail_;
    report_.near_tail.assign(last_.begin(), last_.end());
    report_.left_out = found_ - report_.near_head.size() - report_.near_tail.size();
    return std::move(report_);
  }

 private:
  // The size of the record in the lane; 0 ends the walk.
  std::uint64_t read(record_report& record) {
    const std::uint64_t rest =
        std::min(geometry_.lane_size - (record.position & (geometry_.lane_size - 1)),
                 tail_ - record.position);
    const std::byte* at = bytes_.at(record.position, record_header_size, tail_);
    if (at == nullptr)
      return 0;
    std::uint64_t header = 0;
    std::memcpy(&header, at, sizeof header);
    record.kind = kind_name(header);
    record.length = record_length(header);
    record.state = state_of(record.position);
    const std::uint64_t size = record_size(record.length);
    const bool too_long =
        record_kind_of(header) == record_kind::message && record.length > geometry_.message_limit;
    if (record.kind == "impossible" || size > rest || too_long) {
      record.kind = "impossible";
      keep(std::move(record));
      return 0;
    }
    if (record_kind_of(header) != record_kind::padding) {
      const auto shown =
          static_cast<std::size_t>(std::min<std::uint64_t>(record.length, options_.first_bytes));
      at = bytes_.at(record.position, record_header_size + shown, tail_);
      if (at == nullptr)
        return 0;
      record.first_bytes.assign(at + record_header_size, at + record_header_size + shown);
    }
    return size;
  }

  [[nodiscard]] record_state state_of(std::uint64_t position) const noexcept {
    if (position == done_)
      return handling_ != done_ && handling_ - done_ <= tail_ - done_ ? record_state::handling
                                                                      : record_state::waiting;
    return done_ - position <= geometry_.lane_size ? record_state::handled : record_state::waiting;
  }

  void count(const record_report& record) noexcept {
    if (record.kind != "message" || record.state == record_state::handled)
      return;
    ++report_.waiting_messages;
    report_.waiting_payload_bytes += record.length;
  }

  void keep(record_report record) {
    ++found_;
    if (report_.near_head.size() < options_.near_head) {
      report_.near_head.push_back(std::move(record));
      return;
    }
    if (options_.near_tail == 0)
      return;
    if (last_.size() == options_.near_tail)
      last_.pop_front();
    last_.push_back(std::move(record));
  }

  const segment_geometry& geometry_;
  lane_bytes bytes_;
  const records_options& options_;
  std::uint64_t done_;
  std::uint64_t handling_;
  std::uint64_t tail_;
  std::uint64_t found_ = 0;
  std::deque<record_report> last_;
  records_report report_;
};

}  // namespace

records_report walk_records(const segment_view& view, std::uint32_t lane, walk_start from,
                            const records_options& options) {
  slot_copy slot;
  if (!view.read_slot(lane, slot) || !view.is_possible(slot)) {
    records_report nothing;
    nothing.complete = false;
    return nothing;
  }
  const std::size_t start =
      from == walk_start::head ? offsetof(lane_slot, head) : offsetof(lane_slot, done);
  return record_walk{view, lane, slot, options}.run(slot.at(start));
}

}  // namespace detail

std::string_view name(record_state state) noexcept {
  switch (state) {
    case record_state::handled:
      return "handled";
    case record_state::handling:
      return "handling";
    case record_state::waiting:
      return "waiting";
  }
  return "unknown";
}

result<records_report> inspect_records(std::string_view name, std::uint32_t lane,
                                       const std::string& directory,
                                       const records_options& options) {
  auto wanted = detail::named_segment(name, directory);
  if (!wanted)
    return wanted.error();
  auto view = detail::segment_view::open(*wanted);
  if (!view)
    return view.error();
  if (lane >= view->geometry().lane_count) {
    return error{errc::invalid_argument,
                 wanted->text() + " has " + std::to_string(view->geometry().lane_count) +
                     " lanes; lane " + std::to_string(lane) + " is not among them"};
  }
  return detail::walk_records(*view, lane, detail::walk_start::head, options);
}

}  // namespace atbus
