/// @class atbus::node_options
/// The options of a node, set when it is made. Each setter returns the options, so calls can be
/// chained:
///
/// ```cpp
/// atbus::node node{7, atbus::node_options{}.token(secret).ping_interval(4s)};
/// ```
///
/// Plain values; a node copies them. A time of nanoseconds::max() means no limit. check() says
/// which option is invalid; each function of a node with such options that can fail returns that
/// error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/build_settings.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/policies.hpp"
#include "atbus/status.hpp"
#include "atbus/strangers.hpp"
#include "atbus/tls.hpp"

struct uv_loop_s;  // uv_loop_t

namespace atbus {

class address;
class carrier;
class directory;

class node_options {
 public:
  /// The largest message_limit in bytes. Channels carry 64 MiB, including what a node and a relay
  /// put in front of a message.
  static constexpr std::size_t message_limit_max = (std::size_t{64} << 20) - 1024;
  /// The largest send_buffer_size in bytes: 1 TiB.
  static constexpr std::size_t send_buffer_size_max = std::size_t{1} << 40;
  /// The longest write_delay.
  static constexpr std::chrono::milliseconds write_delay_max{10};
  /// The largest number of requests that may wait: 1,048,576, to one node or to all together.
  static constexpr std::size_t requests_limit = std::size_t{1} << 20;
  /// The smallest blob_window: 64 KiB.
  static constexpr std::size_t blob_window_min = std::size_t{64} << 10;
  /// The largest blob_window: 1 GiB.
  static constexpr std::size_t blob_window_max = std::size_t{1} << 30;

