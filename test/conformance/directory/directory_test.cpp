// What holds for every kind of directory.
#include "atbus/directory.hpp"

#include <poll.h>

#include "directory_kind.h"

namespace atbus::test {

std::vector<directory_kind> directory_kinds() {
  return {
    {"file", false, false, make_file_source},
#if ATBUS_HAS_DISCOVERY
        {"etcd", true, true, make_etcd_source}, {"dns", false, true, make_dns_source},
#endif
  };
}

namespace {

using texts = std::vector<std::string>;

class Directory : public ::testing::TestWithParam<directory_kind> {
 protected:
  void SetUp() override {
    if (source_ == nullptr)
      GTEST_SKIP() << GetParam().name << " is not installed";
  }

  [[nodiscard]] static directory_record record(std::uint64_t id, texts addresses) {
    return {.id = bus_id{id}, .addresses = std::move(addresses)};
  }
  // Polls it as a node does, only when it is time, until `done`.
  [[nodiscard]] bool comes_true(directory& of, const std::function<bool()>& done) const {
    const auto end = now() + 20s;
    for (problem_ = of.poll(); !done(); problem_ = of.poll()) {
      if (now() > end)
        return false;
      pollfd wait{of.descriptor(), POLLIN, 0};
      ::poll(&wait, 1, GetParam().has_descriptor ? 2000 : 5);  // -1: sleeps for that time
    }
    return true;
  }
  [[nodiscard]] bool knows(directory& of, std::uint64_t id, const texts& addresses) const {
    return comes_true(of, [&] { return of.lookup(bus_id{id}) == addresses; });
  }

