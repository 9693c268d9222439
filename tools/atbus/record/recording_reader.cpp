#include "atbus/record/recording_reader.h"

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "atbus/node_options.hpp"
#include "atbus/record/recording_format.h"

namespace atbus::tool {

using detail::decode;
using detail::entry_fault;
using detail::recording_entry;

namespace {

// Of a message with what the protocol has in front of it.
constexpr std::size_t message_max = node_options::message_limit_max + 1024;

std::FILE* open_recording(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr)
    throw std::runtime_error(path + ": " + std::generic_category().message(errno));
  return file;
}

std::string words_for(entry_fault fault) {
  switch (fault) {
    case entry_fault::not_an_entry:
      return "is no entry of a recording";
    case entry_fault::other_version:
      return "is of another version of atbus: read it with the one that has written it";
    default:
      return "has impossible values";
  }
}

}  // namespace

recording_reader::recording_reader(const std::string& path)
    : recording_reader(open_recording(path), path) {}

recording_reader::recording_reader(std::FILE* file, std::string name) : name_(std::move(name)) {
  char why[PCAP_ERRBUF_SIZE] = {};
  in_.reset(pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, why));
  if (in_ == nullptr) {
    std::fclose(file);
    throw std::runtime_error(name_ + ": no recording: " + why);
  }
  if (pcap_datalink(in_.get()) != recording_link_type)
    throw std::runtime_error(name_ + ": no recording, but a capture of something else");
}

const recording_reader::item* recording_reader::next() {
  while (problem_.empty() && read_entry()) {
    has_end_ = item_.entry.kind == detail::entry_kind::end;
    if (item_.entry.parts == 1) {
      drop_parts();
      item_.payload = packet_payload_;
      return &item_;
    }
    if (add_part(packet_payload_)) {
      item_.entry.part = 0;
      item_.entry.parts = 1;
      item_.payload = message_;
      return &item_;
    }
  }
  drop_parts();
  return nullptr;
}

bool recording_reader::read_entry() {
  pcap_pkthdr* head = nullptr;
  const u_char* bytes = nullptr;
  const int got = pcap_next_ex(in_.get(), &head, &bytes);
  if (got == PCAP_ERROR_BREAK)
    return false;
  ++packets_;
  if (got != 1)
    return end_with(pcap_geterr(in_.get()));
  const bytes_view packet = std::as_bytes(std::span{bytes, head->caplen});
  const entry_fault fault =
      head->caplen == head->len ? decode(packet, item_.entry) : entry_fault::not_an_entry;
  if (fault != entry_fault::none)
    return end_with("packet " + std::to_string(packets_) + " " + words_for(fault));
  // A hostile file may have any numbers; their sum is below 2^63.
  item_.at = std::chrono::seconds{static_cast<std::uint32_t>(head->ts.tv_sec)} +
             std::chrono::nanoseconds{static_cast<std::uint32_t>(head->ts.tv_usec)};
  packet_payload_ = packet.subspan(detail::recording_entry_size);
  return true;
}

bool recording_reader::end_with(std::string problem) {
  problem_ = std::move(problem);
  has_end_ = false;
  return false;
}

bool recording_reader::add_part(bytes_view part) {
  recording_entry expected = first_;
  expected.part = static_cast<std::uint16_t>(parts_read_);
  const bool goes_on = parts_read_ != 0 && item_.entry == expected;
  if (!goes_on) {
    drop_parts();
    if (item_.entry.part != 0) {
      ++incomplete_;  // once for each part, which is once for each message in all but hostile files
      return false;
    }
    first_ = item_.entry;
  }
  if (message_.size() + part.size() > message_max) {
    drop_parts();
    return false;
  }
  message_.insert(message_.end(), part.begin(), part.end());
  if (++parts_read_ != first_.parts)
    return false;
  parts_read_ = 0;
  return true;
}

void recording_reader::drop_parts() noexcept {
  if (parts_read_ != 0)
    ++incomplete_;
  parts_read_ = 0;
  message_.clear();
}

}  // namespace atbus::tool
