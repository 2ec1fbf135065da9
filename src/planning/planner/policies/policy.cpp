#include "planning/planner/policies/policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/core/error.h"
#include "base/core/text.h"
#include "planning/plan/plan.h"
#include "planning/planner/policies/clock_choice.h"

namespace lowgear::planner {

namespace {

/// Policies that choose clocks: of a profile with settings each sees, at every clock, the fastest one, and runs with
/// it.
class AtFastestSettings final : public Policy {
 public:
  explicit AtFastestSettings(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}

  [[nodiscard]] std::string_view name() const override { return policy_->name(); }

  [[nodiscard]] PolicyPlan plan(const PlanningProblem& problem, std::optional<double> deadline_s) const override {
    if (!problem.profile->has_settings()) return policy_->plan(problem, deadline_s);
    const profile::StageProfile reduced = at_fastest_settings(*problem.profile);
    PlanningProblem of_clocks = problem;
    of_clocks.profile = &reduced;
    PolicyPlan plan = policy_->plan(of_clocks, deadline_s);
    const schedule::PipelineDag dag = plan.schedule ? build_dag(*plan.schedule) : *problem.dag;
    plan.settings = fastest_settings(dag, reduced, plan.clocks_mhz).settings;
    if (!plan.note.empty()) plan.note += "; ";
    plan.note += "chooses clocks, each with its fastest setting";
    return plan;
  }

  [[nodiscard]] bool may_reorder() const override { return policy_->may_reorder(); }
  [[nodiscard]] std::vector<simulator::PipelineFigures> frontier(const PlanningProblem& problem) const override {
    return policy_->frontier(problem);
  }

 private:
  std::unique_ptr<Policy> policy_;
};

}  // namespace

PolicyTable::PolicyTable(std::vector<PolicyEntry> others) {
  entries_.push_back({"max", [] { return std::make_unique<MaxClockPolicy>(); }});
  std::ranges::move(others, std::back_inserter(entries_));
  entries_.push_back({std::string(kLowgearPolicy), [] { return std::make_unique<LowgearPolicy>(); }});
}

std::vector<std::string> PolicyTable::names() const {
  std::vector<std::string> names;
  for (const PolicyEntry& entry : entries_) names.push_back(entry.name);
  return names;
}

std::vector<std::string> PolicyTable::other_names(bool with_frontiers) const {
  std::vector<std::string> names;
  for (const PolicyEntry& entry : entries_) {
    if (entry.name == kLowgearPolicy || (entry.solves_frontier && !with_frontiers)) continue;
    names.push_back(entry.name);
  }
  return names;
}

std::unique_ptr<Policy> PolicyTable::make(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &PolicyEntry::name);
  if (found != entries_.end()) {
    if (name == kLowgearPolicy) return found->make();
    return std::make_unique<AtFastestSettings>(found->make());
  }
  const std::vector<std::string> all = names();
  const auto nearest = nearest_name(name, std::vector<std::string_view>(all.begin(), all.end()));
  throw InputError(fmt::format("no policy is called {}; {}there are {}", quote(name),
                               nearest ? fmt::format("did you mean {}? ", *nearest) : "", fmt::join(all, ", ")));
}

PolicyPlan LowgearPolicy::plan(const PlanningProblem& problem, std::optional<double> deadline_s) const {
  PipelinePlanner planner(*problem.schedule, *problem.profile, problem.blocking_power_w, options_, {},
                          problem.progress);
  const plan::Plan plan = planner.plan(deadline_s.value_or(planner.fastest_s()));
  plan::OpChoices choices = choices_for(plan, planner.dag());
  PolicyPlan answer;
  answer.clocks_mhz = std::move(choices.clocks_mhz);
  answer.settings = std::move(choices.settings);
  answer.own_time_s = plan.time_s;
  answer.own_energy_j = plan.energy_j;
  answer.note = fmt::format("at most {:.3f} % above the least energy possible", plan.gap_pct().value_or(0));
  return answer;
}

PolicyPlan MaxClockPolicy::plan(const PlanningProblem& problem, std::optional<double> deadline_s) const {
  PolicyPlan plan;
  plan.clocks_mhz = max_clocks_mhz(problem);
  if (deadline_s) plan.note = "ignores the deadline";
  return plan;
}

}  // namespace lowgear::planner
