#include "planning/api/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/core/error.h"
#include "planning/api/plan_replays.h"
#include "planning/planner/policies/clock_choice.h"

namespace lowgear::api {
namespace {

/// Time since it was made, by the caller's clock.
class PlanTimer {
 public:
  explicit PlanTimer(const SecondsClock& now_s) : now_s_(&now_s), begin_s_(now_s ? now_s() : 0) {}
  [[nodiscard]] std::optional<double> elapsed_s() const {
    return *now_s_ ? std::optional((*now_s_)() - begin_s_) : std::nullopt;
  }

 private:
  const SecondsClock* now_s_;
  double begin_s_;
};

/// A pipeline with the planner for it, whose bounds its rows get.
struct PlannedPipeline {
  planner::PlanningProblem problem;
  planner::PipelinePlanner* planner = nullptr;
  double frontier_time_s = 0;  ///< wall clock that solving its frontier took
  double full_clocks_s = 0;    ///< an iteration at full clocks, replayed
};

double full_clocks_s(const planner::PlanningProblem& problem, const ComparisonOptions& options) {
  return replay_under(problem, max_clocks_mhz(problem), {options.planner.switch_latency_s, {}}).time_s;
}

/// The order that a policy runs in place of the given one, and all that depends on it. Stays where it is.
struct OwnOrder {
  OwnOrder(schedule::Schedule order, const ProfiledPipeline& given, const ComparisonOptions& options,
           Progress* progress)
      : schedule(std::move(order)) {
    const PlanTimer timer(options.now_s);
    planner.emplace(schedule, given.profile, given.blocking_power_w, options.planner,
                    std::span<planner::FrontierObserver* const>{}, progress);
    pipeline.frontier_time_s = timer.elapsed_s().value_or(0);
    pipeline.problem = {&schedule, &planner->dag(), &given.profile, given.blocking_power_w};
    pipeline.planner = &*planner;
    pipeline.full_clocks_s = full_clocks_s(pipeline.problem, options);
  }
  OwnOrder(const OwnOrder&) = delete;
  OwnOrder& operator=(const OwnOrder&) = delete;
  ~OwnOrder() = default;

  schedule::Schedule schedule;
  std::optional<planner::PipelinePlanner> planner;
  PlannedPipeline pipeline;
};

/// Times that differ by less are the same: sums of doubles, and the solver's whole picoseconds.
constexpr double kRounding = 1e-9;

bool same_time(double a_s, double b_s) { return std::abs(a_s - b_s) <= kRounding * b_s; }

int largest(const std::vector<int>& values) { return *std::ranges::max_element(values); }

/// Activations that an order holds in memory, compared with the given order.
std::string activations_text(const schedule::Schedule& order, const schedule::Schedule& given) {
  const int held = largest(peak_in_flight_activations(order));
  const int of_given = largest(peak_in_flight_activations(given));
  if (held == of_given) return fmt::format("{} activations, like the given order", held);
  return fmt::format("{} activations instead of {}", held, of_given);
}

/// Makes the rows of a comparison.
class Comparer {
 public:
  Comparer(const ProfiledPipeline& pipeline, planner::PipelinePlanner& planner, const ComparisonOptions& options,
           Progress* progress)
      : pipeline_(&pipeline),
        given_{pipeline.problem(), &planner, options.frontier_time_s},
        options_(&options),
        progress_(progress) {
    given_.full_clocks_s = full_clocks_s(given_.problem, options);
  }

  /// Of the rows that were made, the fastest of each order.
  [[nodiscard]] std::vector<std::string> findings() const {
    std::vector<std::string> found;
    for (const auto& [pipeline, row] : fastest_) {
      const auto finding = faster_than_full_clocks(row.time_s, pipeline->full_clocks_s);
      if (finding) found.push_back(fmt::format("policy {}: {}", row.policy, *finding));
    }
    return found;
  }

