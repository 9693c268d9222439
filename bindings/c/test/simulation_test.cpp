// Simulated nodes in C.
#include <atbus/atbus_simulation.h>
#include <sys/wait.h>

#include <map>
#include <thread>

#include "c_fixture.h"

namespace atbus_c_test {
namespace {

constexpr const char* there = "ipv4://10.0.0.2:7000";

// Node 1 is connected to node 2, whose incarnations keep what they are told in `got`.
class CSimulation : public ::testing::Test {
 public:
  void SetUp() override { renew(1); }
  void TearDown() override {
    free_nodes();
    EXPECT_EQ(atbus_simulation_free(sim), ATBUS_OK) << atbus_last_error();
  }
  void renew(std::uint64_t seed) {
    EXPECT_EQ(atbus_simulation_free(sim), ATBUS_OK);
    ASSERT_EQ(atbus_simulation_new(&seed, &sim), ATBUS_OK);
  }
  void free_nodes() {
    for (const auto& [id, one] : nodes)
      atbus_node_free(one);
    nodes.clear();
  }
  void start_both() {
    ASSERT_EQ(atbus_simulation_start(sim, 2, 2, nullptr, begin_receiver, note_end, this), ATBUS_OK)
        << atbus_last_error();
    ASSERT_EQ(atbus_simulation_start(sim, 1, 1, nullptr, begin_sender, note_end, this), ATBUS_OK)
        << atbus_last_error();
  }
  void keep(atbus_node* node) {
    atbus_node*& place = nodes[atbus_node_id(node)];
    atbus_node_free(place);
    place = node;
  }
  static void begin_receiver(void* user, atbus_node* node) {
    auto& self = *static_cast<CSimulation*>(user);
    self.keep(node);
    ++self.begun;
    EXPECT_EQ(atbus_node_listen(node, there), ATBUS_OK);
    atbus_node_on_message(node, note_message, user);
  }
  static void begin_sender(void* user, atbus_node* node) {
    static_cast<CSimulation*>(user)->keep(node);
    EXPECT_EQ(atbus_node_connect(node, 2, there), ATBUS_OK);
  }
  static void note_message(void* user, const atbus_message* m) {
    auto& self = *static_cast<CSimulation*>(user);
    self.got.emplace_back(static_cast<const char*>(m->bytes), m->size);
    if (self.on_got)
      self.on_got();
  }
  static void note_end(void* user, std::uint64_t id) {
    static_cast<CSimulation*>(user)->ended.push_back(id);
  }
  void send(const std::string& text) {
    EXPECT_EQ(atbus_node_send(nodes[1], 2, 0, text.data(), text.size()), ATBUS_OK)
        << atbus_last_error();
  }
  [[nodiscard]] atbus_code run_until_idle() {
    return atbus_simulation_run_until_idle(sim, nullptr, nullptr, 60 * second);
  }
  [[nodiscard]] static std::string why() { return atbus_last_error(); }

  atbus_simulation* sim = nullptr;
  std::map<std::uint64_t, atbus_node*> nodes;
  std::vector<std::string> got;
  std::function<void()> on_got;
  std::vector<std::uint64_t> ended;
  int begun = 0;
};

TEST_F(CSimulation, DeliversInItsOwnTime) {
  start_both();
  send("one");
  EXPECT_EQ(atbus_simulation_now(sim), 0);
  EXPECT_EQ(run_until_idle(), ATBUS_OK);
  EXPECT_EQ(got, std::vector<std::string>{"one"});
  EXPECT_LT(atbus_simulation_now(sim), second);
  EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, 3600 * second), ATBUS_OK);
  EXPECT_GE(atbus_simulation_now(sim), 3600 * second);
  const auto is_told = [](void* user) {
    return static_cast<CSimulation*>(user)->got.size() == 2 ? 1 : 0;
  };
  EXPECT_EQ(atbus_simulation_run(sim, is_told, this, second), ATBUS_TIMED_OUT);
  send("two");
  EXPECT_EQ(atbus_simulation_run(sim, is_told, this, second), ATBUS_OK);
}

