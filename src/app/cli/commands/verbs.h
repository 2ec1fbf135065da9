#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <span>
#include <string_view>

#include "app/cli/terminal/console.h"

namespace lowgear::cli {

/// Exit codes of the program.
enum class ExitCode : int {
  ok = 0,
  failed = 1,     ///< valid input, but the work failed or a check found a problem
  bad_usage = 2,  ///< wrong arguments or input
};
// `monitor` and `run` end with the exit status of the command that they ran, whatever that is.

/// Runs a command after its options are parsed. Throws InputError and Error.
using VerbAction = std::function<ExitCode(Console&)>;

/// Groups of verbs on the first page of the help, in the order in which a job meets them.
namespace group {
inline constexpr std::string_view kTryIt = "Try it";
inline constexpr std::string_view kPlan = "Plan";
inline constexpr std::string_view kBeforeGpus = "Before you have GPUs";
inline constexpr std::string_view kOnGpus = "On your GPUs";
inline constexpr std::string_view kCluster = "Cluster";
inline constexpr std::string_view kMore = "More";    ///< named there in one line
inline constexpr std::string_view kFormOfVerb = "";  ///< not named there
}  // namespace group

/// A verb of the command line.
struct Verb {
  /// One word, or two for a form of a verb with options of its own: `plan --change`, `runs report`. An option among the
  /// two is declared by the form: it takes a value.
  std::string_view name;
  std::string_view group;
  std::string_view summary;          ///< one line, as the first page shows it
  std::string_view example;          ///< one command line or several
  VerbAction (*declare)(CLI::App&);  ///< declares the options of the verb; null: it only has forms
  bool writes_at_end = false;        ///< writes its files whole at its end, or none
};

/// Verbs that plan and estimate: they need no GPU, agent, server or training job. In the order in which the help shows
/// them.
[[nodiscard]] std::span<const Verb> planning_verbs();
/// Verbs about the program itself.
[[nodiscard]] std::span<const Verb> shell_verbs();

// Each in VERB_command.cpp; completion and man in help_commands.cpp.
[[nodiscard]] VerbAction declare_plan(CLI::App& app);
[[nodiscard]] VerbAction declare_thin(CLI::App& app);
[[nodiscard]] VerbAction declare_verify(CLI::App& app);
[[nodiscard]] VerbAction declare_simulate(CLI::App& app);
[[nodiscard]] VerbAction declare_compare(CLI::App& app);
[[nodiscard]] VerbAction declare_replan(CLI::App& app);
[[nodiscard]] VerbAction declare_estimate(CLI::App& app);
[[nodiscard]] VerbAction declare_search(CLI::App& app);
[[nodiscard]] VerbAction declare_show(CLI::App& app);
[[nodiscard]] VerbAction declare_evaluate(CLI::App& app);
[[nodiscard]] VerbAction declare_emulate(CLI::App& app);
[[nodiscard]] VerbAction declare_example(CLI::App& app);
[[nodiscard]] VerbAction declare_profile(CLI::App& app);
[[nodiscard]] VerbAction declare_pack(CLI::App& app);
[[nodiscard]] VerbAction declare_completion(CLI::App& app);
[[nodiscard]] VerbAction declare_man(CLI::App& app);

}  // namespace lowgear::cli
