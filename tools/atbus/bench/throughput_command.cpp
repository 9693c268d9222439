#include "atbus/bench/throughput_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "atbus/bench/channel_open.h"
#include "atbus/bench/interrupt.h"
#include "atbus/bench/limit.h"
#include "atbus/bench/options.h"
#include "atbus/bench/report.h"
#include "atbus/bench/socket_limit.h"

namespace atbus::bench {
namespace {

struct throughput_options {
  common_options common{.seconds = 3, .repeat = 1, .json = {}, .cpus = {}};
  std::string kind;  // shm, mem or stream
  std::string address;
  std::optional<std::uint64_t> size;
  std::optional<bool> checksum;
  std::optional<bool> sleep;  // of a stream's receiver
  bool limit = false;
  workload work;
};

struct throughput_results {
  run_series ours;
  std::unique_ptr<yardstick> limit;  // null: not wanted
  machine_speed machine;

  bool has_limit() const { return limit != nullptr && !limit->best().runs.empty(); }
  // How fast we are compared with the limit: of each pair of runs made side by side, because a
  // machine may change between pairs.
  spread shares() const;
};

spread throughput_results::shares() const {
  const run_series& theirs = limit->best();
  std::vector<double> ratios;
  for (std::size_t i = 0; i != std::min(ours.runs.size(), theirs.runs.size()); ++i) {
    ratios.push_back(ours.runs[i].messages_per_second() /
                     std::max(theirs.runs[i].messages_per_second(), 1.0));
  }
  return spread_of(std::move(ratios));
}

constexpr std::uint32_t usual_lanes = 64;  // of the library

// Completes what a run through lanes is.
void plan_lanes(const throughput_options& options, workload& work) {
  work.connections = work.senders;
  const std::uint32_t wanted_lanes = work.senders + work.idle_senders;
  if (work.lanes != 0 && work.lanes < wanted_lanes) {
    throw CLI::ValidationError(
        "--lanes", "is less than --senders and --idle-senders together; each needs a lane");
  }
  const std::string scheme = options.kind + "://";
  const std::string address = options.address.empty()
                                  ? fmt::format("{}bench-{}", scheme, static_cast<int>(getpid()))
                                  : options.address;
  if (!address.starts_with(scheme)) {
    throw CLI::ValidationError("--address", "\"" + address + "\" does not begin with " + scheme);
  }
  work.lanes = work.lanes == 0 && wanted_lanes > usual_lanes ? wanted_lanes : work.lanes;
  set_channel_address("--address", address, work.address);
}

// The same for sockets.
void plan_stream(const throughput_options& options, workload& work) {
  work.stream = true;
  work.connections = std::max(work.connections, work.senders);
  const std::string address = options.address.empty() ? "ipv6://::1:0" : options.address;
  set_channel_address("--address", address, work.address);
  const auto kind = kind_of(address);
  if (!kind) {
    throw CLI::ValidationError(
        "--address", "\"" + address + "\" does not begin with ipv4://, ipv6:// or unix://");
  }
  work.moves_to_lanes = moves_to_lanes(address);
  constexpr std::uint32_t most_lanes = 4096;
  if (const std::uint32_t dialling = work.connections + work.idle_senders; dialling > usual_lanes) {
    work.lanes = std::min(dialling, most_lanes);
  }
  work.sleep = options.sleep.value_or(!work.moves_to_lanes);
  // As the library does.
  work.checksum = options.checksum.value_or(kind != socket_kind::local);
}

// Completes the workload from the options; refuses what can't be measured.
workload plan(const throughput_options& options) {
  workload work = options.work;
  work.duration_ns = options.common.duration_ns();
  if (options.size) {
    work.unit_size = 0;
    work.size = *options.size;
  }
  require_room_for_number(work.lengths().shortest(), work.check);
  if (work.rate != 0 && work.check == check_kind::none) {
    throw CLI::ValidationError("--rate",
                               "latency is measured by message number; not with --check "
                               "none");
  }
  if (work.rate != 0 && work.batch > 1) {
    throw CLI::ValidationError("--rate", "paced messages are sent one by one, not in batches");
  }
  options.kind == "stream" ? plan_stream(options, work) : plan_lanes(options, work);
  return work;
}

std::unique_ptr<yardstick> yardstick_for(const workload& work) {
  const auto kind = kind_of(work.address.data());
  if (!kind || work.moves_to_lanes) {
    return std::make_unique<ring_limit>();
  }
  socket_shape shape;
  shape.buffer_bytes = work.socket_buffer_bytes < 0
                           ? static_cast<std::uint64_t>(socket_options{}.send_buffer)
                           : static_cast<std::uint64_t>(work.socket_buffer_bytes);
  if (work.spin_ns >= 0) {
    shape.spin_ns = work.spin_ns;
  }
  return std::make_unique<socket_limit>(*kind, shape);
}

throughput_results measure(const throughput_options& options, const workload& work) {
  const std::vector<int> cpus = options.common.chosen_cpus();
  std::vector<task> tasks(1 + work.senders, task::channel_sender);
  tasks.front() = task::channel_receiver;
  const run_setup setup{.cpus = cpus,
                        .threads = options.kind == "mem",
                        .label = fmt::format("{}  {}", length_text(work), sender_text(work)),
                        .arena_bytes = sent_counts_bytes(work)};
  throughput_results results;
  if (options.limit) {
    results.limit = yardstick_for(work);
  }
  for (std::uint32_t round = 0; round != options.common.repeat && !interrupted(); ++round) {
    const run_outcome outcome = run_workers(work, tasks, setup);
    results.ours.add(outcome);
    if (!outcome.problems.empty()) {
      remove_leftovers(work.address.data());
      break;
    }
    if (options.limit) {
      results.machine.probe(cpus);
      results.limit->measure(work, cpus);
    }
  }
  return results;
}

const char* name_of(check_kind check) noexcept {
  return check == check_kind::full ? "full" : check == check_kind::sequence ? "sequence" : "none";
}

std::string share_text(const workload& work, const throughput_results& results) {
  if (!results.has_limit()) {
    return {};
  }
  const spread share = results.shares();
  std::string text = fmt::format("   {:.0f} % of the bare {}", 100 * share.median,
                                 work.stream && !work.moves_to_lanes ? "socket" : "ring");
  if (results.ours.runs.size() > 1) {
    text += fmt::format(" ({:.0f}-{:.0f} %)", 100 * share.min, 100 * share.max);
  }
  return text;
}

// The line that sums it all up.
std::string summary(const workload& work, const throughput_results& results) {
  const run_series& ours = results.ours;
  const nlohmann::json figures = bench::json_of(ours);
  const auto count = [&figures](const char* what) { return figures[what].get<std::uint64_t>(); };
  const auto cpu = [&figures](const char* side) {
    return figures[side]["cpu_percent"].get<double>();
  };
  const auto megabytes = [&figures](const char* side) {
    return figures[side]["max_rss_kib"].get<double>() * 1024 / 1e6;
  };
  std::string line =
      fmt::format(" {}   {}   {}   {}{}", length_text(work), sender_text(work),
                  message_rate_text(ours.messages_per_second().median),
                  byte_rate_text(ours.bytes_per_second().median), share_text(work, results));
  line += fmt::format("   cpu {:.0f}/{:.0f} %   rss {:.1f}/{:.1f} MB   lost {}  corrupt {}",
                      cpu("sender"), cpu("receiver"), megabytes("sender"), megabytes("receiver"),
                      count("lost"), count("corrupt"));
  return count("reordered") == 0 ? line : line + fmt::format("  reordered {}", count("reordered"));
}

std::string range_text(const spread& rate) {
  return fmt::format("{} to {}", message_rate_text(rate.min), message_rate_text(rate.max));
}

void print_table(const workload& work, const throughput_results& results) {
  const run_series& ours = results.ours;
  if (ours.runs.empty()) {
    return;
  }
  fmt::print("{}\n", summary(work, results));
  if (ours.runs.size() > 1) {
    fmt::print(" {} runs: {}\n", ours.runs.size(), range_text(ours.messages_per_second()));
  }
  if (results.has_limit()) {
    const spread limit = results.limit->best().messages_per_second();
    fmt::print(" {}: {}  {} ({})\n", results.limit->name(), message_rate_text(limit.median),
               byte_rate_text(results.limit->best().bytes_per_second().median), range_text(limit));
  }
  if (const std::string warning = results.machine.warning(); !warning.empty()) {
    fmt::print(" note: {}\n", warning);
  }
  if (work.stream) {
    fmt::print(" socket buffers granted: {} KiB to send, {} KiB to receive\n",
               ours.runs.front().sender.socket_buffer / 1024,
               ours.runs.front().receiver.socket_buffer / 1024);
  }
  if (ours.runs.front().latency) {
    fmt::print(" latency from the intended send time: {}\n", latency_text(median_latency(ours)));
  }
}

// What a stream was told, by default too, and what the kernel made of it.
void add_stream(const workload& work, const run_figures& first, nlohmann::json& result) {
  const socket_options sockets;
  result["connections"] = work.connections;
  result["buffer"] = work.growing_buffer ? "malloc" : "static";
  if (work.send_buffer_bytes != 0) {
    result["send_buffer_bytes"] = work.send_buffer_bytes;
  }
  if (work.send_buffer_blocks != 0) {
    result["send_buffer_blocks"] = work.send_buffer_blocks;
  }
  result["crc"] = work.checksum;
  result["socket_buffer"] =
      work.socket_buffer_bytes < 0 ? sockets.send_buffer : work.socket_buffer_bytes;
  result["granted"] = {{"send_bytes", first.sender.socket_buffer},
                       {"receive_bytes", first.receiver.socket_buffer}};
  result["shm"] = work.moves_to_lanes;
  result["sleep"] = work.sleep;
}

nlohmann::json json_of(const throughput_options& options, const workload& work,
                       const throughput_results& results) {
  nlohmann::json result = bench::json_of(results.ours);
  result["workload"] = options.kind;
  result["address"] = work.address.data();
  result["senders"] = work.senders;
  if (work.idle_senders != 0) {
    result["idle_senders"] = work.idle_senders;
  }
  if (work.unit_size != 0) {
    result["unit_size"] = work.unit_size;
  } else {
    result["size"] = work.size;
  }
  result["check"] = name_of(work.check);
  result["api"] = work.api == api_kind::claim ? "claim" : "send";
  if (work.rate != 0) {
    result["rate"] = work.rate;
  }
  if (work.stream && !results.ours.runs.empty()) {
    add_stream(work, results.ours.runs.front(), result);
  }
  if (results.has_limit()) {
    const run_series& limit = results.limit->best();
    const spread share = results.shares();
    const spread machine_us = results.machine.cache_line_us();
    const auto part = [&limit, &machine_us](double (*choose)(const spread&),
                                            double of) -> nlohmann::json {
      return {{"messages_per_second", choose(limit.messages_per_second())},
              {"bytes_per_second", choose(limit.bytes_per_second())},
              {"cache_line_us", choose(machine_us)},
              {"share", of}};
    };
    result["limit"] = part([](const spread& s) { return s.median; }, share.median);
    if (const auto* const sockets = dynamic_cast<const socket_limit*>(results.limit.get())) {
      result["limit"]["buffers"] = json_of(sockets->buffers());
    }
    if (results.ours.runs.size() > 1) {
      result["min"]["limit"] = part([](const spread& s) { return s.min; }, share.min);
      result["max"]["limit"] = part([](const spread& s) { return s.max; }, share.max);
    }
  }
  return result;
}

void run(const throughput_options& options) {
  const workload work = plan(options);
  json_output output{options.common.json};
  const interrupt_guard guard;
  const throughput_results results = measure(options, work);
  if (!output.takes_stdout()) {
    print_table(work, results);
  }
  print_problems(results.ours.problems);
  if (results.limit != nullptr) {
    print_problems(results.limit->best().problems);
  }
  const bool written = results.ours.runs.empty() || output.write(json_of(options, work, results));
  if (!written || results.ours.runs.empty() || results.ours.failed() ||
      (results.limit != nullptr && results.limit->best().failed())) {
    throw CLI::RuntimeError(1);
  }
}

void add_message_options(CLI::App& command, throughput_options& options) {
  constexpr std::uint32_t most_units = 8U << 20;
  constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20;
  static const std::map<std::string, api_kind> apis{{"claim", api_kind::claim},
                                                    {"send", api_kind::send}};
  CLI::Option* const unit_size =
      command
          .add_option(
              "--unit-size", options.work.unit_size,
              "messages are 8 x uniform 1..N bytes long: 16 gives 8-128, 2048 gives 8-16384")
          ->check(CLI::Range(1U, most_units))
          ->type_name("N")
          ->capture_default_str();
  command.add_option("--size", options.size, "all messages are so many bytes long")
      ->check(CLI::Range(std::uint64_t{0}, most_bytes))
      ->type_name("BYTES")
      ->excludes(unit_size);
  command
      .add_option(
          "--api", options.work.api,
          "claim: messages are written in place; send: written elsewhere and copied (default)")
      ->transform(CLI::CheckedTransformer(apis).description(""))
      ->type_name("claim|send");
  command
      .add_option("--batch", options.work.batch,
                  options.kind == "stream"
                      ? "publish so many messages together (default: 240 KiB, less with hundreds "
                        "of connections; 1 in shared memory)"
                      : "publish so many messages together")
      ->check(CLI::Range(1U, 1U << 20))
      ->type_name("N");
  command
      .add_option("--rate", options.work.rate,
                  "messages per second of all senders together; measures latency from the intended "
                  "send time (default: as fast as they can)")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}))
      ->type_name("R");
  add_check_option(command, options.work.check);
}