TEST_F(CSimulation, RunsWhileANodeWaits) {
  start_both();
  send("one");
  for (int i = 0; i != 5 && got.empty(); ++i)
    (void)atbus_node_wait(nodes[2], second);
  EXPECT_EQ(got.size(), 1U);
  EXPECT_EQ(atbus_node_shutdown(nodes[1], second), ATBUS_OK);
  EXPECT_EQ(atbus_node_descriptor(nodes[2]), -1);
  atbus_thread_sender* sender = nullptr;
  EXPECT_EQ(atbus_thread_sender_new(nodes[2], &sender), ATBUS_OK);
  EXPECT_EQ(atbus_thread_sender_send(sender, 1, 0, "", 0), ATBUS_NOT_SUPPORTED);
  atbus_thread_sender_free(sender);
}

TEST_F(CSimulation, EndsAndBeginsProcesses) {
  start_both();
  EXPECT_EQ(run_until_idle(), ATBUS_OK);
  atbus_node* const former = std::exchange(nodes[2], nullptr);
  ASSERT_NE(atbus_node_claim(former, 2, 0, 10, nullptr), nullptr);
  EXPECT_EQ(atbus_simulation_kill(sim, 2), ATBUS_OK);
  EXPECT_EQ(ended, std::vector<std::uint64_t>{2});
  EXPECT_EQ(atbus_simulation_is_running(sim, 2), 0);
  EXPECT_EQ(atbus_node_commit(former, 1), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(atbus_node_send(former, 1, 0, "", 0), ATBUS_CLOSED);
  EXPECT_EQ(atbus_simulation_kill(sim, 2), ATBUS_NOT_FOUND);
  send("one");
  EXPECT_EQ(atbus_simulation_run_until_idle(sim, nullptr, nullptr, 5 * second), ATBUS_TIMED_OUT);
  EXPECT_EQ(atbus_simulation_restart(sim, 2), ATBUS_OK);
  EXPECT_EQ(run_until_idle(), ATBUS_OK);
  EXPECT_EQ(got, std::vector<std::string>{"one"});
  EXPECT_EQ(begun, 2);
  atbus_node_free(former);
  // A program that frees its node has ended.
  atbus_node_free(std::exchange(nodes[2], nullptr));
  EXPECT_EQ(atbus_simulation_is_running(sim, 2), 0);
  EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, second), ATBUS_OK);
  EXPECT_EQ(ended, (std::vector<std::uint64_t>{2, 2}));
  EXPECT_EQ(atbus_node_stop(nodes[1]), ATBUS_OK);
  EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, 60 * second), ATBUS_OK);
  EXPECT_EQ(ended, (std::vector<std::uint64_t>{2, 2, 1}));
}

TEST_F(CSimulation, MayBeEndedByItsCallbacks) {
  start_both();
  for (const auto& end : std::initializer_list<std::function<void()>>{
           [&] { atbus_node_free(std::exchange(nodes[2], nullptr)); },
           [&] { EXPECT_EQ(atbus_simulation_kill(sim, 2), ATBUS_OK); },
           [&] { EXPECT_EQ(atbus_simulation_restart(sim, 2), ATBUS_OK); },
           [&] { EXPECT_EQ(atbus_node_close(nodes[2]), ATBUS_OK); }}) {
    for (const bool by_itself : {false, true}) {
      got.clear();
      on_got = end;
      if (by_itself) {
        EXPECT_EQ(atbus_node_send(nodes[2], 2, 0, "end", 3), ATBUS_OK);
        EXPECT_EQ(atbus_node_poll(nodes[2], 0, 0, nullptr), ATBUS_OK);
      } else {
        send("end");
      }
      EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, 10 * second), ATBUS_OK);
      ASSERT_FALSE(got.empty());
      on_got = nullptr;
      EXPECT_EQ(atbus_simulation_restart(sim, 2), ATBUS_OK);
      EXPECT_EQ(run_until_idle(), ATBUS_OK);
    }
  }
}

TEST_F(CSimulation, EndsAProcessWhoseNodeWaits) {
  const std::function<atbus_code()> waits[] = {[&] { return atbus_node_run(nodes[1]); },
                                               [&] { return atbus_node_wait(nodes[1], -1); },
                                               [&] { return atbus_node_shutdown(nodes[1], -1); }};
  for (const bool comes_back : {false, true}) {
    for (const auto& wait : waits) {
      free_nodes();
      renew(1);
      start_both();
      EXPECT_EQ(run_until_idle(), ATBUS_OK);
      ended.clear();
      // Its handler is the callback that ends another process.
      on_got = [&] {
        if (got.back() != "end")
          return;
        EXPECT_EQ(comes_back ? atbus_simulation_restart(sim, 1) : atbus_simulation_kill(sim, 1),
                  ATBUS_OK);
      };
      send("end");
      atbus_code how = ATBUS_OK;
      while (how == ATBUS_OK)
        how = wait();
      EXPECT_EQ(how, ATBUS_CLOSED);
      EXPECT_EQ(ended, std::vector<std::uint64_t>{1});
      on_got = nullptr;
      EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, second), ATBUS_OK);
      EXPECT_EQ(ended, std::vector<std::uint64_t>{1});
      EXPECT_EQ(atbus_simulation_is_running(sim, 1), comes_back ? 1 : 0);
    }
  }
}

