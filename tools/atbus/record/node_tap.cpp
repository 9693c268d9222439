#include "atbus/record/node_tap.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "atbus/inspect.hpp"
#include "atbus/nodes/nodes.h"

namespace atbus::tool {

using detail::entry_fault;
using detail::entry_kind;
using detail::recording_end;
using detail::recording_entry;

namespace {

constexpr std::string_view name_prefix = "atbus-tap-";

std::uint64_t number_of(const std::vector<std::string>& values, std::size_t index) {
  std::uint64_t number = 0;
  if (index < values.size()) {
    const std::string& text = values[index];
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (wrong == std::errc{} && end == text.data() + text.size())
      return number;
  }
  throw std::runtime_error("the node answers with something else than a number");
}

// An older version answers as one that has no such command.
std::vector<std::string> ask_node(const client_options& node,
                                  const std::vector<std::string>& words) {
  try {
    return node_client{node}.ask(words);
  } catch (const std::runtime_error& problem) {
    if (std::string_view{problem.what()}.starts_with("unknown_command"))
      throw std::runtime_error(std::string{problem.what()} +
                               "\nIts version of atbus has no taps, or it answers no commands of "
                               "operators");
    throw;
  }
}

// What killed processes have left.
void remove_old_segments() {
  const auto all = list_segments();
  if (!all)
    return;
  for (const segment_report& one : *all) {
    if (one.name.starts_with(name_prefix) && one.state == segment_state::orphan)
      (void)clean_segment(one.name);
  }
}

}  // namespace

void tap_options::add_to(CLI::App& command) {
  local_node_options::add_to(command);
  command
      .add_option("--buffer", buffer,
                  "bytes of shared memory for what was not read yet, up to 128M; default 16M")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4096}, tap_buffer_max));
}

node_tap::node_tap(const tap_options& options) : node_(client_of(options)) {
  const std::uint64_t limit = number_of(ask_node(node_, {"atbus.tap"}), 0);
  remove_old_segments();
  open_segment(limit, options.buffer);
  try {
    begin(options);
  } catch (...) {
    (void)in_->remove();
    throw;
  }
}

node_tap::~node_tap() {
  if (in_ && in_->is_open())
    (void)in_->remove();  // the node looks for that
}

void node_tap::open_segment(std::uint64_t message_limit, std::uint64_t buffer) {
  std::random_device random;
  name_ = fmt::format("{}{}-{:08x}", name_prefix, getpid(), random());
  const std::uint64_t lane_size =
      std::max(std::bit_ceil(buffer), std::bit_ceil(2 * (message_limit + 8)));
  auto made = receiver::open("shm://" + name_,
                             {.lanes = 1, .lane_size = lane_size, .message_limit = message_limit});
  if (!made)
    throw std::runtime_error(std::string{name(made.error().code())} + ": " + made.error().text());
  in_.emplace(std::move(*made));
}

void node_tap::begin(const tap_options& options) {
  const std::vector<std::string> answer = ask_node(node_, {"atbus.tap", "shm://" + name_});
  const auto id = answer.empty() ? result<bus_id>{errc::malformed} : bus_id::parse(answer.front());
  if (!id)
    throw std::runtime_error("the node answers atbus.tap with something else than its id");
  id_ = *id;
  if (!options.id.empty() && bus_id_of(options.id) != id_)
    throw std::runtime_error("the node at " + node_.address + " is " + id_.to_string() + ", not " +
                             bus_id_of(options.id).to_string());
}

void node_tap::poll(const entry_handler& each) {
  const auto take_one = [&](bytes_view copy) { take(copy, each); };
  if (const std::size_t got = in_->poll(take_one); got != 0) {
    // While much comes, the node shall not have to wake this process.
    if (got < poll_limits{}.messages)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return;
  }
  if (in_->session(0) == 0 && last_ != std::chrono::nanoseconds{0}) {
    ended_ = true;  // its sender is gone, and all that it has sent was read
    return;
  }
  (void)in_->wait(std::chrono::milliseconds{100});
}

void node_tap::take(bytes_view copy, const entry_handler& each) {
  recording_entry entry;
  const bool is_long_enough = copy.size() >= detail::tap_head_size;
  if (!is_long_enough || decode(copy.subspan(8), entry) != entry_fault::none)
    throw std::runtime_error("node " + id_.to_string() +
                             " makes copies of another kind: it has another version of atbus");
  last_ = std::chrono::nanoseconds{detail::load_little_endian<std::int64_t>(copy.data())};
  messages_ += entry.kind == entry_kind::message ? 1 : entry.count;
  has_end_ = entry.kind == entry_kind::end;
  each(last_, entry, copy.subspan(detail::tap_head_size));
}

void node_tap::end(const entry_handler& each) {
  recording_end why = recording_end::asked;
  std::uint64_t messages = 0;
  std::uint64_t lost = 0;
  try {
    if (!ended_) {
      const auto counts = node_client{node_}.ask({"atbus.untap", "shm://" + name_});
      messages = number_of(counts, 0);
      lost = number_of(counts, 1);
    }
  } catch (const std::runtime_error&) {  // it has just ended, or does not answer
    ended_ = true;
  }
  while (in_->poll([&](bytes_view copy) { take(copy, each); }) != 0) {
  }
  if (ended_) {
    why = recording_end::node_gone;
    messages = messages_;
  }
  if (!has_end_)
    hand_over_end(each, why, messages, lost);
  (void)in_->remove();
}

void node_tap::hand_over_end(const entry_handler& each, recording_end why, std::uint64_t messages,
                             std::uint64_t lost) {
  if (lost != 0)
    each(last_, {.kind = entry_kind::lost, .to = id_, .count = lost}, {});
  each(last_,
       {.kind = entry_kind::end,
        .type = static_cast<std::uint32_t>(why),
        .to = id_,
        .number = messages},
       {});
}

}  // namespace atbus::tool
