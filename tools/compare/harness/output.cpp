#include "harness/output.h"

#include <cstdio>
#include <vector>

namespace atbus::compare {
namespace {

// Fields of one object, in the order of their addition.
class object {
 public:
  object& add(const char* name, const std::string& json) {
    text_ += text_.size() == 1 ? "\"" : ",\"";
    text_ += name;
    text_ += "\":" + json;
    return *this;
  }
  object& add(const char* name, std::uint64_t number) { return add(name, std::to_string(number)); }
  object& add(const char* name, const std::vector<std::uint64_t>& numbers) {
    std::string list = "[";
    for (const std::uint64_t number : numbers) {
      list += (list.size() == 1 ? "" : ",") + std::to_string(number);
    }
    return add(name, list + "]");
  }
  object& add_seconds(const char* name, std::int64_t ns) {
    return add(name, std::to_string(static_cast<double>(ns) / 1e9));
  }
  std::string end() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

std::string distribution(const bench::histogram& all) {
  return object{}
      .add("p50", all.percentile(0.5))
      .add("p90", all.percentile(0.9))
      .add("p99", all.percentile(0.99))
      .add("p999", all.percentile(0.999))
      .add("max", all.max())
      .end();
}

}  // namespace

std::string to_json(const account& received) {
  const bench::verdict found = received.close();
  object all;
  all.add("messages", found.messages)
      .add("bytes", found.bytes)
      .add("lost", found.lost)
      .add("corrupt", found.corrupt)
      .add("reordered", found.reordered)
      .add("first_message_ns", static_cast<std::uint64_t>(received.first_ns()))
      .add("last_message_ns", static_cast<std::uint64_t>(received.last_ns()))
      .add_seconds("cpu_s", received.cpu_ns())
      .add("slices", received.slices())
      .add("slice_bytes", received.slice_bytes());
  if (received.latency().total() != 0) {
    all.add("latency_ns", distribution(received.latency()))
        .add("latency_max_ns", received.latency_max());
  }
  return all.end();
}

std::string to_json(const send_totals& sent) {
  return object{}
      .add("accepted", sent.accepted)
      .add("refused", sent.refused)
      .add("bytes", sent.bytes)
      .add("longest_call_ns", static_cast<std::uint64_t>(sent.longest_call_ns))
      .add_seconds("seconds", sent.duration_ns)
      .add_seconds("cpu_s", sent.cpu_ns)
      .end();
}

std::string to_json(const ask_totals& done) {
  return object{}
      .add("answered", done.answered)
      .add("corrupt", done.corrupt)
      .add("unanswered", done.unanswered)
      .add_seconds("seconds", done.duration_ns)
      .add_seconds("cpu_s", done.cpu_ns)
      .add("slices", done.slices)
      .add("rtt_ns", distribution(done.latency))
      .end();
}

std::string to_json(const ping_totals& done) {
  return object{}
      .add("round_trips", done.round_trips)
      .add("corrupt", done.corrupt)
      .add("rtt_ns", distribution(done.latency))
      .add_seconds("cpu_s", done.cpu_ns)
      .end();
}

}  // namespace atbus::compare