TEST_F(CSimulation, RestartsAProcessOnceItsCallbackHasReturned) {
  start_both();
  int calls = 0;
  on_got = [&] {
    if (++calls != 1)
      return;
    EXPECT_EQ(atbus_simulation_restart(sim, 2), ATBUS_OK);
    for (int i = 0; i != 10; ++i)
      (void)atbus_node_wait(nodes[1], second);
    EXPECT_EQ(begun, 1);
    EXPECT_EQ(atbus_simulation_free(sim), ATBUS_INVALID_ARGUMENT);
    EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, 0), ATBUS_INVALID_ARGUMENT);
  };
  EXPECT_EQ(atbus_node_send(nodes[2], 2, 0, "end", 3), ATBUS_OK);
  EXPECT_EQ(atbus_node_poll(nodes[2], 0, 0, nullptr), ATBUS_OK);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(ended, std::vector<std::uint64_t>{2});
  send("one");
  EXPECT_EQ(run_until_idle(), ATBUS_OK);
  EXPECT_EQ(got.back(), "one");
}

TEST_F(CSimulation, TellsOfEachEnd) {
  const std::function<void()> ends[] = {
      [&] { EXPECT_EQ(atbus_node_close(nodes[2]), ATBUS_OK); },
      [&] { EXPECT_EQ(atbus_node_shutdown(nodes[2], 0), ATBUS_OK); },
      [&] { atbus_node_free(std::exchange(nodes[2], nullptr)); }};
  const std::function<void()> begins[] = {
      [&] { EXPECT_EQ(atbus_simulation_restart(sim, 2), ATBUS_OK); },
      [&] {
        EXPECT_EQ(atbus_simulation_start(sim, 2, 2, nullptr, begin_receiver, note_end, this),
                  ATBUS_OK);
      }};
  start_both();
  EXPECT_EQ(run_until_idle(), ATBUS_OK);
  for (const auto& end : ends) {
    for (const auto& begin : begins) {
      ended.clear();
      end();
      begin();
      EXPECT_EQ(ended, std::vector<std::uint64_t>{2});
      EXPECT_EQ(run_until_idle(), ATBUS_OK);
      EXPECT_EQ(ended, std::vector<std::uint64_t>{2});
    }
  }
}

TEST_F(CSimulation, MayBeFreedBeforeItsNodesOrAfterThem) {
  start_both();
  outcome asked;
  ASSERT_EQ(
      atbus_node_request(nodes[1], 2, 0, "", 0, 60 * second, outcome::of_response, &asked, nullptr),
      ATBUS_OK);
  EXPECT_EQ(atbus_simulation_free(std::exchange(sim, nullptr)), ATBUS_OK);
  EXPECT_EQ(asked.code, ATBUS_CLOSED);
  EXPECT_EQ(ended, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(atbus_node_send(nodes[1], 2, 0, "", 0), ATBUS_CLOSED);
  EXPECT_EQ(atbus_node_poll(nodes[1], 0, 0, nullptr), ATBUS_CLOSED);
  std::thread{[&] { EXPECT_EQ(atbus_node_adopt(nodes[2]), ATBUS_OK); }}.join();
  EXPECT_EQ(atbus_node_adopt(nodes[2]), ATBUS_OK);
  free_nodes();
  renew(1);
  start_both();
  free_nodes();
  EXPECT_EQ(atbus_simulation_free(std::exchange(sim, nullptr)), ATBUS_OK);
  renew(1);
  // A detached request outlives both.
  start_both();
  atbus_request* kept = nullptr;
  atbus_node_on_any_request(
      nodes[2],
      [](void* user, atbus_request* r) {
        *static_cast<atbus_request**>(user) = atbus_request_detach(r);
      },
      &kept);
  ASSERT_EQ(
      atbus_node_request(nodes[1], 2, 0, "", 0, 60 * second, outcome::of_response, &asked, nullptr),
      ATBUS_OK);
  EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, second), ATBUS_OK);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(atbus_simulation_free(std::exchange(sim, nullptr)), ATBUS_OK);
  EXPECT_NE(atbus_request_reply(kept, "", 0), ATBUS_OK);
  free_nodes();
  atbus_request_free(kept);
}

