// Entries of a recording as people and programs read them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "atbus/bytes.hpp"
#include "protocol/recording_entry.h"

namespace atbus::tool {

// What a message is: "message", "request", "response", "command" or "answer".
[[nodiscard]] std::string_view kind_of(const detail::recording_entry& message) noexcept;
// As `atbus listen` prints it, with "(request)" and the like behind all that is no message.
[[nodiscard]] std::string text_of(const detail::recording_entry& message, bytes_view payload);
// An object in a line.
[[nodiscard]] std::string json_of(std::chrono::nanoseconds at, const detail::recording_entry& entry,
                                  bytes_view payload);
// Why a recording ends, for people.
[[nodiscard]] std::string words_for_end(const detail::recording_entry& end);

// Which messages are wanted.
struct message_filter {
  std::string type;
  std::string from;

  // `--type` and `--from`.
  template <class App>
  void add_to(App& command) {
    command.add_option("--type", type, "only messages of this type: a number");
    command.add_option("--from", from, "only messages of this node");
  }
};

class message_choice {
 public:
  // What is wrong with the filter ends the command.
  explicit message_choice(const message_filter& filter);
  [[nodiscard]] bool takes(const detail::recording_entry& message) const noexcept;

 private:
  std::optional<std::uint32_t> type_;
  std::optional<bus_id> from_;
};

}  // namespace atbus::tool
