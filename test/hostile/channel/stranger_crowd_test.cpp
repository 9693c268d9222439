// Crowds of strangers at a receiver, each with one habit, plain and encrypted: the receiver's memory stays
// bounded and is given back, each stranger is closed and counted, and honest senders beside them lose nothing.
//
// ATBUS_HOSTILE_CONNECTIONS=10000 build/release/bin/hostile_channel_test --gtest_filter='*StrangerCrowd*'
// prints what they cost.
#include "stranger_crowd.h"
#include "sanitizer.h"

#include <malloc.h>
#include <unistd.h>

#include "atbus/atbus.hpp"
#include "numbered_inbox.h"
#include "scratch_directory.h"
#include "stream_bytes.h"
#include "test.h"
#include "unit/tls/test_certificate.h"

namespace atbus::test {
namespace {

constexpr std::string_view crowd_secret = "a secret that no stranger has";
constexpr std::size_t unconfirmed_most = 100;
constexpr std::size_t most_memory = std::size_t{unconfirmed_most} * 128 * 1024;
constexpr std::size_t memory_noise = std::size_t{24} << 20;

std::string text_of_stream(const detail::byte_string& bytes) {
  return std::string{as_text(bytes)};
}
std::string stranger_hello() {
  return text_of_stream(detail::opened_stream(true));
}
// Announces the longest message that a frame can have.
std::string largest_frame() {
  std::array<std::byte, 8> head{};
  detail::store_little_endian<std::uint32_t>(
      head.data(), detail::make_frame_word(detail::frame_kind::data, detail::frame_payload_max) |
                       detail::frame_checked_bit);
  return stranger_hello() + std::string{as_text(head)};
}
// A record with a handshake message that announces 16 MiB.
std::string largest_record() {
  return std::string("\x16\x03\x01\x40\x00\x01\xff\xff\xff", 9) + std::string(16'000, 'x');
}
// What an honest sender with TLS says first.
std::string recorded_beginning() {
  const plain_listener there{"ipv4://127.0.0.1:0"};
  auto honest =
      sender::open(there.address(), {.socket = {.tls = *tls_credentials::from_token(crowd_secret)},
                                     .connect_timeout = 0ns,
                                     .linger = 0ns});
  plain_socket heard = there.accept();
  (void)honest->send(as_bytes("x"));
  return heard.receive_some();
}

struct crowd_case {
  const char* name;
  std::string where;
  bool encrypted = false;
  std::function<stranger_habits()> habits = {};

  friend void PrintTo(const crowd_case& of, std::ostream* out) { *out << of.name; }
};

class StrangerCrowd : public ::testing::TestWithParam<crowd_case> {
 protected:
  static constexpr std::uint32_t honest = 1;

  void open(const socket_options& sockets) {
    sockets_ = sockets;
    std::string where = GetParam().where;
    if (where == "unix")
      where = "unix://@stranger-crowd-" + std::to_string(getpid()) + "?shm=0";
    auto opened = receiver::open(where, {.socket = sockets,
                                         .backlog = 1024,
                                         .connections = 20'000,
                                         .unconfirmed = unconfirmed_most,
                                         .confirm_timeout = 2s,
                                         .strangers = {.first_byte_timeout = 1s}});
    ASSERT_TRUE(opened) << opened.error().text();
    inbox_ = std::make_unique<numbered_inbox>(std::move(*opened));
    beside_ = dial();
    ASSERT_TRUE(inbox_->carry(*beside_, honest, 1, 1));
    sent_ = 1;
  }
  std::unique_ptr<sender> dial() {
    auto made = sender::open((*inbox_)->address(), {.socket = sockets_, .connect_timeout = 0ns});
    EXPECT_TRUE(made) << made.error().text();
    return std::make_unique<sender>(std::move(*made));
  }
  // Of the honest one, as many as a busy program sends in a turn. The inbox remembers each.
  void some_more() {
    const std::uint64_t most = sent_ < 500'000 ? 200 : 1;
    for (std::uint64_t i = 0; i != most && send_number(*beside_, honest, sent_ + 1, 200); ++i)
      ++sent_;
    (void)beside_->flush();
    most_resident_ = std::max(most_resident_, resident_bytes_now_and_then());
  }
  std::size_t resident_bytes_now_and_then() { return ++turns_ % 100 == 0 ? resident_bytes() : 0; }
  template <class Done>
  [[nodiscard]] bool meanwhile(Done&& done, std::chrono::nanoseconds longest = 120s) {
    return inbox_->until(
        done, [this] { some_more(); }, longest);
  }
  // Messages of the honest one per second.
  template <class Done>
  [[nodiscard]] double rate_until(Done&& done) {
    const auto begin = now();
    const std::uint64_t before = sent_;
    EXPECT_TRUE(meanwhile(done));
    return static_cast<double>(sent_ - before) /
           std::chrono::duration<double>(now() - begin).count();
  }
  [[nodiscard]] std::uint64_t ended() {
    const channel_stats seen = (*inbox_)->stats();
    return seen.unconfirmed_dropped + seen.quarantined + seen.tls_failed;
  }

  socket_options sockets_;
  std::unique_ptr<numbered_inbox> inbox_;
  std::unique_ptr<sender> beside_;
  std::uint64_t sent_ = 0;
  std::uint64_t turns_ = 0;
  std::size_t most_resident_ = 0;
};

// With certificates from one authority, and strangers with others.
class party_of_certificates {
 public:
  party_of_certificates() {
    own_.write(file("own.pem"));
    own_.write_key(file("own.key"));
    authority_.write(file("authority.pem"));
  }
  [[nodiscard]] tls_credentials credentials() const {
    return tls_credentials::from_files({.chain = file("own.pem"),
                                        .key = file("own.key"),
                                        .authority = file("authority.pem")})
        .value();
  }
  [[nodiscard]] const test_certificate& authority() const { return authority_; }

 private:
  [[nodiscard]] std::string file(const char* name) const { return folder_.path() + "/" + name; }

  scratch_directory folder_;
  test_certificate authority_{{.common_name = "authority", .is_authority = true}};
  test_certificate own_{{.alternative_names = "IP:127.0.0.1"}, &authority_};
};

party_of_certificates& the_party() {
  static party_of_certificates party;
  return party;
}

SSL_CTX* client_with(const test_certificate& shown) {
  SSL_CTX* const made = SSL_CTX_new(TLS_client_method());
  SSL_CTX_use_certificate(made, shown.get());
  SSL_CTX_use_PrivateKey(made, shown.key());
  return made;
}
stranger_habits shows(const certificate_wish& wish, bool foreign = false) {
  const test_certificate other{{.common_name = "other", .is_authority = true}};
  return {.session =
              client_with(test_certificate{wish, foreign ? &other : &the_party().authority()})};
}

TEST_P(StrangerCrowd, IsWeathered) {
  const std::size_t count = crowd_size();
  if (!may_open_descriptors(count + 1000))
    GTEST_SKIP() << "too few descriptors are allowed (ulimit -Hn)";
  const bool by_certificate = std::string_view{GetParam().name}.starts_with("certificate");
  socket_options sockets;
  if (GetParam().encrypted)
    sockets.tls =
        by_certificate ? the_party().credentials() : *tls_credentials::from_token(crowd_secret);
  ASSERT_NO_FATAL_FAILURE(open(sockets));
  const auto quiet_until = now() + 200ms;
  const double quiet = rate_until([&] { return now() > quiet_until; });
  const std::size_t before = most_resident_ = resident_bytes();
  const stranger_habits habits = GetParam().habits();
  const auto begin = now();
  double beside = 0;
  {
    const stranger_crowd crowd{(*inbox_)->address(), count, habits};
    beside = rate_until([&] { return ended() > count / 2 || crowd.all_came(); });
    // An honest one that comes now is let in.
    const auto late = dial();
    EXPECT_TRUE(inbox_->carry(*late, 2, 1, 20));
    EXPECT_TRUE(inbox_->until_number(*late, 2, 20));
    EXPECT_TRUE(meanwhile([&] { return crowd.all_came(); }));
    EXPECT_TRUE(meanwhile([&] { return ended() == count; }))
        << ended() << " of " << count << " are closed and counted";
    EXPECT_EQ((*inbox_)->stats().connections, 2U);
  }
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(now() - begin);
  SSL_CTX_free(habits.session);
  EXPECT_TRUE(inbox_->until_number(*beside_, honest, sent_));
  EXPECT_EQ(inbox_->of(honest), numbered_inbox::all_up_to(sent_));
  EXPECT_EQ(inbox_->corrupt(), 0U);
  malloc_trim(0);
  const std::size_t after = resident_bytes();
  if (!test::has_sanitizer) {  // which keeps memory that was given back
    EXPECT_LE(most_resident_, before + most_memory + memory_noise);
    EXPECT_LE(after, before + memory_noise);
  }
  EXPECT_FALSE(inbox_->problems().empty());
  const channel_stats seen = (*inbox_)->stats();
  std::printf(
      "%zu in %lld ms; honest msg/s: quiet %.0f, beside %.0f; MiB: before %zu, most %zu, "
      "after %zu; crowded %llu silent %llu late %llu delayed %llu faulty %llu tls %llu\n",
      count, static_cast<long long>(took.count()), quiet, beside, before >> 20,
      most_resident_ >> 20, after >> 20, static_cast<unsigned long long>(seen.strangers.crowded),
      static_cast<unsigned long long>(seen.strangers.silent),
      static_cast<unsigned long long>(seen.strangers.late),
      static_cast<unsigned long long>(seen.strangers.delayed),
      static_cast<unsigned long long>(seen.quarantined),
      static_cast<unsigned long long>(seen.tls_failed));
}

constexpr const char* over_tcp = "ipv4://127.0.0.1:0";

std::vector<crowd_case> crowd_cases() {
  const auto say = [](std::string (*what)()) {
    return [what] { return stranger_habits{.opening = what()}; };
  };
  const auto slowly = [](std::string (*what)()) {
    return [what] {
      std::string all = what();
      all.pop_back();  // it never becomes known
      return stranger_habits{.by_bytes = std::move(all)};
    };
  };
  const auto nothing = [] { return stranger_habits{}; };
  const auto twice = [] { return stranger_habits{.opening = stranger_hello() + stranger_hello()}; };
  const auto back = [](std::string (*what)()) {
    return [what] { return stranger_habits{.opening = what(), .reflects = true}; };
  };
  return {
      {"silent", over_tcp, false, nothing},
      {"slow", over_tcp, false, slowly(stranger_hello)},
      {"largest", over_tcp, false, say(largest_frame)},
      {"twice", over_tcp, false, twice},
      {"reflecting", over_tcp, false, back(stranger_hello)},
      {"encrypted", over_tcp, false, say(recorded_beginning)},
      {"unix_silent", "unix", false, nothing},
      {"unix_files", "unix", false,
       [] { return stranger_habits{.opening = "no hello", .sends_files = true}; }},
      {"tls_silent", over_tcp, true, nothing},
      {"tls_slow", over_tcp, true, slowly(recorded_beginning)},
      {"tls_largest", over_tcp, true, say(largest_record)},
      {"tls_replayed", over_tcp, true, say(recorded_beginning)},
      {"tls_reflecting", over_tcp, true, back(recorded_beginning)},
      {"tls_downgraded", over_tcp, true, say(stranger_hello)},
      {"certificate_expired", over_tcp, true,
       [] { return shows({.begins_s = -7200, .ends_s = -3600}); }},
      {"certificate_foreign", over_tcp, true, [] { return shows({}, true); }},
      {"certificate_huge", over_tcp, true, [] { return shows({.padding = 60'000}); }},
  };
}

INSTANTIATE_TEST_SUITE_P(Channel, StrangerCrowd, ::testing::ValuesIn(crowd_cases()),
                         [](const auto& tested) { return std::string{tested.param.name}; });

}  // namespace
}  // namespace atbus::test
