#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planning/planner/policies/policy.h"
#include "rivals/policies/envpipe/envpipe_config.h"
#include "rivals/policies/envpipe/envpipe_sweep.h"

namespace lowgear::policies {

/// EnvPipe (Choi et al., USENIX ATC 2023) as its authors built it: a closed loop around a running training, here around
/// simulated iterations.
///   1. Profiles, in the given order: all stages together at one clock after the other (but for `uniform`, the last
///   stage stays at its
///      highest); each stage keeps the clock at which it used least energy per iteration, blocking included.
///   2. Orders: `own` delays the first backward of stage s by as many slow forwards as fit into the wait for it.
///   3. Reconfigures, one training step at a time (EnvPipeReconfiguration), on simulated receives.
/// Differences: without a start clock the profiled clocks start at the highest one (EnvPipe takes multiples of 90 MHz,
/// which leaves A100's 1410 MHz out); an order that could hang is not made (envpipe_extra_forwards).
class EnvPipePolicy final : public planner::Policy {
 public:
  /// Throws InputError as `require_valid`.
  explicit EnvPipePolicy(const EnvPipeOptions& options = {});

  [[nodiscard]] std::string_view name() const override { return "envpipe"; }
  /// Ignores the deadline. The note says how many training steps the loop takes, and where memory left EnvPipe fewer
  /// early forwards than its rule asks for. Steps are those of the reconfiguration, as EnvPipe prints them. Throws
  /// InputError when the stages share no clock, when a stage has none between the lowest and the start clock, when
  /// there are extra activations for another number of stages, or when the own order is asked for and rank s does not
  /// run just stage s, with whole backwards.
  [[nodiscard]] planner::PolicyPlan plan(const planner::PlanningProblem& problem,
                                         std::optional<double> deadline_s) const override;
  [[nodiscard]] bool may_reorder() const override { return options_.order == EnvPipeOptions::Order::own; }

 private:
  EnvPipeOptions options_;
};

/// The profile without clocks that EnvPipe does not use. Throws InputError where none is left.
[[nodiscard]] profile::StageProfile envpipe_profile(const profile::StageProfile& whole, const EnvPipeOptions& options);

/// What EnvPipe's profiling finds: step 1 above. Throws InputError as the policy's plan.
[[nodiscard]] EnvPipeFindings envpipe_findings(const planner::PlanningProblem& problem, const EnvPipeOptions& options);
/// The same for its own order of a pipeline with one stage per rank and whole backwards: of `options` only the clocks
/// count. Throws InputError also where the profile lacks a forward or backward.
[[nodiscard]] EnvPipeFindings envpipe_order_findings(const profile::StageProfile& profile,
                                                     std::span<const double> blocking_power_w, int microbatches,
                                                     EnvPipeOptions options);
/// The clocks of least energy in it, by rank. Throws InputError as the policy's
/// plan.
[[nodiscard]] std::vector<int> envpipe_valley_clocks_mhz(const planner::PlanningProblem& problem,
                                                         const EnvPipeOptions& options);

}  // namespace lowgear::policies
