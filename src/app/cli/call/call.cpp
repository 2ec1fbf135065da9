#include "app/cli/call/call.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/commands/application.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/process.h"
#include "base/core/error.h"
#include "base/core/files/memory_files.h"
#include "base/core/numbers/number.h"

namespace lowgear::cli {
namespace {

constexpr std::string_view kDashes = "--";

/// Characters of the option's name that the text begins with.
std::size_t name_length(std::string_view text) {
  if (text.empty() || text.front() < 'a' || text.front() > 'z') return 0;
  const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-");
  return end == std::string_view::npos ? text.size() : end;
}

/// Whether the text ends within a command line: `lowgear run `.
bool is_in_command(std::string_view text) {
  constexpr std::string_view kProgram = "lowgear ";
  const std::size_t begin = text.rfind(kProgram);
  if (begin == std::string_view::npos || (begin > 0 && text[begin - 1] != ' ' && text[begin - 1] != '`')) return false;
  return text.find_first_of(",;:)`", begin) == std::string_view::npos;
}

/// Whether a blank and a number follow, alone.
bool begins_with_number(std::string_view text) {
  if (!text.starts_with(' ')) return false;
  const std::string_view word = text.substr(1, text.find_first_of(" ,;:)", 1) - 1);
  return parse_number(word).has_value();
}

/// How the caller names options.
class CallerWords {
 public:
  explicit CallerWords(const Json& parameters) {
    for (const auto& [option, parameter] : parameters.items()) parameters_[option] = parameter.get<std::string>();
  }

  [[nodiscard]] std::string parameter(std::string_view option) const {
    if (const auto found = parameters_.find(option); found != parameters_.end()) return found->second;
    std::string name(option);
    std::ranges::replace(name, '-', '_');
    return name;
  }

  /// The message with parameters in place of `--options`: `blocking_power_w=72` for `--blocking-power 72`, and
  /// `accept_units=True` for a flag that ends it. Options of other commands, as in `lowgear run --search`, stay.
  [[nodiscard]] std::string of(std::string_view message) const {
    std::string text;
    for (std::size_t at = message.find(kDashes); at != std::string_view::npos; at = message.find(kDashes)) {
      text += message.substr(0, at);
      message.remove_prefix(at + kDashes.size());
      const std::size_t length = name_length(message);
      const bool begins_word =
          text.empty() || std::string_view(" '\"`([{\\").find(text.back()) != std::string_view::npos;
      const std::string_view option = message.substr(0, length);
      message.remove_prefix(length);
      if (length == 0 || !begins_word || is_in_command(text)) {
        text.append(kDashes).append(option);
        continue;
      }
      const bool is_advice = text.ends_with(": ") && message.empty();
      text += parameter(option) + (is_advice ? "=True" : "");
      if (!begins_with_number(message)) continue;
      text += '=';
      message.remove_prefix(1);
    }
    return text.append(message);
  }

  /// The parameter that a message begins with; null where it begins otherwise.
  [[nodiscard]] Json first_in(std::string_view message) const {
    if (!message.starts_with(kDashes)) return nullptr;
    message.remove_prefix(kDashes.size());
    return parameter(message.substr(0, name_length(message)));
  }

 private:
  std::map<std::string, std::string, std::less<>> parameters_;
};

/// Keeps what a verb prints.
class ReplyConsole final : public Console {
 public:
  explicit ReplyConsole(const CallerWords& words) : words_(&words) {}

  void print(std::string_view text) override { result_ = text; }
  void print_aside(std::string_view text) override { result_ = text; }
  void print_json(const Json& json) override { result_ = json; }
  void note(std::string_view text) override { notes_.push_back(words_->of(text)); }
  void warn(std::string_view text) override { warnings_.push_back(words_->of(text)); }
  void error(std::string_view text) override { warn(text); }
  void set_level(LogLevel /*level*/) override {}

  [[nodiscard]] Json reply(const MemoryFiles& files) && {
    return {{"result", std::move(result_)},
            {"notes", std::move(notes_)},
            {"warnings", std::move(warnings_)},
            {"files", files.written()}};
  }

