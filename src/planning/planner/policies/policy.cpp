#include "planning/planner/policies/policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "base/core/error.h"
#include "base/core/text.h"
#include "planning/plan/plan.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/envpipe/envpipe.h"
#include "planning/planner/policies/envpipe/envpipe_offline.h"
#include "planning/planner/policies/perseus.h"
#include "planning/planner/policies/zeus.h"

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

 private:
  std::unique_ptr<Policy> policy_;
};

/// A policy without settings.
template <typename P>
std::unique_ptr<Policy> make(const PolicySettings& /*settings*/) {
  return std::make_unique<P>();
}

std::unique_ptr<Policy> make_perseus(const PolicySettings& settings) {
  return std::make_unique<PerseusPolicy>(settings.perseus);
}

std::unique_ptr<Policy> make_envpipe_offline(const PolicySettings& settings) {
  return std::make_unique<EnvPipeOfflinePolicy>(settings.perseus.unit_s);
}

std::unique_ptr<Policy> make_envpipe(const PolicySettings& settings) {
  return std::make_unique<EnvPipePolicy>(settings.envpipe);
}

struct Entry {
  std::string_view name;
  std::unique_ptr<Policy> (*make)(const PolicySettings& settings);
};

constexpr auto kPolicies = std::to_array<Entry>({
    {"max", make<MaxClockPolicy>},
    {"zeus-global", make<ZeusGlobalPolicy>},
    {"zeus-per-stage", make<ZeusPerStagePolicy>},
    {"envpipe", make_envpipe},
    {"envpipe-offline", make_envpipe_offline},
    {"perseus", make_perseus},
    {kLowgearPolicy, make<LowgearPolicy>},
});

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  names.reserve(kPolicies.size());
  for (const Entry& entry : kPolicies) names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<Policy> make_policy(std::string_view name, const PolicySettings& settings) {
  std::vector<std::string_view> names;
  for (const Entry& entry : kPolicies) {
    if (entry.name == kLowgearPolicy && entry.name == name) return entry.make(settings);
    if (entry.name == name) return std::make_unique<AtFastestSettings>(entry.make(settings));
    names.push_back(entry.name);
  }
  const auto nearest = nearest_name(name, names);
  throw InputError(fmt::format("no policy is called {}; {}there are {}", quote(name),
                               nearest ? fmt::format("did you mean {}? ", *nearest) : "", fmt::join(names, ", ")));
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
  if (deadline_s) plan.note = "knows no deadline";
  return plan;
}

}  // namespace lowgear::planner
