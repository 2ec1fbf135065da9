#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planning/api/job_planner.h"
#include "planning/api/plan_request.h"
#include "planning/plan/plan.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "rivals/policies/perseus/exponential_fit.h"

namespace lowgear::cli {

/// `--switch-latency` and `--ask-ahead`: how late clocks change, and whether the agent requests them ahead.
struct SwitchLatencyArgument {
  enum class Source : std::uint8_t { unknown, given, profile, assumed, plan_before };

  std::optional<double> latency_s;
  Source source = Source::unknown;
  bool asks_ahead = true;  ///< of plans that are made: `--no-ask-ahead` clears it
  double lead_s = 0;       ///< how long before a unit the agent requests its clock

  /// How late clocks change after their units begin. 0 for an unknown latency.
  [[nodiscard]] double late_by_s() const { return std::max(0.0, latency_s.value_or(0) - lead_s); }
  /// Latency of a second replay where the real one is not known: kAssumedSwitchLatencyS.
  [[nodiscard]] std::optional<double> late_s() const;
  /// Latency of a second replay of plans whose clocks are requested ahead, as if they were requested when their units
  /// begin; empty where they are.
  [[nodiscard]] std::optional<double> requests_at_begin_s() const { return lead_s > 0 ? latency_s : std::nullopt; }
  /// Without `--switch-latency`, uses the profile's latency, if the profile has one.
  void complete_from(std::optional<double> of_profile_s);
  /// The same for a plan that is made: assumes kAssumedSwitchLatencyS where the profile has none, and sets `lead_s`.
  /// Throws InputError when the latency is longer than plan::kMaxClockLeadS and the agent is to request ahead.
  void complete_for_plan(std::optional<double> of_profile_s);
};

[[nodiscard]] std::string_view name(SwitchLatencyArgument::Source source);

/// Settings of Lowgear's own planner on the command line.
struct PlannerArguments {
  planner::FrontierMethod method = planner::FrontierMethod::automatic;
  double epsilon = planner::PlannerOptions{}.epsilon;
  planner::PlanGranularity granularity = planner::PlanGranularity::per_op;
  SwitchLatencyArgument switch_latency;
};

/// `--frontier`, `--epsilon`, `--granularity`, `--switch-latency`.
void add_planner_options(CLI::App& app, PlannerArguments& arguments);
/// `--switch-latency` alone: milliseconds, or `instant`.
void add_switch_latency_option(CLI::App& app, SwitchLatencyArgument& argument);
/// `--ask-ahead` and `--no-ask-ahead`; with them an unknown latency is assumed, as the help of `--switch-latency` then
/// says.
void add_ask_ahead_option(CLI::App& app, SwitchLatencyArgument& argument);
/// Settings of the policy `perseus` on the command line.
struct PerseusArguments {
  double unit_s = policies::kPerseusUnitS;
  policies::NoiseTolerance noise;
  std::string initial_guess;  ///< file; empty: none
};

/// `--perseus-unit`, in seconds, and the other options of lowtime's perseus.py, with that prefix.
void add_perseus_options(CLI::App& app, PerseusArguments& arguments);
/// Throws InputError when an option that only the policy perseus uses was given, and that policy does not plan.
void refuse_unused_perseus_options(const CLI::App& app, bool plans_perseus);
/// Reads the file of the initial guess. Throws InputError where that cannot be read.
[[nodiscard]] policies::PerseusOptions perseus_options(const PerseusArguments& arguments);
/// An option that takes `all`, a number of plans or `every:N`.
CLI::Option* add_plan_sampling_option(CLI::App& app, const std::string& name,
                                      std::optional<plan::PlanSampling>& sampling, const std::string& help);

[[nodiscard]] planner::PlannerOptions planner_options(const PlannerArguments& arguments);

/// `--deadline`, `--slowdown` and `--straggler`, which exclude each other.
void add_single_deadline_options(CLI::App& app, api::Deadlines& deadlines);
/// `--deadline`, `--slowdown`, `--straggler` and `--plans`, which exclude each other.
void add_deadline_options(CLI::App& app, api::Deadlines& deadlines);

/// `--slow-rank` and `--power-cap`.
void add_request_options(CLI::App& app, api::PlanRequest& request);

}  // namespace lowgear::cli
