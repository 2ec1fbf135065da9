#include "app/cli/arguments/command_line.h"

#include <string_view>

namespace lowgear::cli {
namespace {

constexpr std::string_view kSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=@%+";

}  // namespace

std::string shell_word(const std::string& text) {
  if (!text.empty() && text.find_first_not_of(kSafe) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char character : text) {
    if (character == '\'') {
      quoted += R"('\'')";
    } else {
      quoted += character;
    }
  }
  return quoted + "'";
}

std::string command_line(const CLI::App& verb) {
  std::string line = "lowgear " + verb.get_name();
  for (const CLI::Option* option : verb.get_options()) {
    if (option->count() == 0) continue;
    const bool flag = option->get_expected_max() == 0;
    if (flag) {
      line += " " + option->get_name();
      continue;
    }
    for (const std::string& value : option->results()) {
      if (!option->get_positional()) line += " " + option->get_name();
      line += " " + shell_word(value);
    }
  }
  return line;
}

}  // namespace lowgear::cli