  /// Runs the node on this loop; the program then calls neither run() nor poll(). The loop must
  /// outlive the node. Default: none.
  node_options& loop(uv_loop_s* loop) {
    loop_ = loop;
    return *this;
  }
  /// A secret of 16 to 1024 random bytes that nodes prove to each other when they connect. Its TCP
  /// links are encrypted (TLS 1.3). Call it more than once to rotate: the node proves the first
  /// token and accepts all of them.
  node_options& token(std::string_view secret) {
    tokens_.emplace_back(secret);
    return *this;
  }
  /// A secret of 16 to 1024 random bytes that relays do not have. What nodes say to each other over other
  /// nodes is encrypted with it from end to end (AES-256-GCM); both ends need it. Broadcasts are not.
  /// Default: none, relays can read what they pass on.
  node_options& circuit_secret(std::string_view secret) {
    circuit_secret_ = secret;
    return *this;
  }
  /// Encrypts TCP links with certificates: both ends prove theirs, and who dials takes only one with the
  /// host of the address. All three files are needed. They are read again when they have changed. With a
  /// token too, nodes have to prove both. Default: none.
  node_options& certificates(tls_files files) {
    certificates_ = std::move(files);
    certificates_.require_peer_certificate = true;
    return *this;
  }
  /// Allows TCP links without a token, dialled and accepted. Off (the default): without a token,
  /// only processes of the same user on the same host can connect.
  node_options& allow_unauthenticated(bool allow = true) {
    allow_unauthenticated_ = allow;
    return *this;
  }
  /// Allows TCP links that are not encrypted though the node has a token: where it listens at, or
  /// dials, an address with tls=false. Off (the default): such an address is refused.
  node_options& allow_unencrypted(bool allow = true) {
    allow_unencrypted_ = allow;
    return *this;
  }
  /// Where this node's parent listens. The node dials it from the start and never gives up. Call it
  /// again to name further addresses of the parent, or of a node that replaces it. doc/nodes.md, "A
  /// tree of nodes".
  node_options& parent(std::string_view address) {
    parents_.emplace_back(address);
    return *this;
  }
  /// The ids of the nodes below this one, such as "0x12340000/48": a prefix of 1 to 63 bits.
  /// Without it a node has no children.
  node_options& children(std::string_view range) {
    children_ = range;
    return *this;
  }
  /// The longest message in payload bytes, both ways: 1 to message_limit_max; default 64 KiB
  /// (ATBUS_MACRO_MSG_LIMIT). A lower limit in an address where this node listens
  /// (shm://name?message_limit=32K) applies to everything that other nodes send it.
  node_options& message_limit(std::size_t bytes) {
    message_limit_ = bytes;
    return *this;
  }
  /// How long the registration of a new link may take; and how long messages wait for a node that
  /// was connected before and that no connect() names. Above 0; default 30 s.
  node_options& first_idle_timeout(std::chrono::nanoseconds time) {
    first_idle_timeout_ = time;
    return *this;
  }
  /// Links that each listening socket has at a time; others wait in the kernel. 1 or more; default
  /// 4096.
  node_options& connections(std::uint32_t most) {
    connections_ = most;
    return *this;
  }
  /// How many of these may be not registered. When one more comes, the longest silent one of the
  /// address (for a Unix socket: the user) that has most of them is closed. 1 or more; default 1024.
  node_options& unconfirmed(std::uint32_t most) {
    unconfirmed_ = most;
    return *this;
  }
  /// What else links through sockets may cost that are not registered. Default: see stranger_limits.
  node_options& strangers(const stranger_limits& limits) {
    strangers_ = limits;
    return *this;
  }
  /// How often the node pings the other end of a TCP link, and that of a route over other nodes
  /// when nothing was heard from it. Above 0; default 8 s.
  node_options& ping_interval(std::chrono::nanoseconds time) {
    ping_interval_ = time;
    return *this;
  }
  /// How many pings in a row may stay unanswered before the link or route counts as lost. 1 or
  /// more; default 3.
  node_options& fault_tolerance(unsigned pings) {
    fault_tolerance_ = pings;
    return *this;
  }
  /// Backoff before a peer is dialled again: `first`, then doubled each time up to `longest`. Each
  /// wait is random, between half of that and all of it. `first` is above 0, `longest` not below
  /// it; default 100 ms and 4 s.
  node_options& retry(std::chrono::nanoseconds first, std::chrono::nanoseconds longest) {
    retry_first_ = first;
    retry_longest_ = longest;
    return *this;
  }
  /// Bytes that may wait for a peer: in the queue of its link, and as many again in the node while
  /// there is no link, or where messages have a deadline or may be dropped. Capped at
  /// send_buffer_size_max; default 4 MiB. The longest message always fits.
  node_options& send_buffer_size(std::size_t bytes) {
    send_buffer_size_ = bytes < send_buffer_size_max ? bytes : send_buffer_size_max;
    return *this;
  }
  /// Number of blocks (of build_settings::data_node_size bytes, 128) in the fixed queue of a socket
  /// link, allocated once; at most send_buffer_size_max bytes. 0 (the default): allocated as
  /// needed.
  node_options& send_buffer_number(std::size_t blocks) {
    send_buffer_number_ = blocks;
    return *this;
  }
  /// For programs that send a little and poll, again and again: how long poll leaves sockets alone after it has
  /// written to them. What is sent meanwhile leaves in one write, with the first poll after that time, so it waits for
  /// that poll; flush, wait and run write at once before they sleep. Each write costs a few microseconds and the
  /// receiver as many, however short it is. 5 us suit programs that poll without a pause. Shared memory does not wait.
  /// A poll that does so reads nothing either. 0 (the default, each poll writes) to 10 ms (write_delay_max).
  node_options& write_delay(std::chrono::nanoseconds time) {
    write_delay_ = time;
    return *this;
  }
  /// What to do with a message for which there is no room. Default: would_block.
  node_options& overflow(overflow_policy policy) {
    overflow_ = policy;
    return *this;
  }
  /// What to do with messages that an earlier incarnation may have handled. Default: redeliver.
  node_options& restart(restart_policy policy) {
    restart_ = policy;
    return *this;
  }
  /// How long a message may wait before a channel takes it. 0 (the default): no limit.
  node_options& message_deadline(std::chrono::nanoseconds time) {
    message_deadline_ = time;
    return *this;
  }
  /// How many disconnected nodes are remembered, so that they can resume where they were. Default
  /// 4096.
  node_options& sessions(std::size_t most) {
    sessions_ = most;
    return *this;
  }
  /// How many clients (see node) may be connected at a time. Default 64.
  node_options& clients(std::size_t most) {
    clients_ = most;
    return *this;
  }
  /// How many requests to one node may wait for a response; one more is would_block. 1 to
  /// requests_limit; default 16,384.
  node_options& requests(std::size_t most) {
    requests_ = most;
    return *this;
  }
  /// How many bytes of blobs (blob.hpp) may be under way to one node, and how many each blob that
  /// comes may send ahead of its receiver. A message waits behind so many bytes at most. Over a long way
  /// a blob can't be faster than a window each round trip. blob_window_min to blob_window_max; default
  /// 512 KiB.
  node_options& blob_window(std::size_t bytes) {
    blob_window_ = bytes;
    return *this;
  }
  /// How long run() goes on after stop() so that accepted messages get their outcome; then it
  /// returns timed_out. 0: not at all. Default 5 s.
  node_options& drain(std::chrono::nanoseconds longest) {
    drain_ = longest;
    return *this;
  }
  /// Where to look up the addresses of nodes that no connect() names: in a file (doc/nodes.md), or
  /// in a directory of the program's own, which nodes of one thread may share. The last call
  /// counts. Default: none.
  node_options& directory(std::string file) {
    directory_file_ = std::move(file);
    directory_ = nullptr;
    return *this;
  }
  /// Looks the addresses up in a directory of the program's own; see directory(std::string).
  node_options& directory(std::shared_ptr<atbus::directory> of_yours) {
    directory_file_.clear();
    directory_ = std::move(of_yours);
    return *this;
  }
  /// Something that the node's record in its directory says of it besides, for programs, such as
  /// "zone" and "east" (directory_record::labels). Each call adds one, or replaces that of the name.
  /// A directory may refuse a record with very many or long ones, and the node logs that. Default: none.
  node_options& label(std::string name, std::string text) {
    labels_.insert_or_assign(std::move(name), std::move(text));
    return *this;
  }

