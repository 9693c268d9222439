// What may wait for the carrier's thread, whatever clients of the server publish.
#include "nats/nats_mailbox.h"

#include <string>
#include <thread>

#include "nats/carrier_frame.h"
#include "nats/opening_pace.h"
#include "nats_server.h"
#include "test.h"

namespace atbus::detail {
namespace {

using test::nats_server;

natsMsg* made_message(const std::string& subject, const std::string& data) {
  natsMsg* made = nullptr;
  EXPECT_EQ(
      natsMsg_Create(&made, subject.c_str(), nullptr, data.data(), static_cast<int>(data.size())),
      NATS_OK);
  return made;
}

// A mailbox for "flood.>" of a server, and a client that publishes there.
class FloodedMailbox : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(box_, nullptr);
    for (natsConnection** one : {&reads_, &writes_})
      ASSERT_EQ(natsConnection_ConnectTo(one, server_.url().c_str()), NATS_OK);
    ASSERT_EQ(natsConnection_Subscribe(&all_, reads_, "flood.>", nats_mailbox::on_message,
                                       box_->closure()),
              NATS_OK);
    ASSERT_EQ(natsConnection_Flush(reads_), NATS_OK);
  }
  void TearDown() override {
    natsSubscription_Destroy(all_);
    natsConnection_Destroy(writes_);
    natsConnection_Destroy(reads_);
  }
  void publish(natsMsg* message, int times) {
    for (int i = 0; i != times; ++i)
      ASSERT_EQ(natsConnection_PublishMsg(writes_, message), NATS_OK);
    natsMsg_Destroy(message);
    ASSERT_EQ(natsConnection_Flush(writes_), NATS_OK);
    sent_ += times;
    std::int64_t got = 0;
    for (const auto limit = now() + 60s; got != sent_ && now() < limit;) {
      ASSERT_EQ(natsSubscription_GetDelivered(all_, &got), NATS_OK);
      std::this_thread::sleep_for(1ms);
    }
    ASSERT_EQ(got, sent_);
  }

  const nats_server server_{"max_control_line: 4096"};
  const std::shared_ptr<nats_mailbox> box_ = nats_mailbox::make();
  natsConnection* reads_ = nullptr;
  natsConnection* writes_ = nullptr;
  natsSubscription* all_ = nullptr;
  std::int64_t sent_ = 0;
};

TEST_F(FloodedMailbox, CountsSubjectsToo) {
  const std::string subject = "flood." + std::string(800, 's');
  publish(made_message(subject, "x"), 50'000);
  const std::size_t held = box_->take().messages.size();
  EXPECT_GT(held, 10'000U);
  EXPECT_LE(held * subject.size(), nats_mailbox::bytes_max);
  publish(made_message("flood.after", "x"), 2);
  EXPECT_GE(box_->take().messages.size(), 1U) << "there is room again";
}

TEST_F(FloodedMailbox, HoldsNothingThatIsLongerThanACarriersMessages) {
  natsMsg* headed = made_message("flood.a", "");
  ASSERT_EQ(natsMsgHeader_Set(headed, "X", std::string(900'000, 'h').c_str()), NATS_OK);
  publish(headed, 50);
  publish(made_message("flood." + std::string(2000, 's'), "x"), 50);
  publish(made_message("flood.a", std::string(carrier_message_max + 1, 'd')), 50);
  EXPECT_EQ(box_->take().messages.size(), 0U);
  publish(made_message("flood.a", std::string(carrier_message_max, 'd')), 2);
  EXPECT_GE(box_->take().messages.size(), 1U);
}

TEST_F(FloodedMailbox, KnowsAnAnswerOfTheServerByItsHeader) {
  natsMsg* nobody = made_message("flood.a", "");
  ASSERT_EQ(natsMsgHeader_Set(nobody, "Status", "503"), NATS_OK);
  publish(nobody, 2);
  const nats_news news = box_->take();
  ASSERT_GE(news.messages.size(), 1U);
  EXPECT_TRUE(natsMsg_IsNoResponders(news.messages.front().get()));
}

TEST(NatsMailbox, KeepsOpeningsApartAndNotMoreThanItMay) {
  ASSERT_EQ(nats_Open(-1), NATS_OK);  // as a connection does
  const auto box = nats_mailbox::make();
  ASSERT_NE(box, nullptr);
  const auto open = [&](const std::string& data) {
    nats_mailbox::on_opening(nullptr, nullptr, made_message("fleet.b", data), box->closure());
  };
  open(std::string(carrier_opening_max + 1, 'o'));
  EXPECT_FALSE(box->has_openings());
  for (std::size_t i = 0; i != nats_mailbox::openings_max + 100; ++i)
    open(std::to_string(i));
  nats_mailbox::on_message(nullptr, nullptr, made_message("inbox", "x"), box->closure());
  EXPECT_EQ(box->take().messages.size(), 1U);
  const auto first = box->take_openings(10);
  ASSERT_EQ(first.size(), 10U);
  EXPECT_STREQ(natsMsg_GetData(first.front().get()), "0");
  EXPECT_STREQ(natsMsg_GetData(first.back().get()), "9");
  EXPECT_EQ(box->take_openings(1'000'000).size(), nats_mailbox::openings_max - 10);
  EXPECT_FALSE(box->has_openings());
  open("again");
  box->renumber();
  EXPECT_FALSE(box->has_openings()) << "of the earlier connection";
}

TEST(OpeningPace, AllowsABurstAndThenOneForEachInterval) {
  opening_pace pace;
  opening_pace::time at = 5s;
  EXPECT_EQ(pace.allowed(at), opening_pace::burst);
  EXPECT_LE(pace.due_at(), at);
  pace.took(1000, at);
  EXPECT_EQ(pace.allowed(at), opening_pace::burst - 1000);
  pace.took(opening_pace::burst - 1000, at);
  EXPECT_EQ(pace.allowed(at), 0U);
  EXPECT_EQ(pace.due_at(), at + opening_pace::interval);
  at += opening_pace::interval - 1ns;
  EXPECT_EQ(pace.allowed(at), 0U);
  at += 1ns;
  EXPECT_EQ(pace.allowed(at), 1U);
  pace.took(1, at);
  EXPECT_EQ(pace.allowed(at), 0U);
  at += 10 * opening_pace::interval;
  EXPECT_EQ(pace.allowed(at), 10U);
  at += 1h;
  EXPECT_EQ(pace.allowed(at), opening_pace::burst) << "not more after a rest";
}

}  // namespace
}  // namespace atbus::detail