 private:
  const CallerWords* words_;
  Json result_;
  Json notes_ = Json::array();
  Json warnings_ = Json::array();
};

std::string word_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::vector<std::string> command_words(std::string_view verb, const Json& request) {
  std::vector<std::string> words{std::string(verb)};
  const Json options = request.value("options", Json::object());
  for (const auto& [name, value] : options.items()) {
    const Json values = value.is_array() ? value : Json::array({value});
    for (const Json& one : values) {
      const std::string word = word_of(one);
      // After `=` CLI11 takes the next word for an empty value.
      words.push_back(word.empty() ? fmt::format("--{}", name) : fmt::format("--{}={}", name, word));
      if (word.empty()) words.emplace_back();
    }
  }
  words.emplace_back("--json");
  words.emplace_back("--");
  const Json arguments = request.value("arguments", Json::array());
  for (const Json& argument : arguments) words.push_back(word_of(argument));
  return words;
}

Json error_reply(std::string_view kind, ExitCode code, const CallerWords& words, std::string_view message) {
  Json error{{"kind", kind}, {"exit_code", static_cast<int>(code)}, {"message", words.of(message)}};
  if (Json argument = words.first_in(message); !argument.is_null()) error["argument"] = std::move(argument);
  return {{"error", std::move(error)}};
}

Json located_reply(const LocatedError& failure, const CallerWords& words) {
  Json reply = error_reply("invalid", ExitCode::bad_usage, words, failure.what());
  Json& error = reply["error"];
  const SourceLocation& where = failure.where();
  if (!error.contains("argument") && !where.source.empty()) error["file"] = where.source;
  if (where.line > 0) error["line"] = where.line;
  if (where.column > 0) error["column"] = where.column;
  error["problem"] = words.of(failure.problem());
  return reply;
}

Json run_request(std::string_view verb, const Json& request, const CallerWords& words) {
  MemoryFiles files(request.value("files", MemoryFiles::Texts()),
                    request.value("keep", std::set<std::string, std::less<>>()));
  ReplyConsole console(words);
  const std::span<const Verb> verbs = planning_verbs();
  // A command that answers "no" says so in its result.
  (void)Application({verbs.begin(), verbs.end()}).run_verb(command_words(verb, request), console);
  return std::move(console).reply(files);
}

/// The reply to a request that can be read.
Json answered(std::string_view verb, const Json& request, const CallerWords& words) {
  try {
    return run_request(verb, request, words);
  } catch (const Interrupted&) {
    return error_reply("interrupted", ExitCode::failed, words, "the call was cancelled");
  } catch (const LocatedError& error) {
    return located_reply(error, words);
  } catch (const InputError& error) {
    return error_reply("invalid", ExitCode::bad_usage, words, error.what());
  } catch (const CLI::Success&) {
    return error_reply("invalid", ExitCode::bad_usage, words, "request: it asks for help, which is a text");
  } catch (const CLI::Error& error) {
    return error_reply("invalid", ExitCode::bad_usage, words, error.what());
  } catch (const Json::exception& error) {
    return error_reply("invalid", ExitCode::bad_usage, words, fmt::format("request: {}", error.what()));
  } catch (const Error& error) {
    return error_reply("failed", ExitCode::failed, words, error.what());
  } catch (const std::bad_alloc&) {
    return error_reply("failed", ExitCode::failed, words, "there is not enough memory");
  } catch (const std::exception& error) {
    return error_reply("failed", ExitCode::failed, words, printable(error.what(), std::string_view::npos));
  }
}

}  // namespace

Json call(std::string_view verb, std::string_view request, std::function<bool()> is_cancelled) {
  const CallWithinProcess running(std::move(is_cancelled));
  try {
    const Json document = parse_json(request, "request");
    return answered(verb, document, CallerWords(document.value("parameters", Json::object())));
  } catch (const Json::exception& error) {
    return error_reply("invalid", ExitCode::bad_usage, CallerWords(Json::object()),
                       fmt::format("request: {}", error.what()));
  } catch (const InputError& error) {
    return error_reply("invalid", ExitCode::bad_usage, CallerWords(Json::object()), error.what());
  }
}

}  // namespace lowgear::cli
