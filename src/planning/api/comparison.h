#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/core/progress.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/policy.h"

namespace lowgear::api {

/// One way to choose clocks, a row of a comparison, of `run.json` and of reports. Time, energy and switches are
/// *replayed*, the same way for all.
struct ComparisonRow {
  std::string policy = {};
  std::string aim = {};  ///< its target time: `T_min`, `time of perseus`; empty: no given time
  double time_s = 0;
  double energy_j = 0;
  std::optional<double> lower_bound_j = {};  ///< proven for its time, on the order that it runs
  int switches = 0;
  /// Wall clock, from the profile to the plan or from a solved frontier (`note`); absent when not timed.
  std::optional<double> plan_time_s = {};
  std::optional<double> own_time_s = {};  ///< by the policy's own model
  std::optional<double> own_energy_j = {};
  /// Replayed with clocks that change late, where ComparisonOptions::late_s asks for it.
  std::optional<double> late_time_s = {};
  std::optional<double> late_energy_j = {};
  std::string note = {};   ///< a remark for readers; may be empty
  bool own_order = false;  ///< it runs another order than the given one, whose bound does not hold for it
  /// Most in-flight activations that a rank holds in the order that it runs; absent when not known.
  std::optional<int> peak_activations = {};

  /// Policy and aim: `lowgear (T_min)`, `max`.
  [[nodiscard]] std::string label() const;
};

/// All rows, and what savings are against.
struct PolicyComparison {
  ComparisonRow baseline;
  std::vector<ComparisonRow> rows;
  std::vector<std::string> skipped;  ///< one line for each row that could not be made
  /// One line for each order in which a row is faster than all clocks at their highest (`faster_than_full_clocks`).
  std::vector<std::string> findings = {};
};

struct ComparisonOptions {
  planner::PolicyTable table{};
  std::vector<std::string> policies;  ///< of the table; `lowgear` may be among them
  std::string baseline = "max";
  planner::PlannerOptions planner = {};
  std::vector<int> extra_activations = {};  ///< `PlanningProblem::extra_activations`
  SecondsClock now_s = {};                  ///< for the times that planning took
  double frontier_time_s = 0;         ///< that the planner took to solve its frontier: counts for Lowgear's first row
  std::optional<double> late_s = {};  ///< replay all with this switch latency, too
};

/// A policy's plan, before it is replayed.
struct PolicyAnswer {
  planner::PolicyPlan plan;
  std::optional<double> plan_time_s = {};  ///< wall clock; absent when not timed
  std::string refusal = {};                ///< why it cannot plan this pipeline; empty where it can
};

/// By policy, all but Lowgear's.
using PolicyAnswers = std::map<std::string, PolicyAnswer>;

/// Plans with the baseline and every other policy asked for but Lowgear's. Needs no frontier, so that it can be done
/// while that is solved. Throws what `progress` throws to stop.
[[nodiscard]] PolicyAnswers answers_of_policies(const ProfiledPipeline& pipeline, const ComparisonOptions& options,
                                                Progress* progress = nullptr);

/// Plans with every policy, and with Lowgear for T_min and for the time of every other policy, and replays all. After a
/// policy that runs an order of its own comes Lowgear's plan in that order, asked for or not. A
/// policy that cannot plan this pipeline is skipped with its reason; the baseline has to work. `planner` is for
/// `pipeline`. Throws InputError where the baseline cannot plan it, and what `progress` throws to stop.
[[nodiscard]] PolicyComparison compare_policies(const ProfiledPipeline& pipeline, planner::PipelinePlanner& planner,
                                                const ComparisonOptions& options, Progress* progress = nullptr);
/// The same with the policies' answers for these options.
[[nodiscard]] PolicyComparison compare_policies(const ProfiledPipeline& pipeline, planner::PipelinePlanner& planner,
                                                const ComparisonOptions& options, PolicyAnswers answers,
                                                Progress* progress = nullptr);

/// (baseline - energy) / baseline in per cent.
[[nodiscard]] double saving_pct(const ComparisonRow& row, const ComparisonRow& baseline);
/// (time - baseline) / baseline in per cent.
[[nodiscard]] double slowdown_pct(const ComparisonRow& row, const ComparisonRow& baseline);

}  // namespace lowgear::api