TEST_F(CSimulation, IsNotFreedNorRunByCallbacks) {
  start_both();
  int calls = 0;
  const auto refused = [&] {
    ++calls;
    EXPECT_EQ(atbus_simulation_free(sim), ATBUS_INVALID_ARGUMENT);
    EXPECT_NE(why().find("within this callback"), std::string::npos) << why();
    EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, 0), ATBUS_INVALID_ARGUMENT);
    EXPECT_EQ(run_until_idle(), ATBUS_INVALID_ARGUMENT);
    EXPECT_EQ(atbus_simulation_start(sim, 3, 1, nullptr, begin_sender, nullptr, this),
              ATBUS_INVALID_ARGUMENT);
  };
  on_got = refused;
  send("of a run");
  EXPECT_EQ(run_until_idle(), ATBUS_OK);
  EXPECT_EQ(atbus_node_send(nodes[2], 2, 0, "of a poll", 9), ATBUS_OK);
  EXPECT_EQ(atbus_node_poll(nodes[2], 0, 0, nullptr), ATBUS_OK);
  send("of a wait");
  for (int i = 0; i != 5 && got.size() < 3; ++i) {
    EXPECT_EQ(atbus_node_poll(nodes[1], 0, 0, nullptr), ATBUS_OK);
    (void)atbus_node_wait(nodes[1], second);
  }
  EXPECT_EQ(calls, 3);
  const std::function<void()> refused_too = refused;
  const auto of_holds = [](void* user) {
    (*static_cast<const std::function<void()>*>(user))();
    return 1;
  };
  EXPECT_EQ(
      atbus_simulation_run(sim, of_holds, const_cast<std::function<void()>*>(&refused_too), 0),
      ATBUS_OK);
  EXPECT_EQ(calls, 4);
  // Nor do the callbacks of a beginning and an end begin and end processes.
  const auto of_end = [](void* user, std::uint64_t) {
    auto& self = *static_cast<CSimulation*>(user);
    ++self.begun;
    EXPECT_EQ(atbus_simulation_free(self.sim), ATBUS_INVALID_ARGUMENT);
    EXPECT_EQ(atbus_simulation_kill(self.sim, 1), ATBUS_INVALID_ARGUMENT);
    EXPECT_EQ(atbus_simulation_restart(self.sim, 3), ATBUS_INVALID_ARGUMENT);
    atbus_node_free(std::exchange(self.nodes[3], nullptr));
  };
  const auto of_begin = [](void* user, atbus_node* node) {
    auto& self = *static_cast<CSimulation*>(user);
    self.keep(node);
    EXPECT_EQ(atbus_simulation_free(self.sim), ATBUS_INVALID_ARGUMENT);
    EXPECT_EQ(atbus_simulation_kill(self.sim, 3), ATBUS_INVALID_ARGUMENT);
    EXPECT_EQ(atbus_simulation_restart(self.sim, 3), ATBUS_INVALID_ARGUMENT);
  };
  begun = 0;
  EXPECT_EQ(atbus_simulation_start(sim, 3, 1, nullptr, of_begin, of_end, this), ATBUS_OK);
  EXPECT_EQ(atbus_simulation_kill(sim, 3), ATBUS_OK);
  EXPECT_EQ(begun, 1);
  // A program may close its node where it begins.
  const auto close = [](void*, atbus_node* node) { atbus_node_free(node); };
  EXPECT_EQ(atbus_simulation_start(sim, 4, 1, nullptr, close, nullptr, nullptr), ATBUS_OK);
  EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, second), ATBUS_OK);
}

