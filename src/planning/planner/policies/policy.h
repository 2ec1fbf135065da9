#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/progress.h"
#include "planning/plan/plan.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/schedule.h"
#include "planning/simulator/cluster.h"

namespace lowgear::planner {

/// Receives each step of a policy that works in steps, as text.
using StepReceiver = std::function<void(std::string_view text)>;

/// The input of a policy: a profiled pipeline on a schedule.
struct PlanningProblem {
  const schedule::Schedule* schedule = nullptr;    ///< never null; compute actions only
  const schedule::PipelineDag* dag = nullptr;      ///< never null; of that schedule
  const profile::StageProfile* profile = nullptr;  ///< never null
  std::span<const double> blocking_power_w;        ///< by rank
  /// Hears of plans that take long, and may throw to stop them; may be null.
  Progress* progress = nullptr;
  const StepReceiver* steps = nullptr;  ///< may be null
  /// Activations that fit into memory beyond those of 1F1B, by stage, for policies that choose an order; empty: not
  /// stated.
  std::span<const int> extra_activations = {};
};

/// The name of Lowgear's own planner among the policies.
inline constexpr std::string_view kLowgearPolicy = "lowgear";

/// A policy's result. Its time and energy are computed by replaying the clocks, in the same way for all policies.
struct PolicyPlan {
  std::optional<schedule::Schedule>
      schedule;                            ///< set when the policy runs another order than it was given (EnvPipe's own)
  std::vector<int> clocks_mhz;             ///< by op of the graph of that schedule
  std::vector<std::string> settings = {};  ///< by op, where the profile has settings
  /// Time and energy by the policy's own model, if it has one (Perseus' exponential fit).
  std::optional<double> own_time_s;
  std::optional<double> own_energy_j;
  std::string note;  ///< a note for readers of a comparison, in one line; may be empty

  [[nodiscard]] plan::OpChoicesView choices() const { return {clocks_mhz, settings}; }
};

/// A way to choose clocks. Pure: the same problem gives the same plan.
class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// The plan for an iteration time of at most `deadline_s`; without one, the fastest plan that the policy knows.
  /// Policies that cannot aim at a time say so in the note and ignore it.
  /// Throws InputError when the deadline cannot be met by a policy that can aim at one.
  [[nodiscard]] virtual PolicyPlan plan(const PlanningProblem& problem, std::optional<double> deadline_s) const = 0;
  /// Whether its plans may have another order than the given one.
  [[nodiscard]] virtual bool may_reorder() const { return false; }
  /// The frontier of the policy's own model, fastest first; empty for a policy without one. May take long.
  [[nodiscard]] virtual std::vector<simulator::PipelineFigures> frontier(const PlanningProblem& /*problem*/) const {
    return {};
  }
};

/// A policy that a program offers.
struct PolicyEntry {
  std::string name;
  std::function<std::unique_ptr<Policy>()> make;
  /// Solves a frontier of its own, which takes long where Lowgear's is not exact.
  bool solves_frontier = false;
};

/// The policies that a program offers, in the order in which comparisons show them: `max`, those that the program
/// passes (rivals/policies/published_policies.h), and `lowgear`. The planner itself knows the first and the last.
class PolicyTable {
 public:
  explicit PolicyTable(std::vector<PolicyEntry> others = {});

  [[nodiscard]] std::vector<std::string> names() const;
  /// All but Lowgear's; without policies that solve a frontier where `with_frontiers` is false.
  [[nodiscard]] std::vector<std::string> other_names(bool with_frontiers = true) const;
  /// Throws InputError naming the policies that exist, and what the policy's constructor throws.
  [[nodiscard]] std::unique_ptr<Policy> make(std::string_view name) const;

 private:
  std::vector<PolicyEntry> entries_;
};

/// Lowgear's own planner with the interface of the published policies: the best plan found for the deadline, or for
/// T_min without one. Its own figures are the replayed ones.
class LowgearPolicy final : public Policy {
 public:
  explicit LowgearPolicy(PlannerOptions options = {}) : options_(options) {}
  [[nodiscard]] std::string_view name() const override { return kLowgearPolicy; }
  [[nodiscard]] PolicyPlan plan(const PlanningProblem& problem, std::optional<double> deadline_s) const override;

 private:
  PlannerOptions options_;
};

/// Every op at the highest clock it was profiled at: an unplanned run. The baseline of savings.
class MaxClockPolicy final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "max"; }
  [[nodiscard]] PolicyPlan plan(const PlanningProblem& problem, std::optional<double> deadline_s) const override;
};

}  // namespace lowgear::planner