  /// Makes links to nats:// addresses, such as the one of atbus/nats.hpp; nodes may share it. Without
  /// it these addresses are refused. Default: none.
  node_options& carrier(std::shared_ptr<atbus::carrier> shared) {
    carrier_ = std::move(shared);
    return *this;
  }

  /// A file of access rules (doc/security.md, "Access rules"): which nodes may register from where, and
  /// who may send what to whom. It is read when the node is made, and again when it has changed. Default:
  /// none, everything is allowed.
  node_options& access(std::string file) {
    access_file_ = std::move(file);
    return *this;
  }

  /// The directory for the file in which this node reports on itself to operators (doc/operations.md,
  /// "Reports"), for the commands atbus ls, atbus show and atbus top. Empty: no reports. Default:
  /// /dev/shm.
  node_options& report_directory(std::string directory) {
    report_directory_ = std::move(directory);
    return *this;
  }

  /// Whether this node itself answers the commands whose names begin with "atbus.": those of operators
  /// (doc/operations.md, "Asking a node"). On (the default); access rules hold for them too. Off: they
  /// are commands like all others.
  node_options& built_in_commands(bool answer) {
    built_in_commands_ = answer;
    return *this;
  }

  /// Whether other processes of this user on this host may watch what the node receives, by the command
  /// atbus.tap: its messages, requests, commands and their answers, with their bytes. Needs
  /// built_in_commands; access rules hold for it. doc/operations.md, "Watching, recording and replaying".
  /// Default: no.
  node_options& allow_tap(bool allow = true) {
    allow_tap_ = allow;
    return *this;
  }

  /// Overwrites the bytes of each token and of the circuits' secret; the number of tokens stays the same. For programs that
  /// keep the options after they have made the node.
  ATBUS_API void wipe_tokens() noexcept;

  /// Checks the options. Returns no error, or invalid_argument; its text names the option at fault.
  [[nodiscard]] ATBUS_API error check() const;
  /// Whether a link to this address is allowed: TCP only with a token, certificates or
  /// allow_unauthenticated, and with one of the first two only encrypted, or with allow_unencrypted. No error, or denied; its text says what
  /// to set.
  [[nodiscard]] ATBUS_API error lets_through(const address& at) const;

