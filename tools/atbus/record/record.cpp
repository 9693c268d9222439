// `atbus record FILE`
#include "atbus/record/record.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/format.h"
#include "atbus/record/entry_text.h"
#include "atbus/record/node_tap.h"
#include "atbus/record/progress.h"
#include "atbus/record/recording_writer.h"
#include "atbus/stop_signal.h"
#include "atbus/talk/talk.h"

namespace atbus::tool {

using detail::entry_kind;
using detail::recording_end;
using detail::recording_entry;

namespace {

struct record_options : tap_options {
  std::string file;
  std::vector<std::string> listen;
  std::string own_id;
  std::uint64_t bytes = 0;
  double seconds = 0;
  bool force = false;
};

constexpr std::chrono::nanoseconds flush_interval = std::chrono::milliseconds{100};

// The file, its limits, and what is said of it.
class recording_session {
 public:
  explicit recording_session(const record_options& options)
      : options_(options), begun_(now()), out_(options.file, options.force), next_flush_(begun_) {}

  void write(std::chrono::nanoseconds at, const recording_entry& entry, bytes_view payload) {
    if (entry.kind == entry_kind::end)
      ended_as_ = words_for_end(entry);
    out_.write(at, entry, payload);
  }
  void look_around() {
    if (const std::chrono::nanoseconds at = now(); at >= next_flush_) {
      out_.flush();
      next_flush_ = at + flush_interval;
    }
    progress_.show([this] { return text_of_state(); });
  }
  [[nodiscard]] bool goes_on() const noexcept {
    const double passed = std::chrono::duration<double>{now() - begun_}.count();
    return !signal_.seen() && (options_.bytes == 0 || out_.bytes() < options_.bytes) &&
           (options_.seconds == 0 || passed < options_.seconds);
  }
  void close() {
    out_.flush();
    fmt::print(stderr, "{}: {}; {}\n", out_.path(), text_of_state(), ended_as_);
  }

 private:
  [[nodiscard]] std::string text_of_state() const {
    return fmt::format("{}, {} lost for lack of room, {}B in {}",
                       counted(out_.messages(), "message"), grouped(out_.lost()),
                       scaled(static_cast<double>(out_.bytes())), duration(now() - begun_));
  }

  const record_options& options_;
  const stop_signal signal_;
  const std::chrono::nanoseconds begun_;
  recording_writer out_;
  std::chrono::nanoseconds next_flush_;
  std::string ended_as_;
  progress_line progress_;
};

void require_new(const record_options& options) {
  if (std::error_code none; !options.force && std::filesystem::exists(options.file, none))
    throw std::runtime_error(options.file + ": it is there already; --force replaces it");
}

void record_tap(const record_options& options) {
  require_new(options);
  std::optional<recording_session> session;
  const node_tap::entry_handler each = [&](std::chrono::nanoseconds at,
                                           const recording_entry& entry, bytes_view payload) {
    session->write(at, entry, payload);
  };
  node_tap source{options};
  session.emplace(options);  // only now: a refused command leaves no file
  fmt::print(stderr, "recording what node {} receives\n", source.id().to_string());
  while (session->goes_on() && !source.has_ended()) {
    source.poll(each);
    session->look_around();
  }
  source.end(each);
  session->close();
}

own_node_options own_node_of(const record_options& options) {
  own_node_options made;
  static_cast<client_options&>(made) = options;
  made.id = options.own_id;
  return made;
}

void record_own_node(const record_options& options) {
  require_new(options);
  const own_node_options own = own_node_of(options);
  node receiving{own.own_id(), to_node_options(own)};
  for (const std::string& address : options.listen)
    (void)listen_at(receiving, address);
  recording_session session{options};
  const auto wall = std::chrono::system_clock::now().time_since_epoch() - now();
  std::uint64_t messages = 0;
  session.write(wall + now(),
                {.kind = entry_kind::begin,
                 .type = 1,
                 .to = receiving.id(),
                 .number = receiving.incarnation()},
                {});
  receiving.on_message([&](const message& one) {
    session.write(wall + now(),
                  {.flags = one.redelivered() ? detail::flag_redelivered : std::uint8_t{0},
                   .type = one.type(),
                   .from = one.source(),
                   .to = receiving.id(),
                   .number = ++messages},
                  one.bytes());
  });
  fmt::print(stderr, "node {} listens at {} and records\n", receiving.id().to_string(),
             fmt::join(receiving.addresses(), " "));
  while (session.goes_on()) {
    if (receiving.poll() == 0)
      (void)receiving.wait(flush_interval);
    session.look_around();
  }
  (void)receiving.shutdown(std::chrono::seconds{1});
  session.write(wall + now(),
                {.kind = entry_kind::end,
                 .type = static_cast<std::uint32_t>(recording_end::asked),
                 .to = receiving.id(),
                 .number = messages},
                {});
  session.close();
}

}  // namespace

void add_record(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("record", "Writes what a node receives to a file, until Ctrl-C");
  const auto options = std::make_shared<record_options>();
  command->add_option("FILE", options->file, "the recording, which must not exist yet")->required();
  auto* const of =
      command->add_option("--of", options->id, "a node of this host, which is tapped: its bus id");
  options->add_to(*command);
  auto* const listen =
      command
          ->add_option("--listen", options->listen,
                       "no tap: this command is a node that listens there; may be given again")
          ->excludes(of);
  command->get_option("--at")->excludes(listen);
  command->add_option("--id", options->own_id, "with --listen: its bus id; default: a random one")
      ->needs(listen);
  command
      ->add_option("--bytes", options->bytes, "end when the file has so many, such as 500M or 2G")
      ->transform(CLI::AsSizeValue(false));
  command->add_option("--seconds", options->seconds, "end after that time")
      ->check(CLI::Range(0.001, 1e9));
  command->add_flag("--force", options->force, "replace the file");
  command->footer(
      "The file is a pcap file (doc/design/record.md); `atbus replay FILE --info` says what is in "
      "it, "
      "and other pcap tools open it. It survives the death of this command: at most a tenth of a "
      "second is missing. A node that is tapped has to allow it, see `atbus tap --help`; what was "
      "lost for lack of room stands in the file.\n"
      "Examples: `atbus record match.pcap --of 0x2a --seconds 60`; `atbus record all.pcap --listen "
      "shm://sink --id 0x99`\n"
      "Exit code: 0; 1 the node can't be watched, or the file not be written (why is on standard "
      "error).");
  command->callback([options] {
    if (!options->listen.empty())
      record_own_node(*options);
    else
      record_tap(*options);
  });
}

}  // namespace atbus::tool
