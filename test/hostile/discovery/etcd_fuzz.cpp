// What etcd says, and what stands in it. Whatever it is, no more records are kept than allowed, those that are kept
// can be written again, and what is written is read as it was.
//
// Input: one byte of choice, then text.
//   0 a stream of changes, in parts of a size that the next byte says     1 a page of a list
//   2 a record          3 answers to the other requests                    4 bytes to be written as base64
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "discovery/base64.h"
#include "discovery/etcd_keys.h"
#include "discovery/etcd_message.h"
#include "discovery/line_splitter.h"
#include "discovery/record_text.h"

namespace {

using namespace atbus::detail;

constexpr std::size_t records_max = 4;
constexpr std::string_view prefix = "/atbus/";

void require(bool held) {
  if (!held)
    std::abort();  // how libFuzzer learns of a broken promise
}

bool is_below_prefix(const etcd_pair& pair) {
  return pair.key.starts_with(prefix);
}

void check(const etcd_keys& keys, const atbus::etcd_stats& stats) {
  require(keys.records().size() <= 2 * records_max);
  require(keys.records().size() == stats.records);
  for (const auto& [id, record] : keys.records().all()) {
    const auto text = write_record(record);
    // JSON may need more room for a text than whoever wrote it took.
    require(text || record.services.size() + record.labels.size() > 0);
    require(keys.find(atbus::bus_id{id}) != nullptr);
  }
}

void stream(std::string_view text) {
  atbus::etcd_stats stats;
  etcd_keys keys{std::string{prefix}, records_max, stats};
  line_splitter lines{4096};
  const std::size_t part = text.empty() ? 1 : static_cast<unsigned char>(text.front()) + 1U;
  while (!text.empty()) {
    const std::string_view now = text.substr(0, part);
    text.remove_prefix(now.size());
    const bool fits = lines.take(now, [&](std::string_view line) {
      require(!line.empty() && line.size() <= 4096);
      const auto news = read_news(line);
      if (!news)
        return false;
      for (const etcd_event& one : news->events) {
        require(one.pair.revision <= news->header.revision);
        if (!is_below_prefix(one.pair))
          continue;
        if (one.is_removal)
          keys.remove(one.pair.key);
        else
          keys.put(one.pair);
      }
      return true;
    });
    if (!fits)
      break;
  }
  check(keys, stats);
}

void list(std::string_view text) {
  const auto page = read_page(text);
  if (!page)
    return;
  atbus::etcd_stats stats;
  etcd_keys keys{std::string{prefix}, records_max, stats};
  for (int times = 0; times != 2; ++times) {
    keys.begin_list();
    bool has_room = true;
    for (const etcd_pair& one : page->pairs) {
      if (has_room && is_below_prefix(one))
        has_room = times == 0 ? keys.list(one) : keys.list_without_value(one);
    }
    keys.end_list(has_room);
    check(keys, stats);
  }
}

void record(std::string_view text) {
  const auto read = read_record(7, text);
  if (!read) {
    require(!read.error().text().empty());
    return;
  }
  const auto written = write_record(read->record);
  if (!written)
    return;
  const auto again = read_record(7, *written);
  require(static_cast<bool>(again));
  require(again->record.addresses == read->record.addresses);
  require(again->record.services == read->record.services);
  require(again->record.labels == read->record.labels);
  require(again->record.place == read->record.place);
}

void answers(std::string_view text) {
  const auto lease = read_lease(text);
  require(!lease || lease->id != 0);
  const auto header = read_header(text);
  require(!header || header->revision >= 0);
  const auto token = read_token(text);
  require(!token || !token->empty());
  const etcd_refusal refusal = read_refusal(500, text);
  require(!refusal.text.empty() && refusal.text.find('\n') == std::string::npos);
}

void encoded(std::string_view text) {
  const auto back = from_base64(to_base64(text));
  require(back && *back == text);
  const auto read = from_base64(text);
  require(!read || read->size() <= text.size() / 4 * 3);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  const std::string_view text{reinterpret_cast<const char*>(data) + 1, size - 1};
  switch (data[0] % 5) {
    case 0:
      stream(text);
      break;
    case 1:
      list(text);
      break;
    case 2:
      record(text);
      break;
    case 3:
      answers(text);
      break;
    default:
      encoded(text);
      break;
  }
  return 0;
}
