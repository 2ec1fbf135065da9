#include "app/cli/runs/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "app/cli/runs/replayed_plan.h"
#include "app/cli/terminal/stopwatch.h"
#include "base/core/error.h"
#include "base/core/suggestion.h"
#include "planning/planner/policies/envpipe.h"
#include "planning/planner/policies/envpipe_offline.h"

namespace lowgear {
namespace {

/// A pipeline with the planner for it, whose bounds its rows get.
struct PlannedPipeline {
  PlanningProblem problem;
  PipelinePlanner* planner = nullptr;
  double frontier_time_s = 0;  ///< wall clock that solving its frontier took
};

/// The order that a policy runs in place of the given one, and all that depends on it. Stays where it is.
struct OwnOrder {
  OwnOrder(Schedule order, const PipelineInput& input, const PlannerOptions& options) : schedule(std::move(order)) {
    const Stopwatch stopwatch;
    planner.emplace(schedule, input.profile, input.blocking_power_w, options);
    pipeline.frontier_time_s = stopwatch.elapsed_s();
    pipeline.problem = {&schedule, &planner->dag(), &input.profile, input.blocking_power_w};
    pipeline.planner = &*planner;
  }
  OwnOrder(const OwnOrder&) = delete;
  OwnOrder& operator=(const OwnOrder&) = delete;
  ~OwnOrder() = default;

  Schedule schedule;
  std::optional<PipelinePlanner> planner;
  PlannedPipeline pipeline;
};

/// Times that differ by less are the same: sums of doubles, and the solver's whole picoseconds.
constexpr double kRounding = 1e-9;

bool same_time(double a_s, double b_s) { return std::abs(a_s - b_s) <= kRounding * b_s; }

int largest(const std::vector<int>& values) { return *std::ranges::max_element(values); }

/// Makes the rows of a comparison.
class Comparer {
 public:
  Comparer(const PipelineInput& input, PipelinePlanner& planner, const ComparisonOptions& options)
      : input_(&input), given_{input.problem(), &planner, options.frontier_time_s}, options_(&options) {}

  [[nodiscard]] ComparisonRow policy_row(const std::string& name) {
    const auto policy = make_policy(name, options_->policy);
    ComparisonRow row;
    const Stopwatch stopwatch;
    PolicyPlan answer = policy->plan(input_->problem(), std::nullopt);
    row.plan_time_s = stopwatch.elapsed_s();
    row.policy = name;
    row.own_time_s = answer.own_time_s;
    row.own_energy_j = answer.own_energy_j;
    row.note = answer.note;
    if (!answer.schedule) {
      set_replayed(row, given_, answer.clocks_mhz);
      return row;
    }
    row.own_order = true;
    row.note += fmt::format("{}runs its own order, which holds up to {} activations in place of {}",
                            row.note.empty() ? "" : "; ", largest(peak_in_flight_activations(*answer.schedule)),
                            largest(peak_in_flight_activations(input_->schedule)));
    auto& own = own_orders_[name];
    own = std::make_unique<OwnOrder>(std::move(*answer.schedule), *input_, options_->planner);
    set_replayed(row, own->pipeline, answer.clocks_mhz);
    return row;
  }

  /// Lowgear's plan in the order and for the time of a policy that runs an order of its own.
  [[nodiscard]] ComparisonRow lowgear_row_in_order_of(const ComparisonRow& other) const {
    const PlannedPipeline& pipeline = own_orders_.at(other.policy)->pipeline;
    ComparisonRow row = lowgear_row(fmt::format("time and order of {}", other.policy), pipeline,
                                    std::max(other.time_s, pipeline.planner->fastest_s()));
    row.own_order = true;
    add_frontier_time(row, pipeline);
    return row;
  }

  /// Rows of Lowgear's plans in the given order: for T_min, and for the time of every other row where that is later.
  [[nodiscard]] std::vector<ComparisonRow> lowgear_rows(std::span<const ComparisonRow> others) const {
    std::vector<ComparisonRow> rows{lowgear_row("T_min", given_, given_.planner->fastest_s())};
    add_frontier_time(rows.front(), given_);
    std::vector<double> planned_s{given_.planner->fastest_s()};
    for (const ComparisonRow& other : others) {
      if (other.policy == kLowgearPolicy) continue;
      const auto same = [&](double time_s) { return same_time(other.time_s, time_s); };
      if (other.time_s < planned_s.front() || std::ranges::any_of(planned_s, same)) continue;
      planned_s.push_back(other.time_s);
      rows.push_back(lowgear_row("time of " + other.policy, given_, other.time_s));
    }
    return rows;
  }

 private:
  [[nodiscard]] ComparisonRow lowgear_row(std::string aim, const PlannedPipeline& pipeline, double deadline_s) const {
    ComparisonRow row;
    const Stopwatch stopwatch;
    const Plan plan = pipeline.planner->plan(deadline_s);
    row.plan_time_s = stopwatch.elapsed_s();
    row.policy = kLowgearPolicy;
    row.aim = std::move(aim);
    set_replayed(row, pipeline, clocks_for(plan, *pipeline.problem.dag));
    return row;
  }

  static void add_frontier_time(ComparisonRow& row, const PlannedPipeline& pipeline) {
    row.plan_time_s += pipeline.frontier_time_s;
    row.note = "its plan time is that of the whole frontier and this plan";
  }