  /// The loop; null if there is none.
  [[nodiscard]] uv_loop_s* loop() const noexcept { return loop_; }
  /// All tokens, the one that is proven first.
  [[nodiscard]] const std::vector<std::string>& tokens() const noexcept { return tokens_; }
  /// The secret of circuits; empty without one.
  [[nodiscard]] const std::string& circuit_secret() const noexcept { return circuit_secret_; }
  /// The files of the certificates; empty names without them.
  [[nodiscard]] const tls_files& certificates() const noexcept { return certificates_; }
  /// Whether TCP links may be not encrypted.
  [[nodiscard]] bool allow_unencrypted() const noexcept { return allow_unencrypted_; }
  /// Whether TCP links work without a token.
  [[nodiscard]] bool allow_unauthenticated() const noexcept { return allow_unauthenticated_; }
  /// All addresses of the parent; empty without one.
  [[nodiscard]] const std::vector<std::string>& parents() const noexcept { return parents_; }
  /// The ids of the nodes below this one; empty without children.
  [[nodiscard]] const std::string& children() const noexcept { return children_; }
  /// The longest message in payload bytes.
  [[nodiscard]] std::size_t message_limit() const noexcept { return message_limit_; }
  /// How long a registration may take.
  [[nodiscard]] std::chrono::nanoseconds first_idle_timeout() const noexcept {
    return first_idle_timeout_;
  }
  /// Links of each listening socket.
  [[nodiscard]] std::uint32_t connections() const noexcept { return connections_; }
  /// How many of these may be not registered.
  [[nodiscard]] std::uint32_t unconfirmed() const noexcept { return unconfirmed_; }
  /// What else links may cost that are not registered.
  [[nodiscard]] const stranger_limits& strangers() const noexcept { return strangers_; }
  /// How often a link is pinged.
  [[nodiscard]] std::chrono::nanoseconds ping_interval() const noexcept { return ping_interval_; }
  /// How many pings may stay unanswered.
  [[nodiscard]] unsigned fault_tolerance() const noexcept { return fault_tolerance_; }
  /// The first backoff.
  [[nodiscard]] std::chrono::nanoseconds retry_first() const noexcept { return retry_first_; }
  /// The longest backoff.
  [[nodiscard]] std::chrono::nanoseconds retry_longest() const noexcept { return retry_longest_; }
  /// Bytes that may wait for a peer.
  [[nodiscard]] std::size_t send_buffer_size() const noexcept { return send_buffer_size_; }
  /// Blocks of a fixed queue; 0 for one that grows.
  [[nodiscard]] std::size_t send_buffer_number() const noexcept { return send_buffer_number_; }
  /// How long poll leaves sockets alone after it has written to them.
  [[nodiscard]] std::chrono::nanoseconds write_delay() const noexcept { return write_delay_; }
  /// What happens to a message for which there is no room.
  [[nodiscard]] overflow_policy overflow() const noexcept { return overflow_; }
  /// What happens to messages that an earlier incarnation may have handled.
  [[nodiscard]] restart_policy restart() const noexcept { return restart_; }
  /// How long a message may wait; 0 for no limit.
  [[nodiscard]] std::chrono::nanoseconds message_deadline() const noexcept {
    return message_deadline_;
  }
  /// How many disconnected nodes are remembered.
  [[nodiscard]] std::size_t sessions() const noexcept { return sessions_; }
  /// How many clients may be connected.
  [[nodiscard]] std::size_t clients() const noexcept { return clients_; }
  /// How many bytes of blobs may be under way.
  [[nodiscard]] std::size_t blob_window() const noexcept { return blob_window_; }
  /// How many requests to one node may wait for a response.
  [[nodiscard]] std::size_t requests() const noexcept { return requests_; }
  /// How long run() goes on after stop().
  [[nodiscard]] std::chrono::nanoseconds drain() const noexcept { return drain_; }
  /// The path of the file of access rules; empty if there is none.
  [[nodiscard]] const std::string& access_file() const noexcept { return access_file_; }
  /// The path of the directory's file; empty if there is none.
  [[nodiscard]] const std::string& directory_file() const noexcept { return directory_file_; }
  /// Whether this node answers the commands of operators itself.
  [[nodiscard]] bool built_in_commands() const noexcept { return built_in_commands_; }
  /// Whether other processes may watch what it receives.
  [[nodiscard]] bool allow_tap() const noexcept { return allow_tap_; }
  /// The directory for reports; empty for none.
  [[nodiscard]] const std::string& report_directory() const noexcept { return report_directory_; }
  /// The directory of the program's own; null if there is none.
  [[nodiscard]] const std::shared_ptr<atbus::directory>& directory() const noexcept {
    return directory_;
  }
  /// What the node's record says of it besides, by name.
  [[nodiscard]] const std::map<std::string, std::string>& labels() const noexcept {
    return labels_;
  }
  /// What makes links to nats:// addresses; null if nothing does.
  [[nodiscard]] const std::shared_ptr<atbus::carrier>& carrier() const noexcept { return carrier_; }

 private:
  uv_loop_s* loop_ = nullptr;
  std::vector<std::string> tokens_;
  tls_files certificates_;
  std::string circuit_secret_;
  bool allow_unauthenticated_ = false;
  bool allow_unencrypted_ = false;
  std::vector<std::string> parents_;
  std::string children_;
  std::size_t message_limit_ = build_settings::message_limit;
  std::chrono::nanoseconds first_idle_timeout_ = std::chrono::seconds{30};
  std::uint32_t connections_ = 4096;
  std::uint32_t unconfirmed_ = 1024;
  stranger_limits strangers_;
  std::chrono::nanoseconds ping_interval_ = std::chrono::seconds{8};
  unsigned fault_tolerance_ = 3;
  std::chrono::nanoseconds retry_first_ = std::chrono::milliseconds{100};
  std::chrono::nanoseconds retry_longest_ = std::chrono::seconds{4};
  std::size_t send_buffer_size_ = 4 * 1024 * 1024;
  std::size_t send_buffer_number_ = 0;
  overflow_policy overflow_ = overflow_policy::would_block;
  restart_policy restart_ = restart_policy::redeliver;
  std::chrono::nanoseconds message_deadline_{0};
  std::chrono::nanoseconds write_delay_{0};
  std::size_t sessions_ = 4096;
  std::size_t clients_ = 64;
  std::size_t requests_ = 16 * 1024;
  std::size_t blob_window_ = 512 * 1024;
  std::chrono::nanoseconds drain_ = std::chrono::seconds{5};
  std::string access_file_;
  std::string directory_file_;
  bool built_in_commands_ = true;
  bool allow_tap_ = false;
  std::string report_directory_ = "/dev/shm";
  std::shared_ptr<atbus::directory> directory_;
  std::map<std::string, std::string> labels_;
  std::shared_ptr<atbus::carrier> carrier_;
};

}  // namespace atbus
