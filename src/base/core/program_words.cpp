#include "base/core/program_words.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>
#include <utility>

namespace lowgear {
namespace {

std::vector<std::string> entries_of(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> entries;
  entries.reserve(variables.size());
  for (const auto& [name, value] : variables) entries.push_back(fmt::format("{}={}", name, value));
  return entries;
}

}  // namespace

ProgramWords::ProgramWords(std::vector<std::string> words) : words_(std::move(words)) {
  pointers_.reserve(words_.size() + 1);
  for (std::string& word : words_) pointers_.push_back(word.data());
  pointers_.push_back(nullptr);
}

ProgramWords::ProgramWords(const std::map<std::string, std::string>& variables) : ProgramWords(entries_of(variables)) {}

std::map<std::string, std::string> environment_with(const std::map<std::string, std::string>& others) {
  std::map<std::string, std::string> variables = others;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.try_emplace(std::string(text.substr(0, equals)), text.substr(equals + 1));
  }
  return variables;
}

}  // namespace lowgear