  std::unique_ptr<directory_source> source_ = GetParam().make();
  mutable error problem_;
};

TEST_P(Directory, KnowsNothingOfANodeThatIsNotThere) {
  const auto nodes = source_->open();
  ASSERT_TRUE(comes_true(*nodes, [&] { return static_cast<bool>(problem_); }));
  EXPECT_TRUE(nodes->lookup(7).empty());
  EXPECT_FALSE(nodes->find(7));
  EXPECT_TRUE(nodes->members("chat").empty());
}

TEST_P(Directory, HasADescriptorIfItsKindHasOne) {
  const auto nodes = source_->open();
  EXPECT_EQ(nodes->descriptor() >= 0, GetParam().has_descriptor);
}

TEST_P(Directory, HasTheWholeRecordOfANode) {
  directory_record of_7 = record(7, {"ipv4://10.0.0.7:7000", "ipv4://10.0.1.1:7001"});
  of_7.services = {"chat", "match"};
  of_7.labels = {{"rack", "7"}, {"zone", "a"}};
  source_->put(of_7);
  const auto nodes = source_->open();
  ASSERT_TRUE(knows(*nodes, 7, of_7.addresses));
  const auto known = nodes->find(7);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->id, bus_id{7});
  EXPECT_EQ(known->addresses, of_7.addresses);
  EXPECT_EQ(known->services, of_7.services);
  EXPECT_EQ(known->labels, of_7.labels);
  EXPECT_GE(known->age, 0ns);
  EXPECT_LT(known->age, 20s);
}

TEST_P(Directory, TellsEachWatcherOfANodeThatComesChangesAndGoes) {
  const auto nodes = source_->open();
  std::vector<std::pair<bus_id, texts>> heard;
  int also_heard = 0;
  nodes->watch([&](bus_id id) { heard.emplace_back(id, nodes->lookup(id)); });
  nodes->watch([&](bus_id) { ++also_heard; });
  source_->put(record(7, {"ipv4://10.0.1.1:7001"}));
  ASSERT_TRUE(knows(*nodes, 7, {"ipv4://10.0.1.1:7001"}));
  const std::uint64_t before = nodes->find(7)->version;
  source_->put(record(7, {"ipv4://10.0.1.2:7002"}));
  ASSERT_TRUE(knows(*nodes, 7, {"ipv4://10.0.1.2:7002"}));
  EXPECT_NE(nodes->find(7)->version, before);
  source_->remove(7);
  ASSERT_TRUE(knows(*nodes, 7, {}));
  EXPECT_EQ(heard, (std::vector<std::pair<bus_id, texts>>{
                       {7, {"ipv4://10.0.1.1:7001"}}, {7, {"ipv4://10.0.1.2:7002"}}, {7, {}}}));
  EXPECT_EQ(also_heard, 3);
}

TEST_P(Directory, TellsAWatcherNoMoreThatHasEnded) {
  const auto nodes = source_->open();
  int heard = 0;
  const auto which = nodes->watch([&](bus_id) { ++heard; });
  const auto of_chat = nodes->watch_members("chat", [&] { ++heard; });
  nodes->unwatch(which);
  nodes->unwatch(of_chat);
  directory_record of_7 = record(7, {"ipv4://10.0.1.1:7001"});
  of_7.services = {"chat"};
  source_->put(of_7);
  ASSERT_TRUE(knows(*nodes, 7, {"ipv4://10.0.1.1:7001"}));
  EXPECT_EQ(heard, 0);
}

TEST_P(Directory, FollowsTheMembersOfAService) {
  const auto nodes = source_->open();
  std::vector<std::vector<bus_id>> heard;
  nodes->watch_members("chat", [&] { heard.push_back(nodes->members("chat")); });
  const auto offer = [&](std::uint64_t id, texts services) {
    directory_record made = record(id, {"ipv4://10.0.0.1:" + std::to_string(id)});
    made.services = std::move(services);
    source_->put(made);
  };
  const auto become = [&](const std::vector<bus_id>& members) {
    return comes_true(*nodes, [&] { return nodes->members("chat") == members; });
  };
  offer(9, {"chat"});
  ASSERT_TRUE(become({9}));
  offer(7, {"match", "chat"});
  ASSERT_TRUE(become({7, 9}));
  offer(8, {"match"});
  ASSERT_TRUE(knows(*nodes, 8, {"ipv4://10.0.0.1:8"}));  // is none of them
  offer(9, {"match"});
  ASSERT_TRUE(become({7}));
  source_->remove(7);
  ASSERT_TRUE(become({}));
  EXPECT_EQ(heard, (std::vector<std::vector<bus_id>>{{9}, {7, 9}, {7}, {}}));
}

TEST_P(Directory, KeepsWhatItKnowsWhileItsSourceIsLostAndSaysHowOldThatIs) {
  source_->put(record(7, {"ipv4://10.0.1.1:7001"}));
  const auto nodes = source_->open();
  ASSERT_TRUE(knows(*nodes, 7, {"ipv4://10.0.1.1:7001"}));
  source_->lose();
  ASSERT_TRUE(comes_true(*nodes, [&] { return !problem_; }));
  EXPECT_FALSE(problem_.text().empty());
  const auto age = nodes->find(7)->age;
  EXPECT_TRUE(comes_true(*nodes, [&] { return nodes->find(7)->age > age + 50ms; }));
  EXPECT_EQ(nodes->lookup(7), texts{"ipv4://10.0.1.1:7001"});
  source_->bring_back();
  source_->put(record(8, {"ipv4://10.0.1.2:7002"}));
  EXPECT_TRUE(knows(*nodes, 8, {"ipv4://10.0.1.2:7002"}));
  EXPECT_EQ(nodes->lookup(7), texts{"ipv4://10.0.1.1:7001"});
}

TEST_P(Directory, SaysWhatIsWrongInOneSentenceForAsLongAsItIs) {
  const auto nodes = source_->open();
  ASSERT_TRUE(comes_true(*nodes, [&] { return static_cast<bool>(problem_); }));
  source_->lose();
  ASSERT_TRUE(comes_true(*nodes, [&] { return !problem_; }));
  const std::string sentence = problem_.text();
  const auto until = now() + 500ms;
  EXPECT_TRUE(comes_true(*nodes, [&] { return now() > until || problem_.text() != sentence; }));
  EXPECT_EQ(problem_.text(), sentence);
}

TEST_P(Directory, ShowsOneProgramWhatAnotherAnnounces) {
  const auto one = source_->open();
  directory_record of_7 = record(7, {"ipv4://10.0.1.1:7001"});
  of_7.services = {"chat"};
  of_7.labels = {{"zone", "a"}};
  of_7.place = tree_place::relay;
  if (!GetParam().takes_announcements) {
    EXPECT_EQ(one->announce(of_7), errc::not_supported);
    EXPECT_EQ(one->withdraw(7), errc::not_supported);
    return;
  }
  const auto other = source_->open();
  const auto becomes = [&](const texts& addresses) {
    return comes_true(*other, [&] {
      (void)one->poll();
      return other->lookup(7) == addresses;
    });
  };
  ASSERT_TRUE(one->announce(of_7));
  ASSERT_TRUE(becomes({"ipv4://10.0.1.1:7001"}));
  EXPECT_EQ(other->find(7)->services, of_7.services);
  EXPECT_EQ(other->find(7)->labels, of_7.labels);
  EXPECT_EQ(other->find(7)->place, tree_place::relay);
  of_7.addresses = {"ipv4://10.0.1.2:7002"};
  ASSERT_TRUE(one->announce(of_7));
  ASSERT_TRUE(becomes({"ipv4://10.0.1.2:7002"}));
  ASSERT_TRUE(one->withdraw(7));
  EXPECT_TRUE(becomes({}));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Directory, ::testing::ValuesIn(directory_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
