#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/core/progress.h"
#include "planning/plan/plan.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/planners/latency_planner.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/schedule.h"

namespace lowgear::planner {

enum class FrontierMethod {
  automatic,  ///< `exact`, or `sandwich` when that would take long
  exact,      ///< every vertex
  sandwich,   ///< between proven bounds at most epsilon apart: for many stages that all differ
};

/// `automatic`, `exact`, `sandwich`.
[[nodiscard]] std::string_view name(FrontierMethod method);

struct PlannerOptions {
  FrontierMethod method = FrontierMethod::automatic;
  double epsilon = 1e-3;  ///< of the sandwich: largest relative distance between energy and bound
  PlanGranularity granularity = PlanGranularity::per_op;
  double switch_latency_s = 0;  ///< how late a clock change takes effect (`costs_with_switch_latency`)
  friend bool operator==(const PlannerOptions&, const PlannerOptions&) = default;
};

/// Lowgear's planner for one profiled pipeline: solves the frontier once, then makes certified plans for deadlines.
class PipelinePlanner {
 public:
  /// `blocking_power_w` by rank. `progress` may be null; else it must outlive the planner, as plans report to it, too.
  /// Throws InputError when the profile lacks a cell of the schedule, or has settings and the options a switch
  /// latency. The other arguments are copied; observers (for certificates) are shown every vertex during construction.
  PipelinePlanner(const schedule::Schedule& schedule, const profile::StageProfile& profile,
                  std::span<const double> blocking_power_w, const PlannerOptions& options,
                  std::span<FrontierObserver* const> observers = {}, Progress* progress = nullptr);
  ~PipelinePlanner();
  PipelinePlanner(const PipelinePlanner&) = delete;
  PipelinePlanner& operator=(const PipelinePlanner&) = delete;
  PipelinePlanner(PipelinePlanner&&) noexcept;
  PipelinePlanner& operator=(PipelinePlanner&&) noexcept;

  [[nodiscard]] const Frontier& frontier() const;
  [[nodiscard]] const schedule::PipelineDag& dag() const;
  /// The method that was used; never `automatic`.
  [[nodiscard]] FrontierMethod method() const;
  /// T_min and T*, in seconds. T_min is the least deadline that `plan` keeps, the switch latency included; without
  /// latency it is the frontier's. T* is the frontier's, or T_min where that is later.
  [[nodiscard]] double fastest_s() const;
  [[nodiscard]] double slowest_s() const;

  /// The plan of least energy found whose replayed iteration time is at most `deadline_s`, with its certified lower
  /// bound: there is one for every deadline from T_min on. A deadline beyond T* gives the plan of T*: a slower one
  /// would use more energy. It is the same whatever other deadlines were planned for. Throws InputError, naming T_min,
  /// when the deadline is below it.
  [[nodiscard]] plan::Plan plan(double deadline_s);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowgear::planner
