// Who offers a service, as a directory tells nodes of a simulated network, and who of them is chosen.
#include "atbus/service.hpp"

#include <map>
#include <set>

#include "node/directory/record_table.h"
#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

// In memory, and told by nodes.
class common_directory final : public directory {
 public:
  [[nodiscard]] std::vector<std::string> lookup(bus_id id) override {
    const directory_record* const known = table_.find(id);
    return known != nullptr ? known->addresses : std::vector<std::string>{};
  }
  [[nodiscard]] std::vector<bus_id> members(std::string_view service) override {
    ++questions;
    return table_.members(service);
  }
  watch_id watch(std::function<void(bus_id)> changed) override {
    return table_.watch(std::move(changed));
  }
  watch_id watch_members(std::string service, std::function<void()> changed) override {
    return table_.watch_members(std::move(service), std::move(changed));
  }
  void unwatch(watch_id which) override { table_.unwatch(which); }
  error announce(const directory_record& record) override {
    if (!is_told)
      return {errc::not_supported, "it takes nothing"};
    if (is_lost)
      return {errc::not_connected, "it is away"};
    table_.put(record);
    return {};
  }
  error withdraw(bus_id id) override {
    table_.remove(id);
    return {};
  }
  error poll() override {
    table_.tell_changed();
    return {};
  }

  bool is_told = true;
  bool is_lost = false;
  int questions = 0;

 private:
  record_table table_;
};

// Its watches begin at 0, and it has none for members.
class old_directory final : public directory {
 public:
  [[nodiscard]] std::vector<std::string> lookup(bus_id) override { return {}; }
  watch_id watch(std::function<void(bus_id)>) override { return watches_++; }
  void unwatch(watch_id which) override { ended.push_back(which); }
  error announce(const directory_record&) override { return {}; }
  error withdraw(bus_id) override { return {}; }
  error poll() override { return {}; }

  std::vector<watch_id> ended;

 private:
  watch_id watches_ = 0;
};

class Services : public ::testing::Test {
 protected:
  [[nodiscard]] node_options options() const { return plain().directory(nodes); }
  void begin(std::uint64_t id) {
    servers.push_back(std::make_unique<party>(net, id, options()));
    EXPECT_TRUE(servers.back()->node.user().offer("chat"));
  }
  // A directory without a descriptor is looked at every 2 s.
  void let_hear() { net.run_for(3s); }
  // Who is chosen, so often.
  template <class Choose>
  static std::map<std::uint64_t, int> choices(int times, Choose&& choose) {
    std::map<std::uint64_t, int> all;
    for (int i = 0; i != times; ++i)
      ++all[choose(i).value()];
    return all;
  }

  std::shared_ptr<common_directory> nodes = std::make_shared<common_directory>();
  simulated_network net{1};
  std::vector<std::unique_ptr<party>> servers;
  party user{net, 1, options()};
  service chat{user.node.user(), "chat"};
};

TEST_F(Services, EndNoWatchThatIsNotTheirs) {
  const auto old = std::make_shared<old_directory>();
  party other{net, 9, plain().directory(old)};
  { const service brief{other.node.user(), "chat"}; }
  EXPECT_TRUE(old->ended.empty());
}

TEST_F(Services, HaveNobodyBeforeAnybodyOffersThem) {
  EXPECT_TRUE(chat.members().empty());
  EXPECT_EQ(chat.any(), bus_id{});
  EXPECT_EQ(chat.least_busy(), bus_id{});
  EXPECT_EQ(chat.for_key("anna"), bus_id{});
  EXPECT_EQ(user.node.user().send(chat.any(), 1, "text"), errc::no_route);
}

