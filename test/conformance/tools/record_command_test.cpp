// `atbus tap`, `record` and `replay` on real processes, and the files that they leave.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "atbus/clock.hpp"
#include "atbus/inspect.hpp"
#include "atbus/node.hpp"
#include "atbus/record/recording_reader.h"
#include "atbus/record/recording_writer.h"
#include "atbus/record/replay_pace.h"
#include "child_process.h"
#include "run_command.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus {
namespace {

using detail::entry_kind;
using detail::recording_end;
using detail::recording_entry;
using nlohmann::json;
using test::child_process;
using test::command_result;
using test::run_command;
using test::running_command;
using tool::recording_reader;
using tool::recording_writer;

// What is in a file, with the promise that each message is in it or counted as lost.
struct read_recording {
  std::uint64_t messages = 0;
  std::uint64_t lost = 0;
  std::uint64_t last_number = 0;
  std::uint64_t end_number = 0;
  std::vector<std::chrono::nanoseconds> times;
  std::vector<std::string> payloads;
  bool has_end = false;
  std::string problem;

  explicit read_recording(const std::string& path) {
    recording_reader in{path};
    std::uint64_t next = 1;
    bool is_known = true;
    while (const recording_reader::item* const one = in.next()) {
      if (one->entry.kind == entry_kind::lost) {
        lost += one->entry.count;
        next += one->entry.count;
      } else if (one->entry.kind == entry_kind::end) {
        end_number = one->entry.number;
      } else if (one->entry.kind == entry_kind::message) {
        ++messages;
        is_known = is_known && one->entry.number == next;
        last_number = one->entry.number;
        next = last_number + 1;
        if (one->entry.flags == 0) {
          times.push_back(one->at);
          payloads.emplace_back(as_text(one->payload));
        }
      }
    }
    EXPECT_TRUE(is_known) << path << ": a message is missing, and not counted as lost";
    EXPECT_EQ(messages + lost, next - 1);
    has_end = in.has_end();
    problem = in.problem();
  }
};

// Node 2, which may be tapped, gets messages of node 1 without end.
class TappedNode : public ::testing::Test {
 protected:
  void SetUp() override { run_node(options().allow_tap()); }
  ~TappedNode() override {
    node_.kill_and_wait();
    const auto all = list_segments();
    for (std::size_t i = 0; all && i != all->size(); ++i) {
      const segment_report& one = (*all)[i];
      if (one.name.starts_with("atbus-tap-") && one.state == segment_state::orphan)
        (void)clean_segment(one.name);
    }
  }

