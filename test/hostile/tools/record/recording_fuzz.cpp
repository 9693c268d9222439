// Whatever the bytes of a recording are: it is refused, or read to an end, with a reason if that is not the end of
// the file. No message is longer than a node takes, and no entry has values that a writer would not write.
//
// Input: a file.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "atbus/node_options.hpp"
#include "atbus/record/recording_reader.h"

namespace {

using atbus::detail::entry_kind;
using atbus::detail::recording_entry;
using atbus::tool::recording_reader;

void require(bool held) {
  if (!held)
    std::abort();  // how libFuzzer learns of a broken promise
}

void check(const recording_reader::item& one) {
  require(one.payload.size() <= atbus::node_options::message_limit_max + 1024);
  require(one.at >= std::chrono::nanoseconds{0});
  require(one.entry.part == 0 && one.entry.parts == 1);
  std::vector<std::byte> bytes(atbus::detail::recording_entry_size);
  encode(one.entry, bytes.data());
  recording_entry again;
  require(decode(bytes, again) == atbus::detail::entry_fault::none);
  require(again == one.entry);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> copy(data, data + size);
  copy.push_back(0);  // an empty file in memory can't be opened
  std::FILE* const file = fmemopen(copy.data(), size == 0 ? 1 : size, "rb");
  require(file != nullptr);
  try {
    recording_reader in{file, "recording"};
    bool has_end = false;
    while (const recording_reader::item* const one = in.next()) {
      check(*one);
      has_end = one->entry.kind == entry_kind::end;
    }
    require(in.next() == nullptr);
    require(!in.has_end() || (has_end && in.problem().empty()));
  } catch (const std::runtime_error& problem) {
    require(*problem.what() != '\0');
  }
  return 0;
}
