#include "delivery/session_table.h"

#include "test.h"

namespace atbus::detail {
namespace {

node_instance instance(std::uint64_t incarnation) {
  return {.id = 7, .incarnation = incarnation};
}

// A flow of the table that has come to `last`.
incoming_flow come_to(session_table& table, const node_instance& sender, std::uint64_t last) {
  incoming_flow flow = table.take(sender);
  EXPECT_TRUE(flow.move_to_path(0));
  EXPECT_TRUE(flow.announce(last + 1, 0));
  return flow;
}

TEST(SessionTable, GivesBackWhatItRemembers) {
  session_table table(4);
  const incoming_flow flow = come_to(table, instance(1), 12);
  table.remember(instance(1), flow);
  EXPECT_EQ(table.take(instance(1)).position(), flow.position());
  EXPECT_EQ(flow.position().last, 12U);
  EXPECT_EQ(table.size(), 0U);
}

TEST(SessionTable, TakesNoPlaceForAFlowOfWhichNothingHasCome) {
  session_table table(2);
  table.remember(instance(1), come_to(table, instance(1), 11));
  for (std::uint64_t another = 2; another != 100; ++another)
    table.remember(instance(another), table.take(instance(another)));
  EXPECT_EQ(table.size(), 1U);
  EXPECT_EQ(table.forgotten(), 0U);
  EXPECT_EQ(table.take(instance(1)).position().last, 11U);
}

TEST(SessionTable, GivesANewFlowTheSameSessionUntilOneIsForgotten) {
  session_table table(1);
  const flow_position told = table.take(instance(1)).position();
  table.remember(instance(1), table.take(instance(1)));
  EXPECT_EQ(table.take(instance(1)).position(), told);
  table.remember(instance(2), come_to(table, instance(2), 12));
  EXPECT_EQ(table.take(instance(1)).position(), told);
  table.remember(instance(3), come_to(table, instance(3), 13));
  EXPECT_GT(table.take(instance(1)).position().session, told.session);
}

// The position covers the messages that they speak of.
TEST(SessionTable, RemembersTheWordsOfRefusedMessagesWithTheirFlow) {
  session_table table(4);
  incoming_flow flow = come_to(table, instance(1), 12);
  flow.words().push_back({.number = 12, .type = 7});
  table.remember(instance(1), flow);
  incoming_flow back = table.take(instance(1));
  ASSERT_EQ(back.words_owed(), 1U);
  EXPECT_EQ(back.words()[0].number, 12U);
}

TEST(SessionTable, ForgetsFlowsWithTheirWordsIfThereAreTooManyOfThem) {
  session_table table(8);
  table.remember(instance(1), come_to(table, instance(1), 11));
  flow_position oldest;
  for (std::uint64_t i = 2; i != 5; ++i) {
    incoming_flow flow = come_to(table, instance(i), 12);
    flow.words().resize(session_table::words_max / 2);
    if (i == 2)
      oldest = flow.position();
    table.remember(instance(i), flow);
  }
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table.forgotten(), 1U);
  EXPECT_EQ(table.take(instance(1)).position().last, 11U) << "it has none";
  EXPECT_EQ(table.take(instance(3)).words_owed(), session_table::words_max / 2);
  const incoming_flow again = table.take(instance(2));
  EXPECT_FALSE(again.owes_words());
  EXPECT_GT(again.position().session, oldest.session);
  incoming_flow too_many = come_to(table, instance(5), 12);
  too_many.words().resize(session_table::words_max + 1);
  table.remember(instance(5), too_many);
  EXPECT_EQ(table.find(instance(5)), nullptr);
}

TEST(SessionTable, TellsLivesOfOneNodeApart) {
  session_table table(4);
  table.remember(instance(1), come_to(table, instance(1), 12));
  EXPECT_EQ(table.take(instance(2)).position().last, 0U);
}

TEST(SessionTable, ForgetsTheOneThatLeftFirst) {
  session_table table(2);
  table.remember(instance(1), come_to(table, instance(1), 11));
  table.remember(instance(2), come_to(table, instance(2), 12));
  table.remember(instance(1), table.take(instance(1)));  // back, and gone again
  table.remember(instance(3), come_to(table, instance(3), 13));
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(table.forgotten(), 1U);
  EXPECT_EQ(table.take(instance(1)).position().last, 11U);
  EXPECT_EQ(table.take(instance(3)).position().last, 13U);
  EXPECT_EQ(table.take(instance(2)).position().last, 0U);
}

TEST(SessionTable, NeverNamesAForgottenSessionAgain) {
  session_table table(1);
  const incoming_flow before = come_to(table, instance(1), 11);
  table.remember(instance(1), before);
  table.remember(instance(2), come_to(table, instance(2), 12));
  EXPECT_GT(table.take(instance(1)).position().session, before.position().session);
}

TEST(SessionTable, RemembersASenderOnce) {
  session_table table(2);
  incoming_flow flow = come_to(table, instance(1), 11);
  table.remember(instance(1), flow);
  EXPECT_TRUE(flow.announce(21, 0));
  table.remember(instance(1), flow);
  EXPECT_EQ(table.size(), 1U);
  EXPECT_EQ(table.forgotten(), 0U);
  EXPECT_EQ(table.take(instance(1)).position().last, 20U);
}

TEST(SessionTable, LetsNoSilentIncarnationBackThatAnotherOneHasFollowed) {
  session_table table(4);
  const node_instance other{.id = 9, .incarnation = 1};
  table.remember(instance(1), come_to(table, instance(1), 11), true);
  table.remember(instance(2), come_to(table, instance(2), 12));
  table.remember(other, come_to(table, other, 5), true);
  EXPECT_EQ(table.superseded(instance(1)), nullptr);
  table.supersede(instance(3));
  table.remember(instance(3), come_to(table, instance(3), 3), true);
  ASSERT_NE(table.superseded(instance(1)), nullptr);
  EXPECT_EQ(table.superseded(instance(1))->position().last, 11U);
  EXPECT_EQ(table.superseded(instance(2)), nullptr);
  EXPECT_EQ(table.superseded(instance(3)), nullptr);
  EXPECT_EQ(table.superseded(other), nullptr);
}

TEST(SessionTable, OfNoSizeForgetsAtOnce) {
  session_table table(0);
  table.remember(instance(1), come_to(table, instance(1), 11));
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.forgotten(), 1U);
  EXPECT_EQ(table.take(instance(1)).position().last, 0U);
}

}  // namespace
}  // namespace atbus::detail