  /// Throws InputError where the policy cannot plan the pipeline.
  [[nodiscard]] ComparisonRow policy_row(const std::string& name, PolicyAnswer found) {
    if (!found.refusal.empty()) throw InputError(found.refusal);
    planner::PolicyPlan& answer = found.plan;
    ComparisonRow row;
    row.plan_time_s = found.plan_time_s;
    row.policy = name;
    row.own_time_s = answer.own_time_s;
    row.own_energy_j = answer.own_energy_j;
    row.note = answer.note;
    if (!answer.schedule) {
      set_replayed(row, given_, answer.choices());
      return row;
    }
    row.own_order = true;
    row.note += fmt::format("{}runs its own order, which holds up to {}", row.note.empty() ? "" : "; ",
                            activations_text(*answer.schedule, pipeline_->schedule));
    auto& own = own_orders_[name];
    own = std::make_unique<OwnOrder>(std::move(*answer.schedule), *pipeline_, *options_, progress_);
    set_replayed(row, own->pipeline, answer.choices());
    return row;
  }

  /// Lowgear's plan in the order and for the time of a policy that runs an order of its own.
  [[nodiscard]] ComparisonRow lowgear_row_in_order_of(const ComparisonRow& other) {
    const PlannedPipeline& pipeline = own_orders_.at(other.policy)->pipeline;
    ComparisonRow row = lowgear_row(fmt::format("time and order of {}", other.policy), pipeline,
                                    std::max(other.time_s, pipeline.planner->fastest_s()));
    row.own_order = true;
    add_frontier_time(row, pipeline);
    return row;
  }

  /// Rows of Lowgear's plans in the given order: for T_min, and for the time of every other row where that is later.
  [[nodiscard]] std::vector<ComparisonRow> lowgear_rows(std::span<const ComparisonRow> others) {
    std::vector<ComparisonRow> rows{lowgear_row("T_min", given_, given_.planner->fastest_s())};
    add_frontier_time(rows.front(), given_);
    std::vector<double> planned_s{given_.planner->fastest_s()};
    for (const ComparisonRow& other : others) {
      if (other.policy == planner::kLowgearPolicy) continue;
      const auto same = [&](double time_s) { return same_time(other.time_s, time_s); };
      if (other.time_s < planned_s.front() || std::ranges::any_of(planned_s, same)) continue;
      planned_s.push_back(other.time_s);
      rows.push_back(lowgear_row("time of " + other.policy, given_, other.time_s));
    }
    return rows;
  }

 private:
  [[nodiscard]] ComparisonRow lowgear_row(std::string aim, const PlannedPipeline& pipeline, double deadline_s) {
    ComparisonRow row;
    const PlanTimer timer(options_->now_s);
    const plan::Plan plan = pipeline.planner->plan(deadline_s);
    row.plan_time_s = timer.elapsed_s();
    row.policy = planner::kLowgearPolicy;
    row.aim = std::move(aim);
    set_replayed(row, pipeline, choices_for(plan, *pipeline.problem.dag));
    const double least_energy_s = pipeline.planner->slowest_s();
    if (deadline_s > least_energy_s && !same_time(deadline_s, least_energy_s)) {
      row.note = fmt::format("ends before the {:.4f} s that it may take: more time than {:.4f} s saves no more energy",
                             deadline_s, least_energy_s);
    }
    return row;
  }

  static void add_frontier_time(ComparisonRow& row, const PlannedPipeline& pipeline) {
    if (row.plan_time_s) *row.plan_time_s += pipeline.frontier_time_s;
    row.note += fmt::format("{}its plan time covers the whole frontier and this plan", row.note.empty() ? "" : "; ");
  }

  void set_replayed(ComparisonRow& row, const PlannedPipeline& pipeline, const plan::OpChoicesView& choices) {
    const simulator::Timeline timeline =
        replay_under(pipeline.problem, choices, {options_->planner.switch_latency_s, {}});
    row.time_s = timeline.time_s;
    row.energy_j = timeline.energy_j_total;
    row.lower_bound_j = pipeline.planner->frontier().lower_bound_j_at(ps_from_s(row.time_s));
    row.switches = count_switches(planned_ops(*pipeline.problem.dag, timeline, choices));
    row.peak_activations = largest(peak_in_flight_activations(*pipeline.problem.schedule));
    const auto [fastest, is_new] = fastest_.try_emplace(&pipeline, row);
    if (row.time_s < fastest->second.time_s) fastest->second = row;
    if (!options_->late_s) return;
    const simulator::Timeline late = replay_under(pipeline.problem, choices, {*options_->late_s, {}});
    row.late_time_s = late.time_s;
    row.late_energy_j = late.energy_j_total;
  }