TEST_F(CSimulation, RefusesOtherThreadsUntilTheyAdoptIt) {
  start_both();
  send("one");
  std::thread{[&] {
    EXPECT_EQ(run_until_idle(), ATBUS_INVALID_ARGUMENT);
    EXPECT_NE(why().find("another thread"), std::string::npos);
    EXPECT_EQ(atbus_simulation_kill(sim, 2), ATBUS_INVALID_ARGUMENT);
    EXPECT_EQ(atbus_simulation_free(sim), ATBUS_INVALID_ARGUMENT);
    EXPECT_EQ(atbus_simulation_is_running(sim, 2), 0);
    EXPECT_EQ(atbus_simulation_seed(sim), 0U);
    EXPECT_EQ(atbus_node_adopt(nodes[2]), ATBUS_INVALID_ARGUMENT);
    EXPECT_NE(why().find("adopt its simulation"), std::string::npos);
    EXPECT_EQ(atbus_simulation_adopt(sim), ATBUS_OK);
    EXPECT_EQ(atbus_simulation_restart(sim, 2), ATBUS_OK);
    EXPECT_EQ(run_until_idle(), ATBUS_OK);
  }}.join();
  EXPECT_EQ(got, std::vector<std::string>{"one"});
  EXPECT_EQ(atbus_node_poll(nodes[1], 0, 0, nullptr), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(atbus_simulation_adopt(sim), ATBUS_OK);
  EXPECT_EQ(atbus_node_adopt(nodes[2]), ATBUS_OK);
}

TEST_F(CSimulation, IsUsedByItsProcessOnly) {
  start_both();
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = run_until_idle() == ATBUS_USED_AFTER_FORK &&
                         atbus_simulation_kill(sim, 2) == ATBUS_USED_AFTER_FORK &&
                         atbus_node_wait(nodes[1], 0) == ATBUS_USED_AFTER_FORK;
    free_nodes();
    _exit(refused && atbus_simulation_free(sim) == ATBUS_OK ? 0 : 1);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_EQ(how, 0);
  send("one");
  EXPECT_EQ(run_until_idle(), ATBUS_OK);
  EXPECT_EQ(got.size(), 1U);
}

TEST_F(CSimulation, HasTheFaultsOfANetwork) {
  start_both();
  EXPECT_EQ(run_until_idle(), ATBUS_OK);
  std::vector<atbus_endpoint_event> events;
  atbus_node_on_endpoint(
      nodes[1],
      [](void* user, const atbus_endpoint*, atbus_endpoint_event event) {
        static_cast<std::vector<atbus_endpoint_event>*>(user)->push_back(event);
      },
      &events);
  EXPECT_EQ(atbus_simulation_cut(sim, 1, 2, ATBUS_SEEN_BY_BOTH), ATBUS_OK);
  EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, 10 * second), ATBUS_OK);
  EXPECT_EQ(events, (std::vector<atbus_endpoint_event>{ATBUS_ENDPOINT_DISCONNECTED,
                                                       ATBUS_ENDPOINT_CONNECTED}));
  EXPECT_EQ(atbus_simulation_separate(sim, 1, 2), ATBUS_OK);
  send("one");
  EXPECT_EQ(run_until_idle(), ATBUS_TIMED_OUT);
  EXPECT_EQ(atbus_simulation_join(sim, 1, 2), ATBUS_OK);
  EXPECT_EQ(run_until_idle(), ATBUS_OK);
  EXPECT_EQ(got.size(), 1U);
  atbus_network_conditions conditions;
  atbus_network_conditions_init(&conditions);
  conditions.delay_min_ns = conditions.delay_max_ns = 2 * second;
  EXPECT_EQ(atbus_simulation_set_conditions(sim, &conditions), ATBUS_OK);
  send("two");
  EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, second), ATBUS_OK);
  EXPECT_EQ(got.size(), 1U);
  EXPECT_EQ(atbus_simulation_set_conditions(sim, nullptr), ATBUS_OK);
  EXPECT_EQ(atbus_simulation_stop_for(sim, 2, 20 * second), ATBUS_OK);
  EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, 19 * second), ATBUS_OK);
  EXPECT_EQ(got.size(), 1U);
  EXPECT_EQ(run_until_idle(), ATBUS_OK);
  EXPECT_EQ(got.size(), 2U);
  EXPECT_EQ(atbus_simulation_step_clock(sim, 2, 60 * second), ATBUS_OK);
  EXPECT_EQ(run_until_idle(), ATBUS_OK);
}

