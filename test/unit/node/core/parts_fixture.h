// What the tests of one part of a node put around it: a clock that they move, links that keep what is
// committed, and no network.
#pragma once

#include <list>
#include <utility>

#include "atbus/clock.hpp"
#include "node/core/event_queue.h"
#include "node/core/node_context.h"
#include "node/core/receive_path.h"
#include "test.h"
#include "test_random.h"

namespace atbus::detail {

class fake_link final : public link {
 public:
  explicit fake_link(link_kind of = link_kind::tcp) : kind_(of) {}

  std::byte* claim(std::size_t length, message_purpose, status& why) noexcept override {
    if (!has_room) {
      why = refuses_with;
      return nullptr;
    }
    open_.resize(length);
    return open_.data();
  }
  bool commit(std::size_t length) noexcept override {
    open_.resize(length);
    sent.push_back(std::exchange(open_, {}));
    return true;
  }
  bool has_claim() const noexcept override { return !open_.empty(); }
  void flush() noexcept override { ++flushes; }
  std::size_t share() const noexcept override { return free_share; }
  bool keeps() const noexcept override { return true; }
  void release(std::uint64_t) noexcept override {}
  bool settled() const noexcept override { return true; }
  void take_unreleased(const std::function<void(bytes_view, errc)>&) override {}
  void pause() noexcept override {}
  void resume() noexcept override {}
  void close(std::chrono::nanoseconds) noexcept override {}
  void abort() noexcept override {}
  link_kind kind() const noexcept override { return kind_; }
  link_trust trust() const noexcept override { return link_trust::unproven; }
  link_origin origin() const override { return {}; }
  std::string peer() const override { return "fake"; }
  std::uint64_t message_limit() const noexcept override { return 64 * 1024; }
  void confirm(const node_instance&) noexcept override {}

  std::vector<std::vector<std::byte>> sent;
  unsigned flushes = 0;
  bool has_room = true;
  errc refuses_with = errc::would_block;
  std::size_t free_share = 0;

 private:
  const link_kind kind_;
  std::vector<std::byte> open_;
};

class fake_transport final : public transport {
 public:
  void start(const node_instance&, link_events&) override {}
  result<std::string> listen(const address&) override { return error{errc::closed}; }
  result<link*> connect(const address&) override { return error{errc::closed}; }
  void close() noexcept override {}
  std::size_t poll(const poll_limits&) override { return 0; }
  void end_poll() noexcept override { ++polls_ended; }
  void flush() noexcept override {}
  int descriptor() const noexcept override { return -1; }
  bool prepare_sleep() override { return false; }
  void finish_sleep() override {}
  std::chrono::nanoseconds longest_sleep() const noexcept override { return 1h; }

  unsigned polls_ended = 0;
};

// Node 1.
class parts_of_a_node : public ::testing::Test {
 protected:
  using lines = std::vector<std::string>;

  // A registered session of its own link.
  session& add_session(link_kind kind = link_kind::tcp) {
    session& made = sessions.emplace_back(node.timers, links.emplace_back(kind), nullptr);
    made.at.context = &made;
    made.stage = session_stage::registered;
    made.keeps = true;
    return made;
  }
  static fake_link& link_of(session& one) { return dynamic_cast<fake_link&>(one.at); }
  // Timers that are due then run.
  void pass(std::chrono::nanoseconds time) {
    clock.advance(time);
    node.timers.run(clock.now());
  }
  static held_message of_size(std::size_t bytes, std::uint64_t number = 0) {
    held_message made;
    made.number = number;
    made.bytes.resize(bytes);
    return made;
  }

  manual_clock clock{1h};
  test_random random{1};
  fake_transport channels;
  node_context node{1, node_options{}.send_buffer_size(64 * 1024), {clock, random, channels}};
  direct_receive_path path;
  receive_path receive{node, path};
  event_queue events{node, receive};
  std::list<fake_link> links;
  std::list<session> sessions;
};

}  // namespace atbus::detail
