#pragma once

/// Options of the command line whose values are checked where they are read: a wrong one is a CLI::ValidationError that
/// names the expected values.

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/numbers/quantity.h"

namespace lowgear::cli {

/// Inclusive bounds of a number.
template <typename Number>
struct NumberRange {
  Number low;
  Number high;
};

/// A whole number in `range`, handed to `set`.
CLI::Option* add_whole_number(CLI::App& app, const std::string& name, NumberRange<int> range,
                              std::function<void(int)> set, const std::string& help);

/// A finite number in `range`, handed to `set`.
CLI::Option* add_number(CLI::App& app, const std::string& name, NumberRange<double> range,
                        std::function<void(double)> set, const std::string& help);

/// What a message says of a text that is no number in `range` of `unit`: what is expected, with an example.
[[nodiscard]] std::string expected_quantity(Unit unit, NumberRange<double> range, const std::string& text);
/// A number in `range` of `unit`, alone or with a unit of its own (`25`, `25ms`, `0.025s`), handed to `set`. Per cent
/// below 0.5 have to state their sign: they may be meant as a share.
CLI::Option* add_quantity(CLI::App& app, const std::string& name, Unit unit, NumberRange<double> range,
                          std::function<void(double)> set, const std::string& help);

/// A clock of whole MHz, alone or with a unit of its own (`1410`, `1410MHz`, `1.41GHz`), handed to `set`.
CLI::Option* add_clock(CLI::App& app, const std::string& name, std::function<void(int)> set, const std::string& help);

/// Whole numbers in `range`, separated by commas, handed to `set` together.
CLI::Option* add_whole_numbers(CLI::App& app, const std::string& name, NumberRange<int> range,
                               std::function<void(std::vector<int>)> set, const std::string& help);

/// Finite numbers in `range`, separated by commas, handed to `set` together.
CLI::Option* add_numbers(CLI::App& app, const std::string& name, NumberRange<double> range,
                         std::function<void(std::vector<double>)> set, const std::string& help);

/// Text before and after the first `separator`; the second is empty without a separator.
[[nodiscard]] std::pair<std::string_view, std::string_view> split_at(std::string_view text, char separator);

/// `2=1.3`: a rank or stage, and the factor by which it is slower.
struct NumberedFactor {
  int number = 0;
  double factor = 1;
};
/// An option of such factors, at most one for each number; `what` (`RANK`) has that number. Factors are at least
/// `least` and at most `simulator::kMaxSlowdownFactor`.
CLI::Option* add_numbered_factors(CLI::App& app, const std::string& name, const std::string& what, double least,
                                  std::function<void(NumberedFactor)> set, const std::string& help);

/// ASCII letters in lower case.
[[nodiscard]] std::string lower_case(std::string_view text);
/// Makes the option accept its lower-case names in any case.
CLI::Option* take_names_of_any_case(CLI::Option* option);

/// One of some words in lower case, given in any case, whose place among them is handed to `set`.
CLI::Option* add_choice(CLI::App& app, const std::string& name, std::span<const std::string_view> words,
                        std::function<void(std::size_t)> set, const std::string& help);

/// Moves options to a group that `--help` does not show and `--help-all` does.
void group_options(CLI::App& app, const std::string& group, std::initializer_list<const char*> names);

/// An option of a verb with several actions that goes with one of them; it may stand for several.
struct OptionOfAction {
  std::string_view action;
  std::string_view option;
};

/// Throws InputError when an option was given that goes with other actions than this one. Options that `pairs`
/// does not name go with all actions.
void refuse_options_of_other_actions(const CLI::App& verb, std::string_view action,
                                     std::span<const OptionOfAction> pairs);

/// Throws InputError when an option that names a file to write names one that another option or argument names, too: an
/// input. Its content would be lost.
void require_outputs_apart(const CLI::App& verb);

/// Sets `target`, which may be an optional.
template <typename Target>
[[nodiscard]] auto into(Target& target) {
  return [&target](auto value) { target = value; };
}

/// The `--json` flag of every verb.
void add_json_flag(CLI::App& app, bool& json);

/// The command line of this call of a verb, ready to be typed again: `lowgear plan --stages 8 ...`.
[[nodiscard]] std::string command_line(const CLI::App& verb);

/// Quotes a word for a shell, in single quotes where it needs them.
[[nodiscard]] std::string shell_word(const std::string& text);

}  // namespace lowgear::cli
