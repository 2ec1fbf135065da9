#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/policy.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"

namespace lowgear::planner {

/// A planning problem together with everything that it points to.
class SampleProblem {
 public:
  SampleProblem(schedule::Schedule schedule, profile::StageProfile profile, double blocking_power_w)
      : schedule_(std::move(schedule)),
        dag_(build_dag(schedule_)),
        profile_(std::move(profile)),
        blocking_power_w_(static_cast<std::size_t>(schedule_.rank_count()), blocking_power_w) {}

  [[nodiscard]] PlanningProblem problem() const { return {&schedule_, &dag_, &profile_, blocking_power_w_}; }
  [[nodiscard]] const schedule::PipelineDag& dag() const { return dag_; }
  [[nodiscard]] const profile::StageProfile& profile() const { return profile_; }

 private:
  schedule::Schedule schedule_;
  schedule::PipelineDag dag_;
  profile::StageProfile profile_;
  std::vector<double> blocking_power_w_;
};

/// A GPU by a small model: time = work x (0.3 + 0.7 x 1410 / clock), power = 90 W + 210 W x (clock / 1410)^2.5.
/// `work_s` is the forward's time at 1410 MHz by stage; the backward takes twice as long.
inline profile::StageProfile modelled_profile(const std::vector<double>& work_s, int lowest_mhz = 855) {
  constexpr int kMaxMhz = 1410;
  constexpr int kStepMhz = 15;
  profile::StageProfile profile(static_cast<int>(work_s.size()));
  for (std::size_t stage = 0; stage < work_s.size(); ++stage) {
    for (int clock = kMaxMhz; clock >= lowest_mhz; clock -= kStepMhz) {
      const double speed = static_cast<double>(clock) / kMaxMhz;
      const double time_s = work_s[stage] * (0.3 + 0.7 / speed);
      const double power_w = 90 + 210 * std::pow(speed, 2.5);
      profile.add(static_cast<int>(stage), OpKind::forward, {clock, time_s, time_s * power_w});
      profile.add(static_cast<int>(stage), OpKind::backward, {clock, 2 * time_s, 2 * time_s * power_w});
    }
  }
  return profile;
}

/// Four slightly uneven stages of such GPUs under 1F1B.
inline SampleProblem four_stages(int microbatches) {
  return {schedule::one_f_one_b_schedule(4, microbatches), modelled_profile({0.050, 0.056, 0.052, 0.058}), 80};
}

/// The plan replayed on the schedule that it asks for.
inline simulator::Timeline replay_plan(const SampleProblem& sample, const PolicyPlan& plan) {
  PlanningProblem problem = sample.problem();
  const schedule::PipelineDag dag = plan.schedule ? build_dag(*plan.schedule) : sample.dag();
  problem.dag = &dag;
  return replay_clocks(problem, plan.clocks_mhz);
}

}  // namespace lowgear::planner