void add_channel_options(CLI::App& command, throughput_options& options) {
  command.add_option("--senders", options.work.senders, "sending processes (threads for mem)")
      ->check(CLI::Range(1U, static_cast<std::uint32_t>(control_block::most_workers) - 1))
      ->type_name("K")
      ->capture_default_str();
  command
      .add_option("--idle-senders", options.work.idle_senders,
                  "so many more that are there and never send; needs two descriptors each")
      ->check(CLI::Range(0U, 3000U))
      ->type_name("N");
  command
      .add_option_function<double>(
          "--spin",
          [&options](double us) { options.work.spin_ns = static_cast<std::int64_t>(us * 1e3); },
          "the longest that a receiver spins before it sleeps, in microseconds")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("US");
}

void add_lane_options(CLI::App& command, throughput_options& options) {
  command.add_option("--address", options.address,
                     "where the receiver listens (default: a name with the process id)");
  command.add_option("--lanes", options.work.lanes, "lanes of the segment")
      ->check(CLI::Range(1U, 4096U))
      ->type_name("N");
  command.add_option("--lane-size", options.work.lane_size, "bytes of a lane, such as 1M")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4096}, std::uint64_t{1} << 30))
      ->type_name("BYTES");
  command.add_flag("--prefault", options.work.prefault, "touch all memory of the lanes at once");
  command.add_flag("--sleep", options.work.sleep,
                   "the receiver sleeps when nothing is there, instead of polling");
}

