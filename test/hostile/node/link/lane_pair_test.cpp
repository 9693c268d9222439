// Whoever opens a Unix connection to a node and offers lanes may hand over anything and say anything:
// what can't be used is refused, and costs that link alone.
#include <fcntl.h>
#include <sys/mman.h>

#include "channel/lane_handles.h"
#include "lane_party.h"
#include "node/link/pairing_record.h"
#include "system/fork_guard.h"
#include "unit/node/link/link_fixture.h"

namespace atbus::detail {
namespace {

// What a party hands over.
struct offering {
  std::uint32_t lane = 0;
  std::vector<file> descriptors = {};
};

// An inbox as it should be.
struct good_inbox {
  explicit good_inbox(std::uint32_t lanes = 2) {
    const fork_pause no_fork;
    auto made = make_handed_receiver(
        "party", {.lanes = lanes, .lane_size = 64 * 1024, .message_limit = 4096});
    EXPECT_TRUE(made) << made.error().text();
    state = *made;
  }
  good_inbox(const good_inbox&) = delete;
  good_inbox& operator=(const good_inbox&) = delete;
  ~good_inbox() { state->release(); }
  [[nodiscard]] offering hand_out(std::uint32_t lane = 0) const {
    auto ends = state->hand_out(lane);
    EXPECT_TRUE(ends) << ends.error().text();
    offering of{lane, {}};
    of.descriptors.push_back(std::move(ends->segment));
    of.descriptors.push_back(std::move(ends->bell));
    return of;
  }
  receiver_state* state = nullptr;
};

constexpr int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Another memfd with the same bytes, changed.
file forge(int segment, int seals, const std::function<void(std::vector<char>&)>& change) {
  std::vector<char> bytes(static_cast<std::size_t>(lseek(segment, 0, SEEK_END)));
  EXPECT_EQ(pread(segment, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  change(bytes);
  file made{memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  EXPECT_EQ(fchmod(made.get(), 0600), 0);
  EXPECT_EQ(pwrite(made.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(fcntl(made.get(), F_ADD_SEALS, seals), 0);
  return made;
}

struct bad_offer {
  const char* name;
  void (*spoil)(offering&);
};
void PrintTo(const bad_offer& of, std::ostream* out) {
  *out << of.name;
}

template <class Change>
void exchange_segment(offering& of, int seals, Change change) {
  of.descriptors[0] = forge(of.descriptors[0].get(), seals, change);
}

const bad_offer bad_offers[] = {
    {"no_descriptors", [](offering& of) { of.descriptors.clear(); }},
    {"no_bell", [](offering& of) { of.descriptors.pop_back(); }},
    {"no_such_lane", [](offering& of) { of.lane = 2; }},
    {"not_sealed", [](offering& of) { exchange_segment(of, 0, [](auto&) {}); }},
    {"may_shrink",
     [](offering& of) { exchange_segment(of, F_SEAL_GROW | F_SEAL_SEAL, [](auto&) {}); }},
    {"not_writable",
     [](offering& of) { exchange_segment(of, sealed | F_SEAL_WRITE, [](auto&) {}); }},
    {"too_small",
     [](offering& of) {
       exchange_segment(of, sealed, [](auto& bytes) { bytes.resize(bytes.size() - 4096); });
     }},
    {"header_alone",
     [](offering& of) { exchange_segment(of, sealed, [](auto& bytes) { bytes.resize(4096); }); }},
    {"empty",
     [](offering& of) { exchange_segment(of, sealed, [](auto& bytes) { bytes.clear(); }); }},
    {"other_lane_size",
     [](offering& of) {
       exchange_segment(of, sealed,
                        [](auto& bytes) { bytes[offsetof(segment_identity, lane_size) + 2] = 2; });
     }},
    {"no_lanes",
     [](offering& of) {
       exchange_segment(of, sealed,
                        [](auto& bytes) { bytes[offsetof(segment_identity, lane_count)] = 0; });
     }},
    {"no_segment",
     [](offering& of) { exchange_segment(of, sealed, [](auto& bytes) { bytes[0] = 'x'; }); }},
    {"lane_in_use",
     [](offering& of) {
       exchange_segment(of, sealed,
                        [](auto& bytes) { bytes[4096 + offsetof(lane_slot, quarantined)] = 1; });
     }},
    {"impossible_positions",
     [](offering& of) { exchange_segment(of, sealed, [](auto& bytes) { bytes[4096 + 3] = 1; }); }},
    {"device",
     [](offering& of) { of.descriptors[0] = file{::open("/dev/zero", O_RDWR | O_CLOEXEC)}; }},
    {"directory",
     [](offering& of) { of.descriptors[0] = file{::open("/", O_RDONLY | O_CLOEXEC)}; }},
};

class LanePair : public ::testing::Test {
 protected:
  void SetUp() override {
    setting.directory = directory.path();
    end = make(1);
    where = end->listen("unix://" + directory.path() + "/socket");
  }
  std::unique_ptr<recorded_end> make(std::uint64_t id) {
    return std::make_unique<recorded_end>(make_both(setting), node_instance{id, 1});
  }
  static bool turn(recorded_end& one, test::lane_party& party, const std::function<bool()>& done) {
    return turn_until({&one}, [&] {
      party.hear();
      return done();
    });
  }
  static void say(test::lane_party& party, const offering& what) {
    std::vector<int> descriptors;
    for (const file& one : what.descriptors)
      descriptors.push_back(one.get());
    party.say_lane(what.lane, std::move(descriptors));
  }
  // A party that has dialled and was offered a lane.
  test::lane_party offered() {
    auto party = test::lane_party::dial(where);
    party.say_hello();
    EXPECT_TRUE(turn(*end, party, [&] { return !party.lanes.empty(); }));
    EXPECT_NE(party.lanes.at(0), no_lane);
    return party;
  }
  // Whoever behaves is served.
  void others_are_served() {
    auto other = make(3);
    other->connect(where);
    ASSERT_TRUE(turn_until({end.get(), other.get()}, [&] { return other->count("opened") == 1; }));
    EXPECT_EQ(other->last->kind(), link_kind::lanes);
    end->messages.clear();
    ASSERT_TRUE(send(*other->last, "fine"));
    ASSERT_TRUE(turn_until({end.get(), other.get()}, [&] { return end->messages.size() == 1; }));
  }

  test::scratch_directory directory;
  link_setting setting;
  std::unique_ptr<recorded_end> end;
  std::string where;
};

class LanePairOffer : public LanePair, public ::testing::WithParamInterface<bad_offer> {};

TEST_P(LanePairOffer, OfADiallerThatCantBeUsedLeavesTheSocket) {
  const good_inbox inbox;
  auto party = offered();
  offering what = inbox.hand_out();
  GetParam().spoil(what);
  say(party, what);
  ASSERT_TRUE(turn(*end, party, [&] { return end->count("accepted") == 1; }));
  EXPECT_EQ(end->last->kind(), link_kind::unix_socket);
  EXPECT_EQ(party.lanes.back(), no_lane);
  EXPECT_FALSE(party.switched);
  party.say(data_frame(as_bytes("through the socket"), true));
  ASSERT_TRUE(turn(*end, party, [&] { return end->messages.size() == 1; }));
  EXPECT_EQ(end->count("problem"), 1U);
  others_are_served();
}

TEST_P(LanePairOffer, OfAListenerThatCantBeUsedLeavesTheSocket) {
  const good_inbox inbox;
  const test::plain_listener listener{"unix://@atbus-party-" + std::to_string(getpid())};
  end->connect(listener.address());
  end->poll();
  test::lane_party party{listener.accept()};
  party.say_hello();
  offering what = inbox.hand_out();
  GetParam().spoil(what);
  say(party, what);
  ASSERT_TRUE(turn(*end, party, [&] { return end->count("opened") == 1; }));
  EXPECT_EQ(end->last->kind(), link_kind::unix_socket);
  party.say(data_frame(as_bytes("through the socket"), true));
  ASSERT_TRUE(turn(*end, party, [&] { return end->messages.size() == 1 && !party.lanes.empty(); }));
  EXPECT_EQ(party.lanes.back(), no_lane);
  EXPECT_EQ(end->count("problem"), 1U);
  others_are_served();
}

INSTANTIATE_TEST_SUITE_P(Bad, LanePairOffer, ::testing::ValuesIn(bad_offers),
                         [](const auto& of) { return of.param.name; });

// --- the order

using words = void (*)(test::lane_party&);

const std::pair<const char*, words> out_of_order[] = {
    {"switch", [](test::lane_party& party) { party.say(switch_frame(true)); }},
    {"message", [](test::lane_party& party) { party.say(data_frame(as_bytes("early"), true)); }},
    {"hello", [](test::lane_party& party) { party.say_hello(); }},
    {"garbage",
     [](test::lane_party& party) {
       std::mt19937 random{7};
       std::vector<std::byte> bytes(1000);
       for (std::byte& one : bytes)
         one = static_cast<std::byte>(random());
       party.say(bytes);
     }},
};

TEST_F(LanePair, ADiallerThatBreaksTheOrderIsClosed) {
  for (const auto& [name, break_it] : out_of_order) {
    auto party = offered();
    break_it(party);
    ASSERT_TRUE(turn(*end, party, [&] { return party.ended; })) << name;
    EXPECT_EQ(end->count("accepted"), 0U) << name;
  }
  EXPECT_EQ(end->find("problem").why, errc::protocol_error);
  others_are_served();
}

TEST_F(LanePair, AListenerThatBreaksTheOrderIsClosed) {
  const good_inbox inbox{8};
  std::size_t closed = 0;
  const auto with_listener = [&](const char* name, bool takes_ours, words break_it) {
    const test::plain_listener listener{"unix://@atbus-party-" + std::to_string(getpid())};
    end->connect(listener.address());
    end->poll();
    test::lane_party party{listener.accept()};
    party.say_hello();
    if (takes_ours) {
      say(party, inbox.hand_out(static_cast<std::uint32_t>(closed)));
      ASSERT_TRUE(turn(*end, party, [&] { return !party.lanes.empty(); })) << name;
      ASSERT_NE(party.lanes[0], no_lane);
    }
    break_it(party);
    ++closed;
    ASSERT_TRUE(turn(*end, party, [&] { return end->count("closed") == closed; })) << name;
    EXPECT_EQ(end->events.back().why, errc::protocol_error) << name << end->events.back().text;
  };
  for (const auto& [name, break_it] : out_of_order)
    with_listener(name, false, break_it);
  with_listener("second lane", true, [](test::lane_party& party) { party.say_lane(0); });
  with_listener("message", true, out_of_order[1].second);
  EXPECT_EQ(end->count("opened"), 0U);
  others_are_served();
}

TEST_F(LanePair, ADiallerThatNeverAnnouncesItselfIsClosed) {
  const good_inbox inbox;
  auto party = offered();
  say(party, inbox.hand_out());
  ASSERT_TRUE(turn(*end, party, [&] { return party.ended; }));
  EXPECT_EQ(end->count("accepted"), 0U);
  EXPECT_EQ(end->find("problem").why, errc::protocol_error) << end->find("problem").text;
  others_are_served();
}

// --- in the lanes

// A party whose link is open, and the whole of the inbox that it was handed a lane of.
class LanePairOpen : public LanePair {
 protected:
  void SetUp() override {
    LanePair::SetUp();
    party.emplace(offered());
    auto whole = adopt_segment(file{fcntl(party->segment.get(), F_DUPFD_CLOEXEC, 0)}, "theirs");
    ASSERT_TRUE(whole) << whole.error().text();
    theirs.emplace(std::move(*whole));
    auto made = [&] {
      const fork_pause no_fork;
      return make_handed_sender(std::move(party->segment), std::move(party->bell), "theirs",
                                party->lanes[0], {});
    }();
    ASSERT_TRUE(made) << made.error().text();
    out.emplace(lane_handles::to_sender(*made));
    ASSERT_TRUE((*made)->start());
    const offering ours = inbox.hand_out();
    own = file{fcntl(ours.descriptors[0].get(), F_DUPFD_CLOEXEC, 0)};
    say(*party, ours);
    ASSERT_TRUE(turn(*end, *party, [&] { return end->count("accepted") == 1; }));
    EXPECT_EQ(end->last->kind(), link_kind::lanes);
    ASSERT_TRUE(turn(*end, *party, [&] { return party->switched; }));
  }
  [[nodiscard]] lane_slot& slot() const { return theirs->slot(party->lanes[0]); }

  good_inbox inbox;
  std::optional<test::lane_party> party;
  std::optional<segment> theirs;
  file own;                   // the segment that the other end sends to
  std::optional<sender> out;  // to it
};

TEST_F(LanePairOpen, ImpossiblePositionsEndThatLane) {
  slot().tail.store(slot().tail.load() + 3);
  theirs->header().ready[0].store(~std::uint64_t{0});
  ASSERT_TRUE(turn(*end, *party, [&] { return end->count("problem") == 1; }));
  EXPECT_EQ(end->find("problem").why, errc::quarantined);
  others_are_served();
  out.reset();
  ASSERT_TRUE(turn(*end, *party, [&] { return end->count("closed") >= 1; }));
}

TEST_F(LanePairOpen, APairingRecordEndsTheLink) {
  const pairing_record call{
      .kind = pairing_kind::call, .durable = false, .token = 1, .address = where};
  ASSERT_TRUE(out->send(to_bytes(call)));
  ASSERT_TRUE(turn(*end, *party, [&] { return end->count("closed") == 1; }));
  EXPECT_EQ(end->find("closed").why, errc::protocol_error);
  EXPECT_EQ(end->count("accepted"), 1U);
  others_are_served();
}

TEST_F(LanePairOpen, AnImpossibleHeadEndsWhatIsSentThere) {
  auto whole = adopt_segment(std::move(own), "own");
  ASSERT_TRUE(whole) << whole.error().text();
  whole->slot(0).head.store(3);
  status s;
  for (int i = 0; i != 1000 && (s = send(*end->last, std::string(1000, 'x'))); ++i) {
  }
  EXPECT_EQ(s, errc::closed);
  others_are_served();
}

TEST_F(LanePairOpen, BytesThatAreNoRecordEndThatLane) {
  std::mt19937_64 random{7};
  const std::uint64_t at = slot().tail.load() & (theirs->geometry.lane_size - 1);
  ASSERT_TRUE(map_lane(*theirs, party->lanes[0]));
  std::byte* const data = theirs->lane_data(party->lanes[0]);
  const std::uint64_t word = random();
  std::memcpy(data + at, &word, sizeof word);
  slot().tail.store(slot().tail.load() + 64);
  theirs->header().ready[0].store(~std::uint64_t{0});
  ASSERT_TRUE(turn(*end, *party, [&] { return end->count("problem") == 1; }));
  EXPECT_EQ(end->find("problem").why, errc::quarantined);
  EXPECT_EQ(end->messages.size(), 0U);
  others_are_served();
}

}  // namespace
}  // namespace atbus::detail
