#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/arguments/pipeline_input.h"
#include "base/core/formats/json.h"
#include "base/core/progress.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/perseus.h"
#include "report/report/report_data.h"

namespace lowgear {

/// The name of Lowgear's own planner among the policies.
inline constexpr const char* kLowgearPolicy = "lowgear";

/// Settings of policies that the command line offers.
struct PolicySettings {
  double perseus_unit_s = kPerseusUnitS;
  std::optional<int> extra_activations;  ///< EnvPipe: beyond those of 1F1B
};

/// All policies but Lowgear's.
[[nodiscard]] std::vector<std::string> other_policies();
/// All of them, Lowgear's last.
[[nodiscard]] std::vector<std::string> comparable_policies();

/// Throws InputError naming the policies that exist.
[[nodiscard]] std::unique_ptr<Policy> make_policy(const std::string& name, const PolicySettings& settings);

/// One plan of a comparison. Time, energy and switches are *replayed*, the same way for all.
struct ComparisonRow {
  std::string policy;
  std::string aim;  ///< what it was planned for: `T_min`, `time of perseus`; empty: no given time
  double time_s = 0;
  double energy_j = 0;
  std::optional<double> lower_bound_j;  ///< proven for its time, on the order that it runs
  int switches = 0;
  double plan_time_s = 0;            ///< wall clock, from the profile to the plan or from a solved frontier (`note`)
  std::optional<double> own_time_s;  ///< what the policy itself believes
  std::optional<double> own_energy_j;
  /// The saving as the evaluation of Perseus counts it (`perseus_intrinsic_saving_pct`), at Perseus' own time and with
  /// the policy's own energy, or the replayed one where it has none. To compare with published figures.
  std::optional<double> published_saving_pct;
  /// Replayed with clocks that change late, where ComparisonOptions::late_s asks for it.
  std::optional<double> late_time_s = {};
  std::optional<double> late_energy_j = {};
  std::string note;
  bool own_order = false;    ///< it runs another order than the given one, whose bound does not hold for it
  int peak_activations = 0;  ///< most in-flight activations that a rank holds in the order that it runs
};

/// All rows, and what savings are against.
struct PolicyComparison {
  ComparisonRow baseline;
  std::vector<ComparisonRow> rows;
  std::vector<std::string> skipped;  ///< one line for each row that could not be made
};

struct ComparisonOptions {
  std::vector<std::string> policies;  ///< `lowgear` may be among them
  std::string baseline = "max";
  PlannerOptions planner;
  PolicySettings policy;
  double frontier_time_s =
      0;  ///< wall clock that the planner took to solve its frontier: counts for Lowgear's first row
  std::optional<double> late_s = {};  ///< replay all with this switch latency, too
};

/// Plans with every policy, and with Lowgear for T_min and for the time of every other policy, and replays all. After a
/// policy that runs an order of its own comes Lowgear's plan in that order, asked for or not. A
/// policy that cannot plan this pipeline is skipped with its reason; the baseline has to work. `planner` is for
/// `input`.
[[nodiscard]] PolicyComparison compare_policies(const PipelineInput& input, PipelinePlanner& planner,
                                                const ComparisonOptions& options, Progress* progress = nullptr);

/// (baseline - energy) / baseline in per cent.
[[nodiscard]] double saving_pct(const ComparisonRow& row, const ComparisonRow& baseline);
/// (time - baseline) / baseline in per cent.
[[nodiscard]] double slowdown_pct(const ComparisonRow& row, const ComparisonRow& baseline);

/// The rows as the report shows them.
[[nodiscard]] std::vector<ReportPolicy> report_policies(const PolicyComparison& comparison);

/// For people, and for programs.
[[nodiscard]] std::string comparison_table(const PolicyComparison& comparison);
/// The rows as clocks that change late leave them, in per cent of the baseline's; empty where that was not replayed.
[[nodiscard]] std::string late_table(const PolicyComparison& comparison);
[[nodiscard]] Json comparison_json(const PolicyComparison& comparison);

}  // namespace lowgear
