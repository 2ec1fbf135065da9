#pragma once

#include <CLI/CLI.hpp>

#include "cli/pipeline_input.h"
#include "planner/pipeline_planner.h"
#include "report/report_data.h"

namespace lowgear {

/// Settings of Lowgear's own planner on the command line.
struct PlannerArguments {
  FrontierMethod method = FrontierMethod::automatic;
  double epsilon = PlannerOptions{}.epsilon;
  PlanGranularity granularity = PlanGranularity::per_op;
  double switch_latency_ms = 0;

  [[nodiscard]] double switch_latency_s() const { return switch_latency_ms * 1e-3; }
};

/// `--frontier`, `--epsilon`, `--granularity`, `--switch-latency`.
void add_planner_options(CLI::App& app, PlannerArguments& arguments);
/// `--switch-latency` alone, in milliseconds.
void add_switch_latency_option(CLI::App& app, double& latency_ms);
/// `--perseus-unit`, in seconds.
void add_perseus_unit_option(CLI::App& app, double& unit_s);

[[nodiscard]] PlannerOptions planner_options(const PlannerArguments& arguments);

/// Vertices as the report shows them.
[[nodiscard]] std::vector<ReportPoint> frontier_points(const Frontier& frontier);
/// The lower bound at the same times; empty for an exact frontier, which is its own bound.
[[nodiscard]] std::vector<ReportPoint> lower_bound_points(const Frontier& frontier, FrontierMethod method);

}  // namespace lowgear
