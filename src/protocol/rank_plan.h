#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/plan/plan_json.h"

namespace lowgear::protocol {

/// The purpose of a plan.
enum class PlanPurpose : unsigned char {
  baseline,  ///< full clocks: later plans are compared with their time and energy
  profile,   ///< full clocks, between which other clocks are tried out in single iterations
  train,
  full_clocks,  ///< in place of a plan for training; earlier releases read it as `train`
};
[[nodiscard]] std::string_view name(PlanPurpose purpose);
/// The job trains by such a plan; with others the server measures it.
[[nodiscard]] constexpr bool is_for_training(PlanPurpose purpose) {
  return purpose == PlanPurpose::train || purpose == PlanPurpose::full_clocks;
}

/// Purpose and begin of a plan: the common part of a rank's plan and of the version that the server keeps.
struct PlanHead {
  int version = 0;  ///< counts up from 1
  PlanPurpose purpose = PlanPurpose::train;
  std::int64_t from_iteration = 0;
  std::string reason;
  int iterations = 0;         ///< of baseline plans: that count; 0 in others
  int settle_iterations = 0;  ///< of baseline plans: before those; of profile plans: after each change of clock
  std::vector<plan::ClockTrial> trials;  ///< of profile plans
  double settle_s = 0;                   ///< of profile plans: after each change of clock, not counted
  int sweep = 0;                         ///< of profile plans: plans of one sweep are measured together
  double time_s = 0;                     ///< planned, of the job's iteration; 0: not known
  double energy_j = 0;                   ///< planned, of all GPUs; 0: not known
  friend bool operator==(const PlanHead&, const PlanHead&) = default;
};

[[nodiscard]] Json to_json(const PlanHead& head);
/// The head of a document that has more members. Members that other releases leave out have defaults, and an unknown
/// purpose is read as `train`: a rank follows such a plan, too. Throws InputError with the JSON path.
[[nodiscard]] PlanHead read_plan_head(const JsonView& document);
/// Whether the text names a purpose that this release knows.
[[nodiscard]] bool is_plan_purpose(std::string_view text);

/// A rank's plan as the server hands it out: the answer to GET .../plan (docs/server-api.md).
struct RankPlan : PlanHead {
  std::string plan_json;  ///< lowgear.plan/1; this rank is its first
  friend bool operator==(const RankPlan&, const RankPlan&) = default;
};

[[nodiscard]] std::string write_rank_plan(const RankPlan& plan);
/// Checks the plan before an agent gets it. Throws InputError when it is none.
[[nodiscard]] RankPlan read_rank_plan(std::string_view text, const std::string& source);

}  // namespace lowgear::protocol
