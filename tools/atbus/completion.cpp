#include "atbus/completion.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace atbus::tool {
namespace {

// The words that may follow a chain of subcommands.
std::string words_after(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
    words.push_back(below->get_name());
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames())
      words.push_back("--" + name);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

void print_cases(const CLI::App& command, const std::string& chain) {
  fmt::print("    \"{}\") words=\"{}\" ;;\n", chain, words_after(command));
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
    print_cases(*below, chain + " " + below->get_name());
}

// File names where no word fits.
void print_bash(const CLI::App& app) {
  fmt::print(
      "_atbus() {{\n"
      "  local chain=atbus words= word i\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    word=${{COMP_WORDS[i]}}\n"
      "    [[ $word == [a-z]* && \" $(_atbus_words \"$chain\") \" == *\" $word \"* ]] && chain+=\" "
      "$word\"\n"
      "  done\n"
      "  words=$(_atbus_words \"$chain\")\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"${{COMP_WORDS[COMP_CWORD]}}\")\n"
      "}}\n"
      "_atbus_words() {{\n"
      "  local words=\n"
      "  case $1 in\n");
  print_cases(app, "atbus");
  fmt::print(
      "  esac\n"
      "  printf '%s' \"$words\"\n"
      "}}\n"
      "complete -o default -F _atbus atbus\n");
}

}  // namespace

void add_completion(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("completion", "Prints what makes a shell complete this command's words");
  CLI::App* const bash = command->add_subcommand("bash", "for bash");
  command->require_subcommand(1);
  command->footer("Example, for ~/.bashrc: `source <(atbus completion bash)`");
  bash->callback([&app] { print_bash(app); });
}

}  // namespace atbus::tool
