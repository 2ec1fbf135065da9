#include "app/cli/arguments/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "app/cli/terminal/help.h"
#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "base/core/text.h"
#include "base/core/units.h"
#include "planning/profile/stage_profile.h"
#include "planning/simulator/cluster.h"

namespace lowgear::cli {
namespace {

template <typename Number>
[[noreturn]] void throw_out_of_range(const std::string& name, std::string_view what, NumberRange<Number> range,
                                     const std::string& text) {
  throw CLI::ValidationError(
      name, fmt::format("expected {} from {} to {}, not {}", what, range.low, range.high, quote(text)));
}

int whole_number_in(const std::string& name, NumberRange<int> range, const std::string& text) {
  const auto number = parse_integer(text);
  if (!number || *number < range.low || *number > range.high) {
    throw_out_of_range(name, "a whole number", range, text);
  }
  return static_cast<int>(*number);
}

double number_in(const std::string& name, NumberRange<double> range, const std::string& text) {
  const auto number = parse_number(text);
  if (!number || !(*number >= range.low) || !(*number <= range.high)) {
    throw_out_of_range(name, "a number", range, text);
  }
  return *number;
}

/// What a help shows in place of the value.
std::string_view metavariable(Unit unit) {
  switch (unit) {
    case Unit::second:
      return "SECONDS";
    case Unit::millisecond:
      return "MS";
    case Unit::microsecond:
      return "US";
    case Unit::watt:
      return "WATTS";
    case Unit::megahertz:
      return "MHZ";
    case Unit::byte:
      return "BYTES";
    case Unit::percent:
      return "PERCENT";
    case Unit::share:
      return "SHARE";
    default:
      return symbol(unit);
  }
}

/// The name that messages have, of a name with its hidden ones after commas.
std::string shown_name(const std::string& names) { return names.substr(0, names.find(',')); }

/// An option of values separated by commas, each read by `read(name, range, text)`.
template <typename Number>
CLI::Option* add_list(CLI::App& app, const std::string& name, NumberRange<Number> range,
                      Number (*read)(const std::string&, NumberRange<Number>, const std::string&),
                      std::function<void(std::vector<Number>)> set, const std::string& help) {
  const auto read_all = [name = shown_name(name), range, read,
                         set = std::move(set)](const std::vector<std::string>& texts) {
    std::vector<Number> numbers;
    for (const std::string& text : texts) numbers.push_back(read(name, range, text));
    set(std::move(numbers));
  };
  return app.add_option_function<std::vector<std::string>>(name, read_all, help)->delimiter(',');
}

}  // namespace

std::pair<std::string_view, std::string_view> split_at(std::string_view text, char separator) {
  const std::size_t place = text.find(separator);
  if (place == std::string_view::npos) return {text, {}};
  return {text.substr(0, place), text.substr(place + 1)};
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lower;
}

CLI::Option* take_names_of_any_case(CLI::Option* option) {
  return option->transform([](std::string text) { return lower_case(text); });
}

CLI::Option* add_whole_number(CLI::App& app, const std::string& name, NumberRange<int> range,
                              std::function<void(int)> set, const std::string& help) {
  const auto read = [name = shown_name(name), range, set = std::move(set)](const std::string& text) {
    set(whole_number_in(name, range, text));
  };
  return app.add_option_function<std::string>(name, read, help)->type_name("N");
}

CLI::Option* add_number(CLI::App& app, const std::string& name, NumberRange<double> range,
                        std::function<void(double)> set, const std::string& help) {
  const auto read = [name = shown_name(name), range, set = std::move(set)](const std::string& text) {
    set(number_in(name, range, text));
  };
  return app.add_option_function<std::string>(name, read, help)->type_name("X");
}

std::string expected_quantity(Unit unit, NumberRange<double> range, const std::string& text) {
  return fmt::format("expected a number from {} to {}{}{}, such as {}, not {}{}", range.low, range.high,
                     symbol(unit).empty() ? "" : " ", symbol(unit), example_of(unit, range.low, range.high),
                     quote(text), comma_hint(text));
}

CLI::Option* add_quantity(CLI::App& app, const std::string& name, Unit unit, NumberRange<double> range,
                          std::function<void(double)> set, const std::string& help) {
  const auto read = [name = shown_name(name), unit, range, set = std::move(set)](const std::string& text) {
    const auto number = parse_quantity(text, unit);
    if (!number || !(*number >= range.low) || !(*number <= range.high)) {
      throw CLI::ValidationError(name, expected_quantity(unit, range, text));
    }
    if (unit == Unit::percent && may_be_share(text)) throw CLI::ValidationError(name, share_or_percent(text));
    set(*number);
  };
  return app.add_option_function<std::string>(name, read, help)->type_name(std::string(metavariable(unit)));
}

CLI::Option* add_clock(CLI::App& app, const std::string& name, std::function<void(int)> set, const std::string& help) {
  const auto round = [name = shown_name(name), set = std::move(set)](double clock_mhz) {
    constexpr double kTolerance_mhz = 1e-6;  // 1.41GHz is one of whole MHz
    if (std::abs(clock_mhz - std::round(clock_mhz)) > kTolerance_mhz) {
      throw CLI::ValidationError(name, fmt::format("expected a clock of whole MHz, not {} MHz", clock_mhz));
    }
    set(static_cast<int>(std::lround(clock_mhz)));
  };
  return add_quantity(app, name, Unit::megahertz, {1, kMaxClockMhz}, round, help);
}

CLI::Option* add_whole_numbers(CLI::App& app, const std::string& name, NumberRange<int> range,
                               std::function<void(std::vector<int>)> set, const std::string& help) {
  return add_list(app, name, range, whole_number_in, std::move(set), help)->type_name("N,N");
}

CLI::Option* add_numbers(CLI::App& app, const std::string& name, NumberRange<double> range,
                         std::function<void(std::vector<double>)> set, const std::string& help) {
  return add_list(app, name, range, number_in, std::move(set), help)->type_name("X,X");
}

CLI::Option* add_numbered_factors(CLI::App& app, const std::string& name, const std::string& what, double least,
                                  std::function<void(NumberedFactor)> set, const std::string& help) {
  const auto read = [name = shown_name(name), what, least,
                     set = std::move(set)](const std::vector<std::string>& texts) {
    std::set<int> known;
    for (const std::string& text : texts) {
      const auto [left, right] = split_at(text, '=');
      const auto number = parse_integer(left);
      const auto factor = parse_number(right);
      if (!number || *number < 0 || *number >= profile::kMaxStages || !factor || !(*factor >= least) ||
          !(*factor <= simulator::kMaxSlowdownFactor)) {
        throw CLI::ValidationError(
            name, fmt::format("expected {}=FACTOR, such as 2=1.3, with a factor {} and at most {}, not {}", what,
                              least >= 1 ? fmt::format("of at least {}", least) : "above 0",
                              simulator::kMaxSlowdownFactor, quote(text)));
      }
      if (!known.insert(static_cast<int>(*number)).second) {
        throw CLI::ValidationError(
            name, fmt::format("{} {} is there twice; give one factor for it", lower_case(what), *number));
      }
      set({static_cast<int>(*number), *factor});
    }
  };
  return app.add_option_function<std::vector<std::string>>(name, read, help + "; may be repeated")
      ->type_name(what + "=FACTOR")
      ->expected(1)
      ->take_all();
}

CLI::Option* add_choice(CLI::App& app, const std::string& name, std::span<const std::string_view> words,
                        std::function<void(std::size_t)> set, const std::string& help) {
  const auto read = [name, words, set = std::move(set)](const std::string& text) {
    const auto found = std::ranges::find(words, lower_case(text));
    if (found == words.end()) {
      const auto nearest = nearest_name(text, words);
      throw CLI::ValidationError(name, fmt::format("expected {}, not {}{}", fmt::join(words, " or "), quote(text),
                                                   nearest ? fmt::format("; did you mean {}?", *nearest) : ""));
    }
    set(static_cast<std::size_t>(found - words.begin()));
  };
  return app.add_option_function<std::string>(name, read, help)->type_name(fmt::format("{}", fmt::join(words, "|")));
}

void group_options(CLI::App& app, const std::string& group, std::initializer_list<const char*> names) {
  for (const char* const name : names) app.get_option(name)->group(group);
}

void refuse_options_of_other_actions(const CLI::App& verb, std::string_view action,
                                     std::span<const OptionOfAction> pairs) {
  for (const CLI::Option* const option :
       verb.get_options([](const CLI::Option* given) { return given->count() > 0; })) {
    const std::string name = option->get_name();
    const auto belongs = [&](const OptionOfAction& pair) { return pair.option == name; };
    const auto fits = [&](const OptionOfAction& pair) { return belongs(pair) && pair.action == action; };
    if (std::ranges::any_of(pairs, belongs) && std::ranges::none_of(pairs, fits)) {
      throw InputError(fmt::format("{} does not go with `{} {}`; leave it out", name, verb.get_name(), action));
    }
  }
}

namespace {

/// Options that name a file to write, where their value is a file.
constexpr auto kOutputs =
    std::to_array<const char*>({"--blocking-power-out", "--emit-profile", "--envpipe-log", "--envpipe-steps",
                                "--errors-out", "--html", "--metrics", "--out", "--search-record", "--trace"});

/// Whether the value names the file, alone or in a list: `a.csv`, `arm=a.jsonl,b.jsonl`.
bool names_file(std::string_view value, const std::filesystem::path& file) {
  const auto is_file = [&](std::string_view name) {
    std::error_code unknown;
    return std::filesystem::equivalent(name, file, unknown);
  };
  if (is_file(value)) return true;
  const auto [name, list] = split_at(value, '=');
  for (std::string_view rest = list.empty() ? name : list; !rest.empty();) {
    const auto [first, others] = split_at(rest, ',');
    if (is_file(first)) return true;
    rest = others;
  }
  return false;
}

bool is_input(const CLI::Option& option) {
  return option.get_type_name() != kProgramType &&
         std::ranges::none_of(kOutputs, [&](const char* output) { return option.check_name(output); });
}

}  // namespace

void require_outputs_apart(const CLI::App& verb) {
  const std::vector<const CLI::Option*> inputs =
      verb.get_options([](const CLI::Option* option) { return is_input(*option); });
  for (const char* const name : kOutputs) {
    const CLI::Option* const output = verb.get_option_no_throw(name);
    if (output == nullptr || output->count() == 0 || output->get_type_name() != "FILE") continue;
    const std::string& file = output->results().back();
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(file, unknown)) continue;
    const auto is_named = [&](const std::string& value) { return names_file(value, file); };
    if (std::ranges::any_of(
            inputs, [&](const CLI::Option* input) { return std::ranges::any_of(input->results(), is_named); })) {
      throw InputError(fmt::format("{} {}: this is the command's input; name another file", name, printable(file)));
    }
  }
}

void add_json_flag(CLI::App& app, bool& json) { app.add_flag("--json", json, "Print one JSON object instead of text"); }

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
      // `--no-ask-ahead` sets a flag to false.
      const bool is_negated = !option->get_fnames().empty() && option->results().back() == "false";
      line += " " + (is_negated ? "--" + option->get_fnames().front() : option->get_name());
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
