#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/progress.h"
#include "app/cli/terminal/table.h"
#include "base/core/error.h"
#include "base/core/numbers/figure_text.h"
#include "rivals/evaluation/emulation.h"
#include "rivals/policies/perseus/exponential_fit.h"

namespace lowgear::cli {
namespace {

constexpr auto kEmulationMethods = std::to_array<std::string_view>({"lowgear", "perseus"});
constexpr auto kAccountingWords = std::to_array<std::string_view>({"corrected", "published"});
constexpr int kMaxPipelines = 1'000'000;
constexpr int kMaxEmulatedMicrobatches = 100'000;
constexpr int kMaxTensorParallel = 1024;

struct EmulateArguments {
  std::string profile;
  double blocking_power_w = 0;
  std::vector<int> microbatches;
  std::optional<int> global_microbatches;
  std::optional<int> pipelines;
  int tensor_parallel = 1;
  std::vector<double> stragglers{1.05, 1.1, 1.2, 1.3, 1.4, 1.5};
  evaluation::PlansOf method = evaluation::PlansOf::lowgear;
  double unit_s = policies::kPerseusUnitS;
  simulator::Accounting accounting = simulator::Accounting::corrected;
  bool json = false;
};

/// How many pipelines share the microbatches of an iteration.
int pipelines_of(const EmulateArguments& arguments, int microbatches) {
  if (!arguments.global_microbatches) return arguments.pipelines.value_or(1);
  if (*arguments.global_microbatches % microbatches != 0) {
    throw InputError(fmt::format("--microbatches {}: does not divide the {} of --global-microbatches", microbatches,
                                 *arguments.global_microbatches));
  }
  return *arguments.global_microbatches / microbatches;
}

std::vector<evaluation::Emulation> emulate_all(const EmulateArguments& arguments,
                                               const profile::StageProfile& profile) {
  std::vector<evaluation::Emulation> results;
  ProgressBar progress;
  for (const int microbatches : arguments.microbatches) {
    progress.update("planning",
                    static_cast<double>(results.size()) / static_cast<double>(arguments.microbatches.size()));
    const evaluation::EmulationCase emulation{
        .profile = &profile,
        .microbatches = microbatches,
        .device = {.device = {}, .gpu = {}, .blocking_power_w = arguments.blocking_power_w, .unit_s = arguments.unit_s},
        .progress = &progress};
    results.push_back(emulate(emulation, {pipelines_of(arguments, microbatches), arguments.tensor_parallel},
                              arguments.stragglers, arguments.method, arguments.accounting));
  }
  return results;
}

std::string emulation_text(const std::vector<evaluation::Emulation>& emulations) {
  Table table({{"GPUs"},
               {"pipelines"},
               {"microbatches"},
               {"straggler"},
               {"time s"},
               {"all clocks highest J"},
               {"planned J"},
               {"saving"},
               {"extrinsic part"}});
  for (const evaluation::Emulation& emulation : emulations) {
    const std::vector<std::string> cluster = {fmt::to_string(emulation.gpus),
                                              fmt::to_string(emulation.cluster.pipelines),
                                              fmt::to_string(emulation.microbatches)};
    const auto add_row = [&](const std::vector<std::string>& figures) {
      std::vector<std::string> row = cluster;
      row.insert(row.end(), figures.begin(), figures.end());
      table.add_row(std::move(row));
    };
    add_row({"none", fmt::format("{:.4f}", emulation.fastest.time_s), "-", "-",
             fixed_text(emulation.intrinsic_pct, 2) + " %", "-"});
    for (const evaluation::EmulatedStraggler& straggler : emulation.stragglers) {
      add_row({fmt::format("{:.2f}", straggler.factor), fmt::format("{:.4f}", straggler.time_s),
               fmt::format("{:.0f}", straggler.baseline_j), fmt::format("{:.0f}", straggler.energy_j),
               fixed_text(straggler.saving_pct, 2) + " %", fixed_text(straggler.extrinsic_pct, 2) + " %"});
    }
  }
  return table.text() +
         "emulated: plans for the profile, summed over pipelines that all wait for one straggler. The saving is "
         "against "
         "all clocks\nat their highest; the extrinsic one against all pipelines at the fastest plan.\n";
}

Json emulation_json(const EmulateArguments& arguments, const std::vector<evaluation::Emulation>& emulations) {
  Json rows = Json::array();
  for (const evaluation::Emulation& emulation : emulations) {
    Json stragglers = Json::array();
    for (const evaluation::EmulatedStraggler& straggler : emulation.stragglers) {
      stragglers.push_back({{"factor", straggler.factor},
                            {"time_s", straggler.time_s},
                            {"baseline_j", straggler.baseline_j},
                            {"energy_j", straggler.energy_j},
                            {"saving_pct", straggler.saving_pct},
                            {"extrinsic_saving_pct", straggler.extrinsic_pct}});
    }
    rows.push_back({{"gpus", emulation.gpus},
                    {"pipelines", emulation.cluster.pipelines},
                    {"tensor_parallel", emulation.cluster.tensor_parallel},
                    {"microbatches", emulation.microbatches},
                    {"time_s", emulation.fastest.time_s},
                    {"intrinsic_saving_pct", emulation.intrinsic_pct},
                    {"stragglers", std::move(stragglers)}});
  }
  return {{"figures", "emulated"},
          {"plans", kEmulationMethods[static_cast<std::size_t>(arguments.method)]},
          {"accounting", kAccountingWords[arguments.accounting == simulator::Accounting::published ? 1 : 0]},
          {"clusters", std::move(rows)}};
}

ExitCode run_emulate(const EmulateArguments& arguments, Console& console) {
  const profile::ProfileFile file = load_profile(arguments.profile);
  for (const std::string& doubt : doubts_of(file, {.by_rank_w = {arguments.blocking_power_w}}, "")) console.warn(doubt);
  const std::vector<evaluation::Emulation> emulations = emulate_all(arguments, file.profile);
  if (arguments.json) {
    console.print_json(emulation_json(arguments, emulations));
  } else {
    console.print(emulation_text(emulations) + simulated_text(file.simulated));
  }
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_emulate(CLI::App& app) {
  auto arguments = std::make_shared<EmulateArguments>();
  add_profile_option(app, arguments->profile)->required();
  add_quantity(app, "--blocking-power", Unit::watt, {0, 1e5}, into(arguments->blocking_power_w),
               "Power of a GPU that waits, in W")
      ->required();
  add_whole_numbers(app, "--microbatches", {1, kMaxEmulatedMicrobatches}, into(arguments->microbatches),
                    "Microbatches of a pipeline in an iteration; several for a table of strong scaling")
      ->required();
  CLI::Option* pipelines = add_whole_number(app, "--pipelines", {1, kMaxPipelines}, into(arguments->pipelines),
                                            "Data-parallel pipelines (default 1)");
  add_whole_number(app, "--global-microbatches", {1, kMaxPipelines}, into(arguments->global_microbatches),
                   "Microbatches of all pipelines together, in place of --pipelines")
      ->excludes(pipelines);
  add_whole_number(app, "--tp,--tensor-parallel", {1, kMaxTensorParallel}, into(arguments->tensor_parallel),
                   "GPUs of a stage, each as the profile has one (default 1)");
  add_numbers(app, "--straggler", {1, simulator::kMaxSlowdownFactor}, into(arguments->stragglers),
              "Factors by which one of the pipelines takes longer (default 1.05,1.1,1.2,1.3,1.4,1.5)")
      ->type_name("FACTOR,FACTOR");
  add_choice(
      app, "--policy", kEmulationMethods,
      [arguments](std::size_t place) { arguments->method = static_cast<evaluation::PlansOf>(place); },
      "Policy whose plans the pipelines run: Lowgear's, replayed (lowgear, the default), or those of Perseus' model "
      "(perseus)");
  add_quantity(app, "--perseus-unit", Unit::second, {1e-9, 1e3}, into(arguments->unit_s),
               "perseus: its time step, in s (default 0.001)");
  add_choice(
      app, "--accounting", kAccountingWords,
      [arguments](std::size_t place) {
        arguments->accounting = place == 1 ? simulator::Accounting::published : simulator::Accounting::corrected;
      },
      "Plan of the pipelines that wait: the slowest that the straggler allows (corrected, the default), or the one of "
      "least energy, as in Perseus' evaluation (published)");
  add_json_flag(app, arguments->json);
  return [arguments, &app](Console& console) {
    if (arguments->method != evaluation::PlansOf::perseus && app.get_option("--perseus-unit")->count() > 0) {
      throw InputError("--perseus-unit: give --policy perseus, whose time step it is, or leave it out");
    }
    return run_emulate(*arguments, console);
  };
}

}  // namespace lowgear::cli
