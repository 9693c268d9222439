// Whatever the bytes of a report's file are: they are read as a report with printable texts, or refused with
// a printable reason; a report that was read is written and read again as the same.
//
// Input: a copy. Its checksum is put right first, so that what is behind it is reached.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/crc32c.h"
#include "core/text.h"
#include "node/report/report_format.h"

namespace {

using namespace atbus::detail;

void require(bool held) {
  if (!held)
    std::abort();  // how libFuzzer learns of a broken promise
}

void correct_checksum(std::vector<std::byte>& copy) {
  report_head head;
  if (copy.size() < sizeof head)
    return;
  std::memcpy(&head, copy.data(), sizeof head);
  const std::size_t begin = offsetof(report_head, sequence);
  const std::size_t end = std::clamp(size_of(head), begin, copy.size());
  head.checksum = crc32c(atbus::bytes_view{copy}.subspan(begin, end - begin));
  std::memcpy(copy.data(), &head, sizeof head);
}

void check(const atbus::node_report& report) {
  require(std::ranges::all_of(report.program, is_printable));
  require(std::ranges::all_of(report.version, is_printable));
  for (const std::string& one : report.addresses)
    require(std::ranges::all_of(one, is_printable));
  for (const atbus::peer_report& one : report.peers)
    require(std::ranges::all_of(one.address, is_printable));
  std::vector<std::byte> once;
  encode(report, 1, once);
  const auto again = decode_report(once);
  require(static_cast<bool>(again));
  std::vector<std::byte> twice;
  encode(*again, 1, twice);
  require(once == twice);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> copy(size);
  if (size != 0)
    std::memcpy(copy.data(), data, size);
  correct_checksum(copy);
  const auto report = decode_report(copy);
  if (report)
    check(*report);
  else
    require(std::ranges::all_of(report.error().text(), is_printable));
  return 0;
}
