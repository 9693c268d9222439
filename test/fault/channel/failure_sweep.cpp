#include "failure_sweep.h"

#include "scratch_directory.h"
#include "test.h"

namespace atbus::test {
namespace {

// What a connection can't survive.
bool ends_connections(std::string_view entry, int code) {
  const bool moves_bytes = entry.starts_with("send") || entry.starts_with("recv");
  const bool passes = code == EINTR || code == EAGAIN || code == ENOBUFS || code == ENOMEM;
  return entry == "epoll_ctl" || (moves_bytes && !passes);
}

// All errors of the sockets' own calls. Nobody tells those of the others apart, so two of them will do
// (the tests of lanes try all).
std::vector<int> codes_of(const failing_entry& entry) {
  std::vector<int> codes = entry.codes;
  if (entry.more_codes.empty() && codes.size() > 2)
    codes = {codes.front(), codes.back()};
  codes.insert(codes.end(), entry.more_codes.begin(), entry.more_codes.end());
  return codes;
}

// Returns what was called.
std::vector<call_record> live_once(const failing_kernel& kernel, const lifecycle_script& live,
                                   const std::function<void()>& begin, std::string_view entry = {},
                                   int code = 0) {
  const std::size_t descriptors = open_descriptors();
  std::vector<call_record> seen;
  lifecycle_report report;
  EXPECT_NO_THROW(report = live(begin));
  EXPECT_LT(failing_kernel::calls(), most_calls) << "somebody spins";
  for (const failing_entry& one : failing_entries())
    seen.push_back(*one.record);
  kernel.restart();
  if (entry != "unlinkat" && entry != "fstatat") {
    EXPECT_TRUE(report.files.empty()) << report.files.front();
  }
  if (!ends_connections(entry, code)) {
    EXPECT_EQ(report.missing, 0U) << "accepted and lost";
    EXPECT_EQ(report.lost_connections, 0U);
  }
  EXPECT_EQ(open_descriptors(), descriptors) << "a descriptor was left open";
  return seen;
}

}  // namespace

void survive_each_failure(const failing_kernel& kernel, const lifecycle_script& live) {
  const std::vector<call_record> usual = live_once(kernel, live, [&] { kernel.restart(); });
  ASSERT_FALSE(::testing::Test::HasFailure()) << "without any failing call";
  unsigned runs = 0;
  for (std::size_t i = 0; i < usual.size(); ++i) {
    if (usual[i].calls == 0)
      continue;
    const failing_entry& entry = failing_entries()[i];
    for (const int code : codes_of(entry)) {
      for (unsigned nth = 1;; ++nth) {
        SCOPED_TRACE(std::string{entry.name} + ", call " + std::to_string(nth) + ": " +
                     strerrorname_np(code));
        const auto begin = [&] { kernel.arm(entry, nth, code); };
        if (!live_once(kernel, live, begin, entry.name, code)[i].failed)
          break;
        ++runs;
      }
    }
  }
  EXPECT_GT(runs, 100U);
}

void survive_short_calls(const failing_kernel& kernel, const lifecycle_script& live) {
  for (const std::size_t bytes : {5U, 100U, 513U}) {
    SCOPED_TRACE(bytes);
    live_once(kernel, live, [&] {
      kernel.restart();
      kernel.shorten(bytes);
    });
  }
}

void live_without_memory(const std::function<unsigned(const failing_entry&, int code)>& live) {
  // Who spins makes as many in a millisecond.
  constexpr unsigned most_calls_without_memory = 1000;
  for (const failing_entry& entry : failing_entries()) {
    if (entry.name != "sendmsg" && entry.name != "recv")
      continue;
    for (const int code : {ENOBUFS, ENOMEM}) {
      SCOPED_TRACE(std::string{entry.name} + ": " + strerrorname_np(code));
      unsigned calls = 0;
      ASSERT_NO_THROW(calls = live(entry, code));
      EXPECT_LT(calls, most_calls_without_memory) << "somebody spins";
    }
  }
}

}  // namespace atbus::test
