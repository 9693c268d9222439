#include "atbus/status.hpp"

#include <set>
#include <system_error>

#include "test.h"

namespace atbus {
namespace {

// Everything about a status can be decided by the compiler.
static_assert(status{});
static_assert(!status{errc::closed});
static_assert(status{errc::no_space, 7, 8}.fact(1) == 8);
static_assert(status{errc::closed} == errc::closed && errc::ok != status{errc::closed});

errc code_at(std::size_t index) {
  return static_cast<errc>(index);
}

TEST(Errc, HasANameOfItsOwnForEachCode) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < errc_count; ++i)
    names.insert(name(code_at(i)));
  EXPECT_EQ(names.size(), errc_count);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(Errc, IsFoundByItsName) {
  for (std::size_t i = 0; i < errc_count; ++i) {
    EXPECT_EQ(find_errc(name(code_at(i))), code_at(i));
  }
  EXPECT_EQ(name(errc::would_block), "would_block");
}

TEST(Errc, IsNotFoundByAnotherName) {
  EXPECT_EQ(find_errc("no_such_code"), std::nullopt);
  EXPECT_EQ(find_errc(""), std::nullopt);
  EXPECT_EQ(find_errc("unknown"), std::nullopt);
}

TEST(Errc, ExplainsWhatHappenedAndWhatToDoNext) {
  for (std::size_t i = 0; i < errc_count; ++i) {
    const std::string_view text = explain(code_at(i));
    EXPECT_NE(text.find(". "), text.npos) << name(code_at(i)) << " has only one sentence";
    EXPECT_TRUE(text.ends_with('.')) << name(code_at(i));
  }
}

TEST(Errc, OutsideTheListIsUnknown) {
  EXPECT_EQ(name(code_at(errc_count)), "unknown");
  EXPECT_EQ(name(code_at(65535)), "unknown");
  EXPECT_NE(explain(code_at(65535)), explain(errc::ok));
}

TEST(ErrorCode, BelongsToTheCategoryAtbus) {
  const std::error_code code = errc::no_route;
  EXPECT_EQ(&code.category(), &category());
  EXPECT_STREQ(code.category().name(), "atbus");
  EXPECT_EQ(code.message(), explain(errc::no_route));
}

TEST(ErrorCode, EqualsThePosixConditionOfTheSameMeaning) {
  EXPECT_EQ(make_error_code(errc::would_block), std::errc::operation_would_block);
  EXPECT_EQ(make_error_code(errc::no_space), std::errc::no_space_on_device);
  EXPECT_EQ(make_error_code(errc::denied), std::errc::permission_denied);
  EXPECT_NE(make_error_code(errc::retired), std::errc::permission_denied);
}

TEST(ErrorCode, OfAnUnknownValueHasAMessageToo) {
  EXPECT_EQ(category().message(-1), explain(code_at(errc_count)));
  EXPECT_EQ(category().message(1 << 20), explain(code_at(errc_count)));
}

TEST(ErrorCode, OfOkIsFalse) {
  EXPECT_FALSE(make_error_code(errc::ok));
}

TEST(Status, IsOkByDefault) {
  const status s;
  EXPECT_TRUE(s);
  EXPECT_EQ(s, errc::ok);
  EXPECT_EQ(s.fact_count(), 0U);
}

TEST(Status, ComparesCodeAndFacts) {
  EXPECT_EQ((status{errc::no_space, 1, 2}), (status{errc::no_space, 1, 2}));
  EXPECT_NE((status{errc::no_space, 1, 2}), (status{errc::no_space, 1, 3}));
  EXPECT_NE((status{errc::hop_limit, 0}), status{errc::hop_limit});
}

TEST(Status, ConvertsToAnErrorCode) {
  const std::error_code code = status{errc::timed_out, 5};
  EXPECT_EQ(code, errc::timed_out);
  EXPECT_EQ((status{errc::would_block, 5, 4}), std::errc::operation_would_block);
}

TEST(Status, TextHoldsTheFactsInsideTheFirstSentence) {
  const std::string text = status{errc::message_too_large, 70000, 65536}.text();
  const auto facts = text.find(" (message bytes 70000, limit 65536). ");
  ASSERT_NE(facts, text.npos) << text;
  EXPECT_EQ(text.find(". "), text.find("). ") + 1) << text;
}

TEST(Status, TextLeavesOutFactsThatWereNotGiven) {
  EXPECT_EQ(status{errc::message_too_large}.text(), explain(errc::message_too_large));
  EXPECT_NE((status{errc::hop_limit, 7}.text().find("(destination 7).")), std::string::npos);
}

TEST(Status, TextShowsAFactThatIsZero) {
  EXPECT_NE((status{errc::would_block, 64, 0}.text().find("free bytes 0")), std::string::npos);
}

TEST(Status, TextLeavesOutFactsThatTheCodeDoesNotUse) {
  EXPECT_EQ((status{errc::closed, 1, 2}.text()), explain(errc::closed));
}

TEST(Status, TextOfASystemErrorHoldsTheSystemsWords) {
  const std::string text = status{errc::system_error, ENOSPC}.text();
  EXPECT_NE(text.find(std::generic_category().message(ENOSPC)), text.npos) << text;
}

TEST(Status, TextOfAnUnknownCodeSaysSo) {
  EXPECT_EQ((status{code_at(errc_count), 1, 2}.text()), explain(code_at(errc_count)));
}

TEST(Status, PrintsOneLineToStandardErrorOnly) {
  const status s{errc::no_route, 7};
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  s.print();
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "atbus: no_route: " + s.text() + "\n");
}