void add_stream_options(CLI::App& command, throughput_options& options) {
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;
  static const std::map<std::string, bool> buffers{{"static", false}, {"malloc", true}};
  static const std::map<std::string, bool> switches{{"on", true}, {"off", false}};
  options.work.batch = 0;
  command.add_option("--address", options.address,
                     "where the receiver listens: ipv4://, ipv6:// or unix:// (default: "
                     "ipv6://::1:0); port 0 is a free one; unix://...?shm=false stays with the "
                     "socket");
  command
      .add_option("--connections", options.work.connections,
                  "connections of all senders together; each sender serves its own in turns "
                  "(default: one a sender)")
      ->check(CLI::Range(1U, 4096U))
      ->type_name("N");
  command
      .add_option("--buffer", options.work.growing_buffer,
                  "a sender's buffer: static is a ring of blocks (default), malloc grows as needed")
      ->transform(CLI::CheckedTransformer(buffers).description(""))
      ->type_name("static|malloc");
  command
      .add_option("--send-buffer-bytes", options.work.send_buffer_bytes,
                  "the most a sender's buffer holds, such as 4M")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4096}, most_bytes))
      ->type_name("BYTES");
  command
      .add_option("--send-buffer-blocks", options.work.send_buffer_blocks,
                  fmt::format("blocks of {} bytes of a static one", build_settings::data_node_size))
      ->check(CLI::Range(std::uint64_t{1}, most_bytes / build_settings::data_node_size))
      ->type_name("N");
  command
      .add_option("--crc", options.checksum,
                  "whether messages carry a checksum (default: not over unix://)")
      ->transform(CLI::CheckedTransformer(switches).description(""))
      ->type_name("on|off");
  command
      .add_option("--socket-buffer", options.work.socket_buffer_bytes,
                  "buffers to ask the kernel for, such as 4M; 0: its own choice")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{0}, most_bytes))
      ->type_name("BYTES");
  command.add_flag_function(
      "--sleep,!--poll", [&options](std::int64_t sleep) { options.sleep = sleep > 0; },
      "when nothing is there the receiver spins a little and sleeps (default), or "
      "polls without end (default where shared memory is agreed on)");
}

void add_kind(CLI::App& bench, const char* kind, const char* what,
              void (*add_own_options)(CLI::App&, throughput_options&), const char* limit) {
  CLI::App* const command = bench.add_subcommand(kind, what);
  const auto options = std::make_shared<throughput_options>();
  options->kind = kind;
  add_message_options(*command, *options);
  add_channel_options(*command, *options);
  add_own_options(*command, *options);
  add_common_options(*command, options->common);
  command->add_flag("--limit", options->limit,
                    fmt::format("run the matching {} in turns with it and print the share", limit));
  command->callback([options] { run(*options); });
}

}  // namespace

void add_bench_throughput(CLI::App& bench) {
  add_kind(bench, "shm", "Throughput through shared memory, between processes", add_lane_options,
           "bare ring");
  add_kind(bench, "mem", "Throughput through memory, between threads", add_lane_options,
           "bare ring");
  add_kind(bench, "stream", "Throughput through sockets, between processes", add_stream_options,
           "frames over a bare socket");
}

}  // namespace atbus::bench