TEST_F(Services, HaveWhoOffersThemUntilThatIsTakenBack) {
  begin(2);
  begin(3);
  let_hear();
  EXPECT_EQ(chat.members(), (std::vector<bus_id>{2, 3}));
  EXPECT_TRUE(servers[0]->node.user().withdraw("chat"));
  EXPECT_EQ(servers[0]->node.user().withdraw("chat"), errc::not_found);
  let_hear();
  EXPECT_EQ(chat.members(), (std::vector<bus_id>{3}));
  servers[1]->node.user().close();
  let_hear();
  EXPECT_TRUE(chat.members().empty());
}

TEST_F(Services, AreStillReachedByTheAddressesOfWhoOffersThem) {
  begin(2);
  let_hear();
  EXPECT_TRUE(user.send(chat.any().value(), "hello"));
  EXPECT_TRUE(net.run_until([&] { return servers[0]->got.size() == 1; }, 10s));
}

TEST_F(Services, AreAskedForMembersOnlyWhenTheyHaveChanged) {
  begin(2);
  let_hear();
  (void)chat.any();
  const int before = nodes->questions;
  for (int i = 0; i != 100; ++i)
    (void)chat.any();
  EXPECT_EQ(nodes->questions, before);
  begin(3);
  let_hear();
  EXPECT_EQ(chat.members().size(), 2U);
  EXPECT_EQ(nodes->questions, before + 1);
}

TEST_F(Services, TakeTurns) {
  for (const std::uint64_t id : {2U, 3U, 4U})
    begin(id);
  let_hear();
  EXPECT_EQ(choices(30, [&](int) { return chat.any(); }),
            (std::map<std::uint64_t, int>{{2, 10}, {3, 10}, {4, 10}}));
}

TEST_F(Services, LeaveOutWhoCannotBeReached) {
  for (const std::uint64_t id : {2U, 3U, 4U})
    begin(id);
  let_hear();
  for (const std::uint64_t id : {2U, 3U, 4U})
    EXPECT_TRUE(user.send(id, "hello"));
  let_hear();
  servers.erase(servers.begin() + 1);  // killed: its record stays for a while
  begin(5);
  (void)nodes->announce({.id = 3, .addresses = {address_of(3)}, .services = {"chat"}});
  let_hear();
  let_hear();
  const auto all = choices(30, [&](int) { return chat.any(); });
  EXPECT_FALSE(all.contains(3));
  EXPECT_EQ(all.size(), 3U);
  EXPECT_FALSE(choices(100, [&](int) { return chat.least_busy(); }).contains(3));
  // Its keys stay its own: it may be back at once.
  EXPECT_TRUE(choices(100, [&](int key) {
                return chat.for_key(static_cast<std::uint64_t>(key));
              }).contains(3));
  // And somebody is chosen if nobody can be reached.
  servers.clear();
  (void)nodes->announce({.id = 3, .addresses = {address_of(3)}, .services = {"chat"}});
  let_hear();
  let_hear();
  EXPECT_EQ(chat.any(), bus_id{3});
}

TEST_F(Services, GiveWorkToWhoHasLess) {
  for (const std::uint64_t id : {2U, 3U})
    begin(id);
  let_hear();
  const auto ask = [&](bus_id whom) {
    (void)user.node.user().request(whom, 7, as_bytes("?"), 60s, [](const response&) {});
  };
  std::vector<request> held;
  for (const auto& server : servers) {
    server->node.user().on_request([&](request& what) { held.push_back(what.detach()); });
  }
  for (int i = 0; i != 5; ++i)
    ask(2);
  for (int i = 0; i != 5; ++i) {
    EXPECT_EQ(chat.least_busy(), bus_id{3});
    ask(3);
  }
  const auto both = choices(100, [&](int) { return chat.least_busy(); });
  EXPECT_GT(both.at(2), 20);
  EXPECT_GT(both.at(3), 20);
  user.node.wake();
  net.run_for(1s);
  EXPECT_EQ(held.size(), 10U);
  held.clear();
}