  void set_replayed(ComparisonRow& row, const PlannedPipeline& pipeline, std::span<const int> clocks_mhz) const {
    const Timeline timeline = replay_under(pipeline.problem, clocks_mhz, {options_->planner.switch_latency_s, {}});
    row.time_s = timeline.time_s;
    row.energy_j = timeline.energy_j_total;
    row.lower_bound_j = pipeline.planner->frontier().lower_bound_j_at(ps_from_s(row.time_s));
    row.switches = count_switches(planned_ops(*pipeline.problem.dag, timeline, clocks_mhz));
    row.peak_activations = largest(peak_in_flight_activations(*pipeline.problem.schedule));
    if (!options_->late_s) return;
    const Timeline late = replay_under(pipeline.problem, clocks_mhz, {*options_->late_s, {}});
    row.late_time_s = late.time_s;
    row.late_energy_j = late.energy_j_total;
  }

  const PipelineInput* input_;
  PlannedPipeline given_;
  const ComparisonOptions* options_;
  std::map<std::string, std::unique_ptr<OwnOrder>> own_orders_;  ///< by policy
};

void set_published_savings(PolicyComparison& comparison, const PlanningProblem& problem) {
  const auto perseus = std::ranges::find(comparison.rows, "perseus", &ComparisonRow::policy);
  if (perseus == comparison.rows.end() || !perseus->own_time_s) return;
  const double time_s = *perseus->own_time_s;
  for (ComparisonRow& row : comparison.rows) {
    if (row.policy == kLowgearPolicy) continue;
    row.published_saving_pct = perseus_intrinsic_saving_pct(problem, time_s, row.own_energy_j.value_or(row.energy_j));
  }
}

}  // namespace

std::vector<std::string> other_policies() {
  std::vector<std::string> names = policy_names();
  std::erase(names, kLowgearPolicy);
  return names;
}

std::vector<std::string> comparable_policies() {
  std::vector<std::string> names = other_policies();
  names.emplace_back(kLowgearPolicy);
  return names;
}

std::unique_ptr<Policy> make_policy(const std::string& name, const PolicySettings& settings) {
  if (name == "perseus") return std::make_unique<PerseusPolicy>(settings.perseus_unit_s);
  if (name == "envpipe-offline") return std::make_unique<EnvPipeOfflinePolicy>(settings.perseus_unit_s);
  if (name == "envpipe") {
    EnvPipeOptions options;
    options.extra_activations = settings.extra_activations;
    return std::make_unique<EnvPipePolicy>(options);
  }
  const std::vector<std::string> known = comparable_policies();
  if (std::ranges::find(known, name) == known.end()) {
    const std::vector<std::string_view> names(known.begin(), known.end());
    const auto nearest = nearest_name(name, names);
    throw InputError(fmt::format("no policy is called {}; {}there are {}", quote(name),
                                 nearest ? fmt::format("did you mean {}? ", *nearest) : "", fmt::join(known, ", ")));
  }
  return make_policy(std::string_view(name));
}

PolicyComparison compare_policies(const PipelineInput& input, PipelinePlanner& planner,
                                  const ComparisonOptions& options, Progress* progress) {
  Comparer comparer(input, planner, options);
  PolicyComparison comparison;
  comparison.baseline = comparer.policy_row(options.baseline);
  const auto tell = [progress](const std::string& name) {
    if (progress != nullptr) progress->update("planning with " + name, -1);
  };
  bool with_lowgear = false;
  for (const std::string& name : options.policies) {
    tell(name);
    with_lowgear = with_lowgear || name == kLowgearPolicy;
    if (name == kLowgearPolicy) continue;
    try {
      comparison.rows.push_back(name == options.baseline ? comparison.baseline : comparer.policy_row(name));
      if (comparison.rows.back().own_order) {
        comparison.rows.push_back(comparer.lowgear_row_in_order_of(comparison.rows.back()));
      }
    } catch (const InputError& error) {
      comparison.skipped.push_back(fmt::format("{}: {}", name, error.what()));
    }
  }
  set_published_savings(comparison, input.problem());
  if (!with_lowgear) return comparison;
  tell(kLowgearPolicy);
  const std::vector<ComparisonRow> rows = comparer.lowgear_rows(comparison.rows);
  comparison.rows.insert(comparison.rows.end(), rows.begin(), rows.end());
  return comparison;
}

double saving_pct(const ComparisonRow& row, const ComparisonRow& baseline) {
  return 100 * (baseline.energy_j - row.energy_j) / baseline.energy_j;
}

double slowdown_pct(const ComparisonRow& row, const ComparisonRow& baseline) {
  return 100 * (row.time_s - baseline.time_s) / baseline.time_s;
}

std::vector<ReportPolicy> report_policies(const PolicyComparison& comparison) {
  std::vector<ReportPolicy> policies;
  for (const ComparisonRow& row : comparison.rows) {
    const std::string name = row.aim.empty() ? row.policy : fmt::format("{} ({})", row.policy, row.aim);
    policies.push_back({.name = name,
                        .time_s = row.time_s,
                        .energy_j = row.energy_j,
                        .lower_bound_j = row.lower_bound_j,
                        .switches = row.switches,
                        .plan_time_s = row.plan_time_s,
                        .note = row.note,
                        .own_order = row.own_order,
                        .peak_activations = row.peak_activations});
  }
  return policies;
}

}  // namespace lowgear