TEST(Error, IsNoErrorByDefault) {
  const error e;
  EXPECT_TRUE(e);
  EXPECT_EQ(e, errc::ok);
  EXPECT_EQ(e.text(), "");
}

TEST(Error, WithoutASentenceHasThatOfItsCode) {
  const char* const none = nullptr;
  for (const error& e : {error{errc::closed}, error{errc::closed, {}, 0}, error{errc::closed, none},
                         error{errc::closed, std::string{}}})
    EXPECT_EQ(e.text(), explain(errc::closed));
}

TEST(Error, KeepsItsSentence) {
  const error e{errc::invalid_name, "name 'a/b' holds a slash"};
  EXPECT_FALSE(e);
  EXPECT_EQ(e, errc::invalid_name);
  EXPECT_EQ(e.text(), "name 'a/b' holds a slash");
  EXPECT_EQ(e.system_code(), 0);
}

TEST(Error, WithoutASentenceExplainsItsCode) {
  EXPECT_EQ(error{errc::retired}.text(), explain(errc::retired));
}

TEST(Error, AddsTheSystemsWordsForItsErrno) {
  const error e{errc::system_error, "can't open /x", EACCES};
  EXPECT_EQ(e.system_code(), EACCES);
  EXPECT_EQ(e.text(), "can't open /x (errno " + std::to_string(EACCES) + ": " +
                          std::generic_category().message(EACCES) + ")");
}

TEST(Error, TakesOverAStatusWithItsFacts) {
  const status s{errc::no_space, 4096, 10};
  const error e = s;
  EXPECT_EQ(e, errc::no_space);
  EXPECT_EQ(e.text(), s.text());
  EXPECT_EQ(e.system_code(), 0);
}

TEST(Error, TakesOverTheErrnoOfAStatus) {
  EXPECT_EQ((error{status{errc::system_error, ENOENT}}.system_code()), ENOENT);
}

TEST(Error, ConvertsToAnErrorCode) {
  const std::error_code code = error{errc::not_found, "no segment 'x'"};
  EXPECT_EQ(code, errc::not_found);
}

TEST(Error, PrintsOneLineToStandardErrorOnly) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  error{errc::denied, "bad token"}.print();
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "atbus: denied: bad token\n");
}

result<std::unique_ptr<int>> make_pointer(bool works) {
  if (!works)
    return error{errc::out_of_memory, "no int left"};
  return std::make_unique<int>(42);
}

TEST(Result, HoldsAValueThatCanOnlyBeMoved) {
  auto r = make_pointer(true);
  ASSERT_TRUE(r);
  EXPECT_EQ(**r, 42);
  const std::unique_ptr<int> taken = *std::move(r);
  EXPECT_EQ(*taken, 42);
}

TEST(Result, HoldsTheErrorInstead) {
  const auto r = make_pointer(false);
  EXPECT_FALSE(r);
  EXPECT_EQ(r.error(), errc::out_of_memory);
  EXPECT_EQ(r.error().text(), "no int left");
}

TEST(Result, WithAValueHasNoError) {
  const result<int> r = 5;
  EXPECT_TRUE(r.error());
  EXPECT_EQ(r.value(), 5);
}

TEST(Result, GivesAccessToTheMembersOfItsValue) {
  result<std::string> r = std::string{"abc"};
  EXPECT_EQ(r->size(), 3U);
  r->push_back('d');
  EXPECT_EQ(*r, "abcd");
}

TEST(Result, PassesItsErrorOn) {
  const auto outer = []() -> result<std::string> {
    auto inner = make_pointer(false);
    if (!inner)
      return std::move(inner).error();
    return std::string{"unreached"};
  }();
  EXPECT_EQ(outer.error().text(), "no int left");
}

TEST(Result, OfAFunctionThatReturnsAStatusIsItsError) {
  const result<int> r = error{status{errc::closed}};
  EXPECT_EQ(r.error(), errc::closed);
}

#ifndef NDEBUG
TEST(ResultDeathTest, AssertsWhenAMissingValueIsRead) {
  const result<int> r = error{errc::closed};
  EXPECT_DEATH(static_cast<void>(r.value()), "has_value");
}
#endif

}  // namespace
}  // namespace atbus