TEST_F(Services, HaveOneForAKeyAndAllNodesAgreeWho) {
  for (const std::uint64_t id : {2U, 3U, 4U, 5U})
    begin(id);
  party other{net, 9, options()};
  service same{other.node.user(), "chat"};
  let_hear();
  std::set<bus_id> chosen;
  std::map<std::string, bus_id> before;
  for (int i = 0; i != 100; ++i) {
    const std::string player = "player-" + std::to_string(i);
    before[player] = chat.for_key(player);
    EXPECT_EQ(same.for_key(player), before[player]);
    chosen.insert(before[player]);
  }
  EXPECT_EQ(chosen.size(), 4U);
  servers.back()->node.user().close();
  let_hear();
  for (const auto& [player, owner] : before) {
    if (owner != bus_id{5})
      EXPECT_EQ(chat.for_key(player), owner) << player;
    else
      EXPECT_NE(chat.for_key(player), owner) << player;
  }
}

TEST_F(Services, OutliveTheirNodeWithoutMembers) {
  begin(2);
  let_hear();
  EXPECT_EQ(chat.any(), bus_id{2});
  service moved = std::move(chat);
  user.node.user().close();
  EXPECT_EQ(moved.name(), "chat");
  EXPECT_TRUE(moved.members().empty());
  EXPECT_EQ(moved.any(), bus_id{});
  EXPECT_EQ(moved.least_busy(), bus_id{});
  EXPECT_EQ(moved.for_key(7), bus_id{});
  service late{user.node.user(), "chat"};
  EXPECT_TRUE(late.members().empty());
  chat = std::move(moved);
}

TEST_F(Services, OfANodeWithoutADirectoryAreAnErrorThatSaysSo) {
  party alone{net, 8};
  const error refused = alone.node.user().offer("chat");
  EXPECT_EQ(refused, errc::not_supported);
  EXPECT_NE(refused.text().find("node_options::directory"), std::string::npos) << refused.text();
  service none{alone.node.user(), "chat"};
  EXPECT_TRUE(none.members().empty());
}

TEST_F(Services, HaveNamesAndANumberThatAreChecked) {
  node& one = user.node.user();
  for (const std::string& name : {std::string{}, std::string(129, 'x'), std::string{"a\nb"}})
    EXPECT_EQ(one.offer(name), errc::invalid_argument) << name;
  for (int i = 0; i != 256; ++i)
    EXPECT_TRUE(one.offer("service" + std::to_string(i)));
  EXPECT_TRUE(one.offer("service0")) << "it is offered already";
  EXPECT_EQ(one.offer("one more"), errc::invalid_argument);
  EXPECT_TRUE(one.withdraw("service0"));
  EXPECT_TRUE(one.offer("one more"));
  one.close();
  EXPECT_EQ(one.offer("chat"), errc::closed);
  EXPECT_EQ(one.withdraw("chat"), errc::closed);
}

TEST_F(Services, AreToldToADirectoryThatWorksAgain) {
  party server{net, 2, options()};
  nodes->is_lost = true;
  EXPECT_EQ(server.node.user().offer("chat"), errc::not_connected);
  let_hear();
  EXPECT_TRUE(chat.members().empty());
  nodes->is_lost = false;
  let_hear();
  let_hear();
  EXPECT_EQ(chat.members(), (std::vector<bus_id>{2}));
}

TEST_F(Services, OfANodeThatLeavesAreNotToldAgain) {
  begin(2);
  node& server = servers.back()->node.user();
  EXPECT_TRUE(server.offer("mail"));
  let_hear();
  servers.back()->core().leave();
  EXPECT_TRUE(nodes->lookup(2).empty());
  (void)server.withdraw("mail");
  (void)server.listen("ipv4://10.0.0.2:7001");
  EXPECT_TRUE(nodes->lookup(2).empty());
}

TEST_F(Services, AreNotOfferedWhereTheDirectoryTakesNothing) {
  nodes->is_told = false;
  EXPECT_EQ(user.node.user().offer("chat"), errc::not_supported);
  EXPECT_EQ(user.node.user().withdraw("chat"), errc::not_found);
}

}  // namespace
}  // namespace atbus::detail
