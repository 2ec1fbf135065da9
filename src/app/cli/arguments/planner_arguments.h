#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "planning/plan/plan_sampling.h"
#include "planning/planner/exponential/perseus_options.h"
#include "planning/planner/planners/pipeline_planner.h"

namespace lowgear::cli {

/// `--switch-latency`, and where it came from.
struct SwitchLatencyArgument {
  std::optional<double> latency_ms;
  bool is_from_profile = false;
  bool ask_ahead = false;  ///< `--ask-ahead`
  double lead_s = 0;       ///< how long before a unit the agent asks for its clock

  [[nodiscard]] bool is_known() const { return latency_ms.has_value(); }
  /// 0 where it is not known.
  [[nodiscard]] double latency_s() const { return latency_ms.value_or(0) * 1e-3; }
  /// How late clocks change after their units begin.
  [[nodiscard]] double late_by_s() const { return std::max(0.0, latency_s() - lead_s); }
  /// Latency with which plans are also replayed when the real one is not known (kAssumedSwitchLatencyS).
  [[nodiscard]] std::optional<double> late_s() const;
  /// `given`, `profile` or `unknown`.
  [[nodiscard]] std::string_view source() const;
  /// Takes that of the profile, if it has one, where none was given. Throws InputError when `--ask-ahead` was given,
  /// and the latency is not known or longer than plan::kMaxClockLeadS.
  void complete_from(std::optional<double> of_profile_s);
};

/// Settings of Lowgear's own planner on the command line.
struct PlannerArguments {
  planner::FrontierMethod method = planner::FrontierMethod::automatic;
  double epsilon = planner::PlannerOptions{}.epsilon;
  planner::PlanGranularity granularity = planner::PlanGranularity::per_op;
  SwitchLatencyArgument switch_latency;
};

/// `--frontier`, `--epsilon`, `--granularity`, `--switch-latency`.
void add_planner_options(CLI::App& app, PlannerArguments& arguments);
/// `--switch-latency` alone, in milliseconds.
void add_switch_latency_option(CLI::App& app, SwitchLatencyArgument& argument);
/// `--ask-ahead`.
void add_ask_ahead_option(CLI::App& app, SwitchLatencyArgument& argument);
/// Settings of the policy `perseus` on the command line.
struct PerseusArguments {
  double unit_s = planner::kPerseusUnitS;
  planner::NoiseTolerance noise;
  std::string initial_guess;  ///< file; empty: none
};

/// `--perseus-unit`, in seconds, and the other options of lowtime's perseus.py, with that prefix.
void add_perseus_options(CLI::App& app, PerseusArguments& arguments);
/// Throws InputError when an option that only the policy perseus uses was given, and that policy does not plan.
void refuse_unused_perseus_options(const CLI::App& app, bool plans_perseus);
/// Reads the file of the initial guess. Throws InputError where that cannot be read.
[[nodiscard]] planner::PerseusOptions perseus_options(const PerseusArguments& arguments);
/// An option that takes `all`, a number of plans or `every:N`.
CLI::Option* add_plan_sampling_option(CLI::App& app, const std::string& name,
                                      std::optional<plan::PlanSampling>& sampling, const std::string& help);

[[nodiscard]] planner::PlannerOptions planner_options(const PlannerArguments& arguments);

}  // namespace lowgear::cli
