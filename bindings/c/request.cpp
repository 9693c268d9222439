#include <memory>
#include <utility>

#include "handles.h"

using namespace atbus;
using namespace atbus::c_api;

namespace {

// What a callback was given, out of the callback.
template <class Handle>
Handle* detach(Handle* from) noexcept {
  if (!is_usable(from))
    return nullptr;
  Handle* made = nullptr;
  guard([&] {
    made = new Handle{std::move(*from->at), from->owner};
    return ATBUS_OK;
  });
  return made;
}

}  // namespace

uint64_t atbus_request_source(const atbus_request* request) {
  return is_usable(request) ? request->at->source().value() : 0;
}

uint32_t atbus_request_type(const atbus_request* request) {
  return is_usable(request) ? request->at->type() : 0;
}

const void* atbus_request_bytes(const atbus_request* request, size_t* size) {
  const bytes_view bytes = is_usable(request) ? request->bytes : bytes_view{};
  if (size != nullptr)
    *size = bytes.size();
  return bytes.data();
}

int atbus_request_redelivered(const atbus_request* request) {
  return is_usable(request) && request->at->redelivered() ? 1 : 0;
}

int atbus_request_is_wanted(const atbus_request* request) {
  return is_usable(request) && request->at->is_wanted() ? 1 : 0;
}

atbus_code atbus_request_reply(atbus_request* request, const void* bytes, size_t size) {
  if (!is_usable(request) || !are_bytes(bytes, size))
    return ATBUS_INVALID_ARGUMENT;
  return code_of(request->at->reply(view_of(bytes, size)));
}

atbus_code atbus_request_fail(atbus_request* request, const char* why, size_t size) {
  if (!is_usable(request) || !are_bytes(why, size))
    return ATBUS_INVALID_ARGUMENT;
  return code_of(request->at->fail(as_text(view_of(why, size))));
}

atbus_request* atbus_request_detach(atbus_request* request) {
  return detach(request);
}

void atbus_request_free(atbus_request* request) {
  if (request != nullptr)
    ownership::free(request);
}

uint64_t atbus_command_source(const atbus_command* command) {
  return is_usable(command) ? command->at->source().value() : 0;
}

const char* atbus_command_word(const atbus_command* command, size_t index) {
  if (!is_usable(command))
    return nullptr;
  if (index == 0)
    return command->at->name().data();
  const auto arguments = command->at->arguments();
  return index - 1 < arguments.size() ? arguments[index - 1].c_str() : nullptr;
}

namespace {

template <class Answer>
atbus_code answer(atbus_command* command, const char* const* values, std::size_t count,
                  Answer&& with) noexcept {
  if (!is_usable(command))
    return ATBUS_INVALID_ARGUMENT;
  return guard([&] {
    result<std::vector<std::string>> all = words_of(values, count);
    return all ? code_of(with(*command->at, command_words{*std::move(all)})) : code_of(all.error());
  });
}

}  // namespace

atbus_code atbus_command_reply(atbus_command* command, const char* const* values, size_t count) {
  return answer(command, values, count,
                [](atbus::command& to, const command_words& words) { return to.reply(words); });
}

atbus_code atbus_command_fail(atbus_command* command, const char* const* values, size_t count) {
  return answer(command, values, count,
                [](atbus::command& to, const command_words& words) { return to.fail(words); });
}

atbus_command* atbus_command_detach(atbus_command* command) {
  return detach(command);
}

void atbus_command_free(atbus_command* command) {
  if (command != nullptr)
    ownership::free(command);
}