  void run_node(const node_options& of_tapped) {
    node_ = child_process{[this, of_tapped]() -> int {
      node one{1, node_options{}.report_directory("")};
      node other{2, of_tapped};
      test::require(static_cast<bool>(other.listen(address_)), "listen");
      test::require(static_cast<bool>(one.connect(2, address_)), "connect");
      other.on_message([this](const message&) { handled_->add(); });
      std::uint64_t sent = 0;
      while (true) {
        for (int i = 0; i != 50 && one.send(2, 7, std::to_string(sent)); ++i)
          ++sent;
        one.poll();
        other.poll();
        (void)other.wait(1ms);
      }
    }};
    ASSERT_TRUE(handled_->wait(100));
  }
  [[nodiscard]] node_options options() const {
    return node_options{}.report_directory(directory_.path());
  }
  [[nodiscard]] std::string file(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  [[nodiscard]] std::vector<std::string> tapping(std::vector<std::string> arguments) const {
    // Longer than a person would wait: the machine may be busy.
    arguments.insert(arguments.end(), {"--directory", directory_.path(), "--timeout", "20"});
    return arguments;
  }

  test::scratch_directory directory_;
  const std::string address_ = "unix://" + directory_.path() + "/socket";
  test::shared<test::shared_counter> handled_;
  child_process node_;
};

TEST_F(TappedNode, IsWatchedByItsId) {
  const command_result seen = run_command(tapping({"tap", "2", "--count", "5"}));
  EXPECT_EQ(seen.exit_code, 0) << seen.errors;
  std::istringstream lines{seen.output};
  std::optional<std::uint64_t> last;
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_TRUE(line.starts_with("1 7 ")) << seen.output;
    const std::uint64_t number = std::stoull(line.substr(4));
    EXPECT_TRUE(!last || number == *last + 1) << seen.output;
    last = number;
  }
  EXPECT_EQ(count, 5);
  EXPECT_NE(seen.errors.find("watching node 2"), std::string::npos) << seen.errors;
  EXPECT_NE(seen.errors.find("0 lost for lack of room"), std::string::npos) << seen.errors;
}

TEST_F(TappedNode, IsWatchedByPrograms) {
  const command_result seen = run_command(
      {"tap", "--at", address_, "--timeout", "20", "--count", "3", "--json", "--type", "7"});
  ASSERT_EQ(seen.exit_code, 0) << seen.errors;
  std::istringstream lines{seen.output};
  int messages = 0;
  for (std::string line; std::getline(lines, line);) {
    const json one = json::parse(line);
    if (one["kind"] != "message")
      continue;
    ++messages;
    EXPECT_EQ(one["from"], "1");
    EXPECT_EQ(one["to"], "2");
    EXPECT_EQ(one["type"], 7);
  }
  EXPECT_EQ(messages, 3);
}

TEST_F(TappedNode, IsRecordedUntilASignal) {
  running_command recording{tapping({"record", file("a.pcap"), "--of", "2"})};
  ASSERT_TRUE(recording.has_said("recording what node 2 receives", 20s));
  const std::uint32_t before = handled_->get();
  ASSERT_TRUE(handled_->wait(before + 1000));
  recording.send_signal(SIGINT);
  const command_result ended = recording.finish(20s);
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  const read_recording all{file("a.pcap")};
  EXPECT_TRUE(all.has_end);
  EXPECT_GE(all.payloads.size(), 1000U);
  EXPECT_EQ(all.end_number, all.messages + all.lost);
  for (std::size_t i = 1; i < all.payloads.size() && all.lost == 0; ++i)
    ASSERT_EQ(std::stoull(all.payloads[i]), std::stoull(all.payloads[i - 1]) + 1);
  const auto mode = std::filesystem::status(file("a.pcap")).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const json info = json::parse(run_command({"replay", file("a.pcap"), "--info", "--json"}).output);
  EXPECT_EQ(info["node"], "2");
  EXPECT_EQ(info["messages"], all.messages);
  EXPECT_EQ(info["has_end"], true);
  // The file is not replaced, and the node has no tap left.
  const command_result again = run_command(tapping({"record", file("a.pcap"), "--of", "2"}));
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_NE(again.errors.find("--force"), std::string::npos) << again.errors;
  EXPECT_EQ(read_recording{file("a.pcap")}.messages, all.messages);
}

// The node removes the segment of a tap whose reader has died.
bool is_removed(const std::string& name_begin) {
  const auto is_there = [&] {
    const auto all = list_segments();
    return !all || std::ranges::any_of(*all, [&](const segment_report& one) {
      return one.name.starts_with(name_begin);
    });
  };
  for (const auto end = now() + 20s; is_there(); std::this_thread::sleep_for(10ms)) {
    if (now() > end)
      return false;
  }
  return true;
}

// More often than there are places: the node gives those of the dead free.
TEST_F(TappedNode, LosesNothingOfARecorderThatIsKilled) {
  std::mt19937 dice{std::random_device{}()};
  for (int round = 0; round != 8; ++round) {
    const std::string path = file(std::to_string(round) + ".pcap");
    running_command recording{tapping({"record", path, "--of", "2"})};
    ASSERT_TRUE(recording.has_said("recording", 20s));
    // Any moment will do: what is tested is that none is bad.
    std::this_thread::sleep_for(std::chrono::milliseconds{dice() % 700});
    const std::string segment = "atbus-tap-" + std::to_string(recording.pid()) + "-";
    recording.send_signal(SIGKILL);
    (void)recording.finish(20s);
    const read_recording all{path};
    EXPECT_FALSE(all.has_end);
    const command_result info = run_command({"replay", path, "--info"});
    EXPECT_EQ(info.exit_code, 0) << info.errors;
    EXPECT_TRUE(info.output.find("its recorder was killed") != std::string::npos ||
                info.output.find("it was cut off") != std::string::npos)
        << info.output;
    EXPECT_TRUE(is_removed(segment)) << "the node still holds a place for the dead";
  }
}

TEST_F(TappedNode, GoesOnWhileItsRecorderIsStopped) {
  running_command recording{tapping({"record", file("a.pcap"), "--of", "2", "--buffer", "4K"})};
  ASSERT_TRUE(recording.has_said("recording", 20s));
  recording.send_signal(SIGSTOP);
  const std::uint32_t before = handled_->get();
  ASSERT_TRUE(handled_->wait(before + 20'000));  // much more than there is room for
  recording.send_signal(SIGCONT);
  ASSERT_TRUE(handled_->wait(handled_->get() + 2000));
  recording.send_signal(SIGTERM);
  const command_result ended = recording.finish(20s);
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  const read_recording all{file("a.pcap")};
  EXPECT_TRUE(all.has_end);
  EXPECT_GT(all.lost, 0U);
  EXPECT_EQ(all.end_number, all.messages + all.lost);
  EXPECT_EQ(ended.errors.find(" 0 lost"), std::string::npos) << ended.errors;
}

TEST_F(TappedNode, ThatIsKilledEndsItsRecording) {
  running_command recording{tapping({"record", file("a.pcap"), "--of", "2"})};
  ASSERT_TRUE(recording.has_said("recording", 20s));
  ASSERT_TRUE(handled_->wait(handled_->get() + 500));
  node_.kill_and_wait();
  const command_result ended = recording.finish(20s);
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("is gone"), std::string::npos) << ended.errors;
  EXPECT_TRUE(read_recording{file("a.pcap")}.has_end);
  const command_result after = run_command(tapping({"tap", "2"}));
  EXPECT_EQ(after.exit_code, 1);
  EXPECT_NE(after.errors.find("node 2 is dead"), std::string::npos) << after.errors;
}

TEST_F(TappedNode, IsAnotherOneThanWasNamed) {
  const command_result result = run_command({"tap", "3", "--at", address_, "--timeout", "20"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("is 2, not 3"), std::string::npos) << result.errors;
}

TEST_F(TappedNode, LimitsOfARecordingEndIt) {
  const command_result timed =
      run_command(tapping({"record", file("a.pcap"), "--of", "2", "--seconds", "0.2"}));
  EXPECT_EQ(timed.exit_code, 0) << timed.errors;
  const command_result sized =
      run_command(tapping({"record", file("b.pcap"), "--of", "2", "--bytes", "10K"}));
  EXPECT_EQ(sized.exit_code, 0) << sized.errors;
  EXPECT_GE(std::filesystem::file_size(file("b.pcap")), 10U * 1024);
}

// Whoever asks for what is not there, not allowed or stuck is told so within a second.
class NoTap : public TappedNode {
 protected:
  void SetUp() override {}
  void expect_refused(const std::vector<std::string>& arguments, const std::string& why) const {
    const auto begun = now();
    const command_result result = run_command(arguments);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.errors.find(why), std::string::npos) << result.errors;
    EXPECT_LT(now() - begun, 5s);  // a second, on a machine with nothing else to do
    EXPECT_FALSE(std::filesystem::exists(file("a.pcap")));
  }
};

TEST_F(NoTap, OfANodeThatDoesNotAllowIt) {
  run_node(options());
  expect_refused(tapping({"tap", "2"}), "allows no taps");
  expect_refused(tapping({"record", file("a.pcap"), "--of", "2"}), "allows no taps");
}

TEST_F(NoTap, AgainstTheRules) {
  std::ofstream{file("access.toml")} << "register = \"any\"\n[[send]]\nfrom = \"any\"\nto = [2]\n"
                                        "messages = \"any\"\ncommands = [\"atbus.ping\"]\n";
  run_node(options().allow_tap().access(file("access.toml")));
  expect_refused(tapping({"tap", "2"}), "denied");
}

TEST_F(NoTap, OfANodeThatIsNotThere) {
  expect_refused(tapping({"tap", "2"}), "no node 2 reports");
  expect_refused({"tap", "--at", address_}, "nothing listens there");
  expect_refused({"record", file("a.pcap"), "--at", address_}, "nothing listens there");
  EXPECT_EQ(run_command({"tap"}).exit_code, 2);
  EXPECT_EQ(run_command({"tap", "x"}).exit_code, 2);
}

TEST_F(NoTap, OfANodeThatIsStopped) {
  run_node(options().allow_tap());
  node_.stop();
  expect_refused({"tap", "2", "--at", address_}, "timed_out");
}

// A recording that is written here and sent to a second recorder, a node.
class Replay : public ::testing::Test {
 protected:
  [[nodiscard]] std::string file(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  // `count` messages in that time, and one of each other kind.
  void write(std::uint64_t count, std::chrono::nanoseconds time) const {
    recording_writer out{file("from.pcap")};
    const std::chrono::nanoseconds begun = 1'790'000'000s;
    out.write(begun, {.kind = entry_kind::begin, .to = bus_id{2}, .number = 1}, {});
    for (std::uint64_t i = 0; i != count; ++i) {
      const auto at = begun + time * static_cast<std::int64_t>(i) /
                                  static_cast<std::int64_t>(std::max<std::uint64_t>(count - 1, 1));
      out.write(at,
                {.type = 7 + static_cast<std::uint32_t>(i % 2), .from = bus_id{1}, .number = i + 1},
                as_bytes(std::to_string(i)));
    }
    out.write(begun + time, {.kind = entry_kind::lost, .count = 5}, {});
    out.write(begun + time, {.flags = detail::flag_command, .from = bus_id{1}, .number = count + 6},
              as_bytes("command"));
    out.write(begun + time, {.kind = entry_kind::end, .number = count + 6}, {});
    out.flush();
  }
  command_result replay(std::vector<std::string> arguments, std::uint64_t wanted) {
    std::filesystem::remove(file("to.pcap"));
    running_command receiving{{"record", file("to.pcap"), "--listen", address_, "--id", "0x99"}};
    EXPECT_TRUE(receiving.has_said("and records", 20s));
    arguments.insert(arguments.begin(),
                     {"replay", file("from.pcap"), "--at", address_, "--timeout", "20"});
    running_command sending{arguments};
    const command_result sent = sending.finish(60s);
    EXPECT_EQ(sent.exit_code, 0) << sent.errors;
    receiving.send_signal(SIGTERM);
    const command_result received = receiving.finish(20s);
    EXPECT_EQ(received.exit_code, 0) << received.errors;
    got_.emplace(file("to.pcap"));
    EXPECT_EQ(got_->payloads.size(), wanted) << sent.output;
    return sent;
  }
  // From the first message to the last one, as it was received.
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>{got_->times.back() - got_->times.front()}.count();
  }

  test::scratch_directory directory_;
  const std::string address_ = "unix://" + directory_.path() + "/socket";
  std::optional<read_recording> got_;
};

TEST_F(Replay, HasTheTimesOfTheRecording) {
  write(2000, 2s);
  const command_result sent = replay({"--to", "0x99"}, 2000);
  EXPECT_GT(seconds(), 2 * 0.99);
  EXPECT_LT(seconds(), 2 * 1.01 + 1);  // the second is for a machine that is busy at the end
  for (std::size_t i = 0; i != got_->payloads.size(); ++i)
    ASSERT_EQ(got_->payloads[i], std::to_string(i));
  EXPECT_NE(sent.output.find("late by at most"), std::string::npos) << sent.output;
  EXPECT_NE(sent.output.find("1 left out"), std::string::npos) << sent.output;
  EXPECT_NE(sent.output.find("5 messages missing in the recording, in 1 place"), std::string::npos)
      << sent.output;
}

TEST_F(Replay, GoesAtAnotherRate) {
  write(1000, 2s);
  replay({"--rate", "x4"}, 1000);
  EXPECT_GT(seconds(), 0.5 * 0.98);
  EXPECT_LT(seconds(), 1.5);
  replay({"--rate", "2000/s"}, 1000);
  EXPECT_GT(seconds(), 0.5 * 0.98);
  EXPECT_LT(seconds(), 1.5);
  replay({"--rate", "0"}, 1000);
  EXPECT_LT(seconds(), 1.0);
}

TEST_F(Replay, SendsWhatWasChosen) {
  write(1000, 10ms);
  replay({"--type", "8"}, 500);
  EXPECT_EQ(got_->payloads[0], "1");
  replay({"--count", "10"}, 10);
  replay({"--from", "3"}, 0);
}

TEST_F(Replay, SaysThatNobodyIsThere) {
  write(10, 1s);
  const command_result nobody = run_command({"replay", file("from.pcap"), "--at", address_});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_NE(nobody.errors.find("nothing listens there"), std::string::npos) << nobody.errors;
  EXPECT_EQ(run_command({"replay", file("from.pcap")}).exit_code, 2);
  EXPECT_EQ(
      run_command({"replay", file("from.pcap"), "--at", address_, "--rate", "fast"}).exit_code, 2);
}

TEST_F(Replay, PrintsWithoutSending) {
  write(3, 1s);
  const command_result text = run_command({"replay", file("from.pcap"), "--print"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_TRUE(text.output.starts_with("1 7 0\n1 8 1\n1 7 2\n")) << text.output;
  EXPECT_NE(text.errors.find("5 messages are missing here"), std::string::npos) << text.errors;
  const command_result info = run_command({"replay", file("from.pcap"), "--info"});
  EXPECT_NE(info.output.find("4 messages, 10 bytes of payload"), std::string::npos) << info.output;
  EXPECT_EQ(info.output.find('\x1b'), std::string::npos);
}

TEST_F(Replay, RefusesWhatIsNoRecording) {
  std::ofstream{file("text")} << "this is a text and no recording at all, as anybody can see";
  for (const std::string& one : {file("text"), file("none"), directory_.path()}) {
    const command_result result = run_command({"replay", one, "--info"});
    EXPECT_EQ(result.exit_code, 1) << one;
    EXPECT_NE(result.errors.find(one), std::string::npos) << result.errors;
  }
}

// A recording in one process.
class Recording : public ::testing::Test {
 protected:
  // Its bytes.
  std::string write_some() const {
    recording_writer out{path_};
    out.write(1s, {.kind = entry_kind::begin, .to = bus_id{2}, .number = 1}, {});
    for (std::uint64_t i = 1; i != 6; ++i)
      out.write(1s + i * 1ms, {.type = 7, .from = bus_id{1}, .number = i}, as_bytes("message"));
    out.flush();
    return bytes();
  }
  [[nodiscard]] std::string bytes() const {
    std::ifstream in{path_, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  test::scratch_directory directory_;
  const std::string path_ = directory_.path() + "/a.pcap";
};

TEST_F(Recording, IsReadUpToWhereverItWasCutOff) {
  const std::string whole = write_some();
  constexpr std::size_t file_head = 24;
  constexpr std::size_t packet = 16 + detail::recording_entry_size;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    std::ofstream{path_, std::ios::binary} << whole.substr(0, size);
    if (size < file_head) {
      EXPECT_THROW(recording_reader{path_}, std::runtime_error) << size;
      continue;
    }
    const read_recording part{path_};
    const std::size_t behind_begin = size < file_head + packet ? 0 : size - file_head - packet;
    EXPECT_EQ(part.messages, behind_begin / (packet + 7)) << size;
    const bool is_whole =
        size == file_head || (size >= file_head + packet && behind_begin % (packet + 7) == 0);
    EXPECT_EQ(part.problem.empty(), is_whole) << size << ": " << part.problem;
  }
}

TEST_F(Recording, HasMessagesThatAreLongerThanAPacket) {
  const std::string longest(1'000'000, 'x');
  {
    recording_writer out{path_};
    out.write(1s, {.type = 7, .from = bus_id{1}, .number = 1}, as_bytes(longest + "1"));
    out.write(1s, {.type = 7, .from = bus_id{1}, .number = 2}, as_bytes(std::string(262'096, 'y')));
    out.write(1s, {.type = 7, .from = bus_id{1}, .number = 3}, {});
    out.flush();
  }
  const read_recording all{path_};
  ASSERT_EQ(all.payloads.size(), 3U);
  EXPECT_EQ(all.payloads[0], longest + "1");
  EXPECT_EQ(all.payloads[1].size(), 262'096U);
  EXPECT_EQ(all.payloads[2], "");
  // Without its last part the first message is none.
  std::filesystem::resize_file(path_, 24 + 3 * 262'160 + 5);
  recording_reader in{path_};
  EXPECT_EQ(in.next(), nullptr);
  EXPECT_EQ(in.incomplete(), 1U);
  EXPECT_FALSE(in.problem().empty());
}

TEST_F(Recording, SaysWhatADiskWithoutRoomHasCost) {
  test::shared<test::shared_counter> written;
  child_process writing{[&]() -> int {
    (void)signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{400'000, 400'000};
    test::require(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
    recording_writer out{path_};
    try {
      for (std::uint64_t i = 1; i != 100'000; ++i) {
        out.write(1s, {.type = 7, .from = bus_id{1}, .number = i}, as_bytes("message"));
        written->add();
      }
    } catch (const std::runtime_error& problem) {
      const std::string why = problem.what();
      test::require(why.find("messages are not in it") != std::string::npos, why);
      return 0;
    }
    return 1;
  }};
  EXPECT_EQ(writing.wait_end(), "exit 0");
  const read_recording all{path_};
  EXPECT_TRUE(all.has_end);
  EXPECT_GT(all.messages, 3000U);
  EXPECT_EQ(all.messages + all.lost, written->get() + 1);  // the last one was refused
  EXPECT_TRUE(all.problem.empty()) << all.problem;
}

TEST_F(Recording, ReplacesAFileOnlyWhenItIsTold) {
  (void)write_some();
  EXPECT_THROW(recording_writer{path_}, std::runtime_error);
  EXPECT_EQ(read_recording{path_}.messages, 5U);
  { recording_writer out{path_, true}; }
  EXPECT_EQ(read_recording{path_}.messages, 0U);
}

std::optional<std::chrono::nanoseconds> due_at(const std::string& rate) {
  auto pace = tool::replay_pace::parse(rate);
  if (!pace)
    return std::nullopt;
  (void)pace->due(0, 100s);
  (void)pace->due(9, 103s);
  return pace->due(10, 102s);
}

TEST(ReplayPace, IsWhatWasAskedFor) {
  EXPECT_EQ(due_at("original"), 3s);  // never back
  EXPECT_EQ(due_at("x2"), 1500ms);
  EXPECT_EQ(due_at("x0.5"), 6s);
  EXPECT_EQ(due_at("100/s"), 100ms);
  EXPECT_EQ(due_at("100"), 100ms);
  EXPECT_EQ(due_at("0"), 0s);
  for (const char* const bad : {"", "x", "x0", "fast", "-1", "1e9", "1/m", "x1x", "nan", "1 "})
    EXPECT_FALSE(tool::replay_pace::parse(bad)) << bad;
}

}  // namespace
}  // namespace atbus