  const ProfiledPipeline* pipeline_;
  PlannedPipeline given_;
  const ComparisonOptions* options_;
  Progress* progress_;
  std::map<std::string, std::unique_ptr<OwnOrder>> own_orders_;  ///< by policy
  std::map<const PlannedPipeline*, ComparisonRow> fastest_;      ///< row of each order
};

}  // namespace

std::string ComparisonRow::label() const { return aim.empty() ? policy : fmt::format("{} ({})", policy, aim); }

PolicyAnswers answers_of_policies(const ProfiledPipeline& pipeline, const ComparisonOptions& options,
                                  Progress* progress) {
  std::vector<std::string> names{options.baseline};
  names.insert(names.end(), options.policies.begin(), options.policies.end());
  PolicyAnswers answers;
  for (const std::string& name : names) {
    if (name == planner::kLowgearPolicy || answers.contains(name)) continue;
    if (progress != nullptr) progress->update(fmt::format("planning with {}", name), -1);
    PolicyAnswer& answer = answers[name];
    const PlanTimer timer(options.now_s);
    try {
      planner::PlanningProblem problem = pipeline.problem(progress);
      problem.extra_activations = options.extra_activations;
      answer.plan = options.table.make(name)->plan(problem, std::nullopt);
      answer.plan_time_s = timer.elapsed_s();
    } catch (const InputError& error) {
      answer.refusal = error.what();
    }
  }
  return answers;
}

namespace {

/// Why policies cannot plan the pipeline: a reason that several have is listed once.
class Refusals {
 public:
  void add(const std::string& policy, std::string reason) {
    const std::string own = policy + ": ";
    if (reason.starts_with(own)) reason.erase(0, own.size());
    const auto same = std::ranges::find(refusals_, reason, &Refusal::reason);
    if (same == refusals_.end()) {
      refusals_.push_back({policy, std::move(reason)});
    } else {
      same->policies += ", " + policy;
    }
  }

  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& [policies, reason] : refusals_) lines.push_back(fmt::format("{}: {}", policies, reason));
    return lines;
  }

 private:
  struct Refusal {
    std::string policies;
    std::string reason;
  };
  std::vector<Refusal> refusals_;
};

}  // namespace

PolicyComparison compare_policies(const ProfiledPipeline& pipeline, planner::PipelinePlanner& planner,
                                  const ComparisonOptions& options, Progress* progress) {
  return compare_policies(pipeline, planner, options, answers_of_policies(pipeline, options, progress), progress);
}

PolicyComparison compare_policies(const ProfiledPipeline& pipeline, planner::PipelinePlanner& planner,
                                  const ComparisonOptions& options, PolicyAnswers answers, Progress* progress) {
  Comparer comparer(pipeline, planner, options, progress);
  PolicyComparison comparison;
  comparison.baseline = comparer.policy_row(options.baseline, answers.at(options.baseline));
  const auto tell = [progress](std::string_view name) {
    if (progress != nullptr) progress->update(fmt::format("planning with {}", name), -1);
  };
  Refusals refusals;
  bool with_lowgear = false;
  for (const std::string& name : options.policies) {
    with_lowgear = with_lowgear || name == planner::kLowgearPolicy;
    if (name == planner::kLowgearPolicy) continue;
    try {
      comparison.rows.push_back(name == options.baseline ? comparison.baseline
                                                         : comparer.policy_row(name, std::move(answers.at(name))));
      if (comparison.rows.back().own_order) {
        comparison.rows.push_back(comparer.lowgear_row_in_order_of(comparison.rows.back()));
      }
    } catch (const InputError& error) {
      refusals.add(name, error.what());
    }
  }
  comparison.skipped = refusals.lines();
  if (!with_lowgear) {
    comparison.findings = comparer.findings();
    return comparison;
  }
  tell(planner::kLowgearPolicy);
  const std::vector<ComparisonRow> rows = comparer.lowgear_rows(comparison.rows);
  comparison.rows.insert(comparison.rows.end(), rows.begin(), rows.end());
  comparison.findings = comparer.findings();
  return comparison;
}

double saving_pct(const ComparisonRow& row, const ComparisonRow& baseline) {
  return 100 * (baseline.energy_j - row.energy_j) / baseline.energy_j;
}

double slowdown_pct(const ComparisonRow& row, const ComparisonRow& baseline) {
  return 100 * (row.time_s - baseline.time_s) / baseline.time_s;
}

}  // namespace lowgear::api
