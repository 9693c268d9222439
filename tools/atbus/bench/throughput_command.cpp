#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "atbus/bench/channel_limit.h"
#include "atbus/bench/channel_open.h"
#include "atbus/bench/commands.h"
#include "atbus/bench/interrupt.h"
#include "atbus/bench/limit.h"
#include "atbus/bench/machine_state.h"
#include "atbus/bench/node_open.h"
#include "atbus/bench/options.h"
#include "atbus/bench/report.h"
#include "atbus/bench/socket_limit.h"

namespace atbus::bench {
namespace {

struct throughput_options {
  common_options common{.seconds = 3, .repeat = 1, .json = {}, .cpus = {}};
  std::string kind;  // shm, mem, stream or node
  std::string address;
  std::optional<std::uint64_t> size;
  std::optional<bool> checksum;
  std::optional<bool> sleep;  // of a stream's receiver
  bool limit = false;
  workload work;

  bool of_nodes() const { return kind == "node"; }
};

struct throughput_results {
  run_series ours;
  std::unique_ptr<yardstick> limit;  // null: not wanted

  throughput_results of_rounds(const std::vector<std::size_t>& rounds) const {
    return {.ours = select(ours, rounds),
            .limit = limit != nullptr ? limit->of_rounds(rounds) : nullptr};
  }
  bool has_limit() const { return limit != nullptr && !limit->best().runs.empty(); }
  // How fast we are compared with the limit.
  spread shares() const {
    return spread_of_pairs(ours, limit->best(), [](const auto& mine, const auto& theirs) {
      return mine.messages_per_second() / std::max(theirs.messages_per_second(), 1.0);
    });
  }
};

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
  const std::string address = options.address.empty() ? own_address(options.kind) : options.address;
  if (!address.starts_with(scheme)) {
    throw CLI::ValidationError("--address", "\"" + address + "\" does not begin with " + scheme);
  }
  work.lanes = work.lanes == 0 && wanted_lanes > usual_lanes ? wanted_lanes : work.lanes;
  set_channel_address("--address", address, work.address);
}

// What follows from the address of a socket.
void set_stream(const throughput_options& options, socket_kind kind, workload& work) {
  work.stream = true;
  work.moves_to_lanes = moves_to_lanes(work.address.data());
  work.sleep = options.sleep.value_or(!work.moves_to_lanes);
  // As the library does.
  work.checksum = !work.tls && options.checksum.value_or(kind != socket_kind::local);
}

// The same for sockets.
void plan_stream(const throughput_options& options, workload& work) {
  work.connections = std::max(work.connections, work.senders);
  const std::string address = options.address.empty() ? "ipv6://::1:0" : options.address;
  set_channel_address("--address", address, work.address);
  const auto kind = kind_of(address);
  if (!kind) {
    throw CLI::ValidationError(
        "--address", "\"" + address + "\" does not begin with ipv4://, ipv6:// or unix://");
  }
  set_stream(options, *kind, work);
  constexpr std::uint32_t most_lanes = 4096;
  if (const std::uint32_t dialling = work.connections + work.idle_senders; dialling > usual_lanes) {
    work.lanes = std::min(dialling, most_lanes);
  }
}

// The same for nodes, and for the channel that they are compared with.
void plan_node(const throughput_options& options, workload& work) {
  if (work.nodes != 0) {
    work.senders = work.nodes - 1;
  }
  work.connections = work.nodes != 0 ? work.nodes * work.nodes : work.senders;
  const std::string address = options.address.empty() ? own_address("shm") : options.address;
  set_channel_address("--address", address, work.address);
  work.sleep = options.sleep.value_or(false);
  if (const auto kind = kind_of(address)) {
    set_stream(options, *kind, work);
  }
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
  options.of_nodes()         ? plan_node(options, work)
  : options.kind == "stream" ? plan_stream(options, work)
                             : plan_lanes(options, work);
  return work;
}

// What the kernel is asked for, in bytes.
std::int64_t socket_buffer_of(const workload& work) {
  if (work.socket_buffer_bytes >= 0) {
    return work.socket_buffer_bytes;
  }
  return std::string_view{work.address.data()}.starts_with("unix:")
             ? socket_options::unix_send_buffer
             : socket_options::tcp_send_buffer;
}

std::unique_ptr<yardstick> yardstick_for(const throughput_options& options, const workload& work) {
  if (options.of_nodes()) {
    return std::make_unique<channel_limit>();
  }
  const auto kind = kind_of(work.address.data());
  if (!kind || work.moves_to_lanes) {
    return std::make_unique<ring_limit>();
  }
  socket_shape shape;
  shape.buffer_bytes = static_cast<std::uint64_t>(socket_buffer_of(work));
  if (work.spin_ns >= 0) {
    shape.spin_ns = work.spin_ns;
  }
  return std::make_unique<socket_limit>(*kind, shape);
}

throughput_results measure(const throughput_options& options, const workload& work,
                           machine_watch& machine) {
  const std::vector<int> cpus = options.common.chosen_cpus();
  throughput_results results;
  if (options.limit) {
    results.limit = yardstick_for(options, work);
  }
  for (std::uint32_t round = 0; round != options.common.repeat && !interrupted(); ++round) {
    machine.begin_round();
    const run_outcome outcome =
        options.of_nodes()
            ? run_throughput(work, work.nodes != 0 ? task::node_member : task::node_receiver,
                             work.nodes != 0 ? task::node_member : task::node_sender, cpus)
            : run_throughput(work, task::channel_receiver, task::channel_sender, cpus);
    results.ours.add(outcome);
    // A node leaves a segment with a name to its successor.
    if (!outcome.problems.empty() || options.of_nodes()) {
      remove_all_leftovers(work);
    }
    if (!outcome.problems.empty()) {
      break;
    }
    if (options.limit) {
      machine.look(cpus);
      results.limit->measure(work, cpus);
    }
    machine.look(cpus);
  }
  return results;
}

// What the yardstick is made of.
const char* bare_name(const throughput_options& options, const workload& work) {
  return options.of_nodes() ? "channel" : work.stream && !work.moves_to_lanes ? "socket" : "ring";
}

std::string share_text(const char* bare, const throughput_results& results) {
  if (!results.has_limit()) {
    return {};
  }
  const spread share = results.shares();
  std::string text = fmt::format("   {:.0f} % of the bare {}", 100 * share.median, bare);
  if (results.ours.runs.size() > 1) {
    text += fmt::format(" ({:.0f}-{:.0f} %)", 100 * share.min, 100 * share.max);
  }
  return text;
}

// User and system time of all processes.
spread cpu_ns_a_message(const run_series& ours) {
  std::vector<double> all;
  for (const run_figures& run : ours.runs) {
    const double percent = run.sender.cpu_percent + run.receiver.cpu_percent;
    all.push_back(percent / 100 * 1e9 / std::max(run.messages_per_second(), 1.0));
  }
  return spread_of(std::move(all));
}

// The line that sums it all up.
std::string summary(const throughput_options& options, const workload& work,
                    const throughput_results& results) {
  const run_series& ours = results.ours;
  const nlohmann::json figures = bench::json_of(ours);
  const auto count = [&figures](const char* what) { return figures[what].get<std::uint64_t>(); };
  const auto cpu = [&figures](const char* side) {
    return figures[side]["cpu_percent"].get<double>();
  };
  const auto megabytes = [&figures](const char* side) {
    return figures[side]["max_rss_kib"].get<double>() * 1024 / 1e6;
  };
  std::string line = fmt::format(" {}   {}   {}   {}{}", length_text(work), sender_text(work),
                                 message_rate_text(ours.messages_per_second().median),
                                 byte_rate_text(ours.bytes_per_second().median),
                                 share_text(bare_name(options, work), results));
  line += fmt::format("   cpu {:.0f}/{:.0f} %   rss {:.1f}/{:.1f} MB   lost {}  corrupt {}",
                      cpu("sender"), cpu("receiver"), megabytes("sender"), megabytes("receiver"),
                      count("lost"), count("corrupt"));
  if (options.of_nodes()) {
    line += fmt::format("   {:.0f} ns of cpu a message", cpu_ns_a_message(ours).median);
  }
  return count("reordered") == 0 ? line : line + fmt::format("  reordered {}", count("reordered"));
}

void print_table(const throughput_options& options, const workload& work,
                 const throughput_results& results) {
  const run_series& ours = results.ours;
  if (ours.runs.empty()) {
    return;
  }
  fmt::print("{}\n", summary(options, work, results));
  if (ours.runs.size() > 1) {
    fmt::print(" {} runs: {}\n", ours.runs.size(),
               range_text(ours.messages_per_second(), message_rate_text));
  }
  if (results.has_limit()) {
    const spread limit = results.limit->best().messages_per_second();
    fmt::print(" {}: {}  {} ({})\n", results.limit->name(), message_rate_text(limit.median),
               byte_rate_text(results.limit->best().bytes_per_second().median),
               range_text(limit, message_rate_text));
  }
  if (work.stream && !options.of_nodes()) {
    fmt::print(" socket buffers granted: {} KiB to send, {} KiB to receive\n",
               ours.runs.front().sender.socket_buffer / 1024,
               ours.runs.front().receiver.socket_buffer / 1024);
  }
  if (ours.runs.front().latency) {
    fmt::print(" latency from the intended send time: {}\n", latency_text(median_latency(ours)));
  }
}

// What a stream or a node was told, by default too.
void add_buffers(const workload& work, nlohmann::json& result) {
  result["buffer"] = work.growing_buffer ? "malloc" : "static";
  if (work.send_buffer_bytes != 0) {
    result["send_buffer_bytes"] = work.send_buffer_bytes;
  }
  if (work.send_buffer_blocks != 0) {
    result["send_buffer_blocks"] = work.send_buffer_blocks;
  }
  result["sleep"] = work.sleep;
}

// The same of streams alone, and what the kernel made of it.
void add_stream(const workload& work, const run_figures& first, nlohmann::json& result) {
  result["connections"] = work.connections;
  result["crc"] = work.checksum;
  result["tls"] = work.tls;
  result["socket_buffer"] = socket_buffer_of(work);
  result["granted"] = {{"send_bytes", first.sender.socket_buffer},
                       {"receive_bytes", first.receiver.socket_buffer}};
  result["shm"] = work.moves_to_lanes;
}

nlohmann::json json_of(const throughput_options& options, const workload& work,
                       const throughput_results& results) {
  nlohmann::json result = bench::json_of(results.ours);
  result["workload"] = options.kind;
  result["address"] = work.address.data();
  result["senders"] = work.senders;
  if (work.receivers != 1) {
    result["receivers"] = work.receivers;
  }
  if (work.idle_senders != 0) {
    result["idle_senders"] = work.idle_senders;
  }
  if (work.unit_size != 0) {
    result["unit_size"] = work.unit_size;
  } else {
    result["size"] = work.size;
  }
  result["check"] = name_of(work.check);
  result["api"] = name_of(work.api);
  if (options.of_nodes()) {
    result["hops"] = work.hops;
    if (work.nodes != 0) {
      result["nodes"] = work.nodes;
    }
    result["cpu_ns_a_message"] = cpu_ns_a_message(results.ours).median;
  }
  if (work.rate != 0) {
    result["rate"] = work.rate;
  }
  if (work.stream || options.of_nodes()) {
    add_buffers(work, result);
  }
  if (work.stream && !options.of_nodes() && !results.ours.runs.empty()) {
    add_stream(work, results.ours.runs.front(), result);
  }
  if (results.has_limit()) {
    const char* const key = options.of_nodes() ? "channel" : "limit";
    const run_series& limit = results.limit->best();
    const spread share = results.shares();
    const auto part = [&limit](double (*choose)(const spread&), double of) -> nlohmann::json {
      return {{"messages_per_second", choose(limit.messages_per_second())},
              {"bytes_per_second", choose(limit.bytes_per_second())},
              {"share", of}};
    };
    result[key] = part([](const spread& s) { return s.median; }, share.median);
    if (const auto* const sockets = dynamic_cast<const socket_limit*>(results.limit.get())) {
      result[key]["buffers"] = json_of(sockets->buffers());
    }
    if (results.ours.runs.size() > 1) {
      result["min"][key] = part([](const spread& s) { return s.min; }, share.min);
      result["max"][key] = part([](const spread& s) { return s.max; }, share.max);
    }
  }
  return result;
}

void run(const throughput_options& options) {
  const workload work = plan(options);
  json_output output{options.common.json};
  const interrupt_guard guard;
  machine_watch machine;
  const throughput_results results = measure(options, work, machine);
  if (!output.takes_stdout()) {
    print_states(machine, [&](const machine_state& state) {
      print_table(options, work, results.of_rounds(state.rounds));
    });
  }
  conclude(output, results.ours, results.limit ? results.limit->best() : run_series{}, [&] {
    return json_of_states(machine, [&](const machine_state& state) {
      return json_of(options, work, results.of_rounds(state.rounds));
    });
  });
}

void add_message_options(CLI::App& command, throughput_options& options) {
  CLI::Option* const unit_size =
      add_number(command, "--unit-size", options.work.unit_size,
                 "messages are 8 x uniform 1..N bytes long: 16 gives 8-128, 2048 gives 8-16384", 1U,
                 8U << 20)
          ->capture_default_str();
  add_number(command, "--size", options.size, "all messages are so many bytes long",
             std::uint64_t{0}, most_message_bytes, "BYTES")
      ->excludes(unit_size);
  add_api_option(
      command, options.work.api,
      "claim: messages are written in place; send: written elsewhere and copied (default)");
  add_number(command, "--batch", options.work.batch,
             options.of_nodes()
                 ? "poll after so many messages (default: 240 KiB); the channel publishes so "
                   "many together (1 in shared memory)"
             : options.kind == "stream"
                 ? "publish so many messages together (default: 240 KiB, less with hundreds "
                   "of connections; 1 in shared memory)"
                 : "publish so many messages together",
             1U, 1U << 20);
  add_check_option(command, options.work.check);
  add_number(command, "--senders", options.work.senders, "sending processes (threads for mem)", 1U,
             static_cast<std::uint32_t>(control_block::most_workers) - 1, "K")
      ->capture_default_str();
}

void add_rate_option(CLI::App& command, workload& work, const std::string& what) {
  add_number(command, "--rate", work.rate, "messages per second of all senders together" + what,
             std::uint64_t{1}, std::uint64_t{1'000'000'000}, "R");
}

void add_channel_options(CLI::App& command, throughput_options& options) {
  add_rate_option(command, options.work,
                  "; measures latency from the intended send time (default: as fast as they can)");
  add_number(command, "--idle-senders", options.work.idle_senders,
             "so many more that are there and never send; needs two descriptors each", 0U, 3000U);
  add_number(command, "--receivers", options.work.receivers,
             "receiving threads of one process, on any core; each sender has one of them", 1U,
             receiver::shards_max, "N")
      ->excludes("--rate");
  add_microseconds(command, "--spin", options.work.spin_ns,
                   "the longest that a receiver spins before it sleeps");
}

void add_lane_options(CLI::App& command, throughput_options& options) {
  command.add_option("--address", options.address,
                     "where the receiver listens (default: a name with the process id)");
  add_number(command, "--lanes", options.work.lanes, "lanes of the segment", 1U, 4096U);
  add_bytes(command, "--lane-size", options.work.lane_size, "bytes of a lane, such as 1M",
            std::uint64_t{4096}, most_buffer_bytes);
  add_prefault_flag(command, options.work);
  command.add_flag("--sleep", options.work.sleep,
                   "the receiver sleeps when nothing is there, instead of polling");
}

void add_buffer_options(CLI::App& command, workload& work, const char* kinds) {
  add_choice<bool, bool>(command, "--buffer", work.growing_buffer,
                         std::string{"a sender's buffer: "} + kinds,
                         {{"static", false}, {"malloc", true}}, "static|malloc");
  add_bytes(command, "--send-buffer-bytes", work.send_buffer_bytes,
            "the most a sender's buffer holds, such as 4M", std::uint64_t{4096}, most_buffer_bytes);
  add_number(command, "--send-buffer-blocks", work.send_buffer_blocks,
             fmt::format("blocks of {} bytes of a static one", build_settings::data_node_size),
             std::uint64_t{1}, most_buffer_bytes / build_settings::data_node_size);
}

void add_sleep_flag(CLI::App& command, throughput_options& options, const std::string& what) {
  command.add_flag_function(
      "--sleep,!--poll", [&options](std::int64_t sleep) { options.sleep = sleep > 0; },
      "when nothing is there the receiver " + what);
}

void add_tls_flag(CLI::App& command, workload& work) {
  command.add_flag("--tls", work.tls, "TCP is encrypted, with a secret that both ends have");
}

void add_stream_options(CLI::App& command, throughput_options& options) {
  options.work.batch = 0;
  command.add_option("--address", options.address,
                     "where the receiver listens: ipv4://, ipv6:// or unix:// (default: "
                     "ipv6://::1:0); port 0 is a free one; unix://...?shm=false stays with the "
                     "socket");
  add_number(command, "--connections", options.work.connections,
             "connections of all senders together; each sender serves its own in turns "
             "(default: one a sender)",
             1U, 4096U);
  add_buffer_options(command, options.work,
                     "static is a ring of blocks (default), malloc grows as needed");
  add_crc_option(command, options.checksum,
                 "whether messages carry a checksum (default: not over unix://, nor with TLS)");
  add_tls_flag(command, options.work);
  add_bytes(command, "--socket-buffer", options.work.socket_buffer_bytes,
            "buffers to ask the kernel for, such as 4M; 0: its own choice", std::uint64_t{0},
            most_buffer_bytes);
  add_sleep_flag(command, options,
                 "spins a little and sleeps (default), or polls without end (default where shared "
                 "memory is agreed on)");
}

void add_node_options(CLI::App& command, throughput_options& options) {
  options.work.batch = 0;
  options.work.growing_buffer = true;  // as the library's
  command.add_option(
      "--address", options.address,
      "where the receiving node listens: shm://, mem:// (threads of one process), "
      "unix://, ipv4:// or ipv6:// (default: shm:// and a name with the process id)");
  add_buffer_options(command, options.work,
                     "malloc grows as needed (default), static is a ring of blocks");
  add_tls_flag(command, options.work);
  add_sleep_flag(command, options, "sleeps (default of sockets), or polls without end");
  add_microseconds(command, "--write-delay", options.work.write_delay_ns,
                   "how long polls leave sockets alone after a write (node_options::write_delay)");
  add_rate_option(command, options.work,
                  ", sent once a millisecond, so that CPU times can be compared (default: as fast "
                  "as they can)");
  add_hops_option(command, options.work, "so many relays between the senders and the receiver");
}

CLI::App* add_kind(CLI::App& bench, const std::shared_ptr<throughput_options>& options,
                   const char* kind, const char* what,
                   void (*add_own_options)(CLI::App&, throughput_options&)) {
  CLI::App* const command = bench.add_subcommand(kind, what);
  options->kind = kind;
  add_message_options(*command, *options);
  add_own_options(*command, *options);
  add_common_options(*command, options->common);
  command->callback([options] { run(*options); });
  return command;
}

void add_channels(CLI::App& bench, const char* kind, const char* what,
                  void (*add_own_options)(CLI::App&, throughput_options&), const char* limit) {
  const auto options = std::make_shared<throughput_options>();
  CLI::App* const command = add_kind(bench, options, kind, what, add_own_options);
  add_channel_options(*command, *options);
  command->add_flag("--limit", options->limit,
                    fmt::format("run the matching {} in turns with it and print the share", limit));
}

void add_nodes(CLI::App& bench) {
  const auto options = std::make_shared<throughput_options>();
  CLI::App* const command =
      add_kind(bench, options, "node", "Throughput from node to node", add_node_options);
  CLI::Option* const channel = command->add_flag(
      "--channel", options->limit,
      "run the bare channel with the same options in turns with it and print the share");
  add_number(*command, "--nodes", options->work.nodes,
             "so many nodes, each a process, that all send to each other; over relays the one half "
             "to the other half and back",
             2U, 64U)
      ->excludes(channel)
      ->excludes("--senders");
}

}  // namespace

void add_bench_throughput(CLI::App& bench) {
  add_channels(bench, "shm", "Throughput through shared memory, between processes",
               add_lane_options, "bare ring");
  add_channels(bench, "mem", "Throughput through memory, between threads", add_lane_options,
               "bare ring");
  add_channels(bench, "stream", "Throughput through sockets, between processes", add_stream_options,
               "frames over a bare socket");
  add_nodes(bench);
}

}  // namespace atbus::bench