TEST_F(CSimulation, DoesTheSameForTheSameSeed) {
  const auto story = [&](std::uint64_t seed) {
    free_nodes();
    renew(seed);
    got.clear();
    begun = 0;
    start_both();
    atbus_disturbances faults;
    atbus_disturbances_init(&faults);
    faults.cuts = 10;
    faults.restarts = 3;
    EXPECT_EQ(atbus_simulation_disturb(sim, 20 * second, &faults), ATBUS_OK);
    for (int i = 0; i != 20; ++i) {
      if (atbus_simulation_is_running(sim, 1) != 0)
        send(std::to_string(i));
      EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, second), ATBUS_OK);
    }
    EXPECT_EQ(atbus_simulation_run_until_idle(sim, nullptr, nullptr, 300 * second), ATBUS_OK);
    EXPECT_EQ(atbus_simulation_seed(sim), seed);
    std::string all = std::to_string(begun) + " " + std::to_string(atbus_simulation_now(sim));
    for (const std::string& one : got)
      all += " " + one;
    return all;
  };
  for (std::uint64_t seed = 1; seed != 6; ++seed) {
    const std::string first = story(seed);
    EXPECT_EQ(first, story(seed));
    EXPECT_NE(first, story(seed + 100));
  }
}

TEST_F(CSimulation, SaysWhatIsWrongWithArguments) {
  const auto refused = [&](atbus_code how, const char* text, atbus_code expected) {
    EXPECT_EQ(how, expected) << text;
    EXPECT_NE(why().find(text), std::string::npos) << why();
  };
  start_both();
  EXPECT_EQ(atbus_simulation_new(nullptr, nullptr), ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(atbus_simulation_run(nullptr, nullptr, nullptr, 0), ATBUS_INVALID_ARGUMENT);
  refused(atbus_simulation_start(sim, 3, 1, nullptr, nullptr, nullptr, nullptr), "begins is NULL",
          ATBUS_INVALID_ARGUMENT);
  refused(atbus_simulation_start(sim, 2, 1, nullptr, begin_sender, nullptr, this),
          "running already", ATBUS_INVALID_ARGUMENT);
  atbus_node_options options;
  atbus_node_options_init(&options);
  options.children = "no range";
  refused(atbus_simulation_start(sim, 3, 1, &options, begin_sender, nullptr, this), "range",
          ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(atbus_simulation_is_running(sim, 3), 0);
  refused(atbus_simulation_restart(sim, 3), "was not started", ATBUS_NOT_FOUND);
  refused(atbus_simulation_stop_for(sim, 3, 0), "is not running", ATBUS_NOT_FOUND);
  refused(atbus_simulation_step_clock(sim, 3, 0), "is not running", ATBUS_NOT_FOUND);
  refused(atbus_simulation_cut(sim, 1, 3, 0), "was not started", ATBUS_NOT_FOUND);
  refused(atbus_simulation_cut(sim, 1, 2, 3), "atbus_seen_by", ATBUS_INVALID_ARGUMENT);
  refused(atbus_simulation_separate(sim, 3, 1), "was not started", ATBUS_NOT_FOUND);
  for (const std::int64_t time : {ATBUS_FOR_EVER, 4'000'000'000 * second}) {
    refused(atbus_simulation_run(sim, nullptr, nullptr, time), "100 years", ATBUS_INVALID_ARGUMENT);
    refused(atbus_simulation_disturb(sim, time, nullptr), "100 years", ATBUS_INVALID_ARGUMENT);
    refused(atbus_simulation_step_clock(sim, 1, time), "100 years", ATBUS_INVALID_ARGUMENT);
    refused(atbus_simulation_stop_for(sim, 1, time), "100 years", ATBUS_INVALID_ARGUMENT);
  }
  atbus_network_conditions conditions;
  atbus_network_conditions_init(&conditions);
  conditions.delay_max_ns = 1;
  refused(atbus_simulation_set_conditions(sim, &conditions), "delays", ATBUS_INVALID_ARGUMENT);
  conditions.size = 1;
  refused(atbus_simulation_set_conditions(sim, &conditions), "size", ATBUS_INVALID_ARGUMENT);
  atbus_disturbances faults;
  atbus_disturbances_init(&faults);
  faults.stops = 1'000'001;
  refused(atbus_simulation_disturb(sim, second, &faults), "1,000,000", ATBUS_INVALID_ARGUMENT);
  EXPECT_EQ(atbus_simulation_run(sim, nullptr, nullptr, -1), ATBUS_OK);
  EXPECT_EQ(atbus_simulation_now(sim), 0);
}

}  // namespace
}  // namespace atbus_c_test
