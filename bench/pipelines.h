#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "planning/planner/frontier/instance.h"
#include "planning/planner/planners/planning_model.h"
#include "planning/planner/policies/policy.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/schedule.h"

namespace lowgear::bench {

/// A measured stage profile of the artifact of Perseus (SOSP'24, ml-energy/zeus branch `kronos`,
/// sosp24_data/emulation), with its settings. Eight stages; times and energies are a tenth of the real ones. Not part
/// of this project: read from ../shared/data/perseus.
struct GivenProfile {
  std::string_view name;
  std::string_view file;
  double blocking_power_w = 0;
  double perseus_unit_s = 0;  ///< time unit of the artifact's own planner

  [[nodiscard]] profile::StageProfile read() const;
};

inline constexpr GivenProfile kGpt3OnA100{"gpt3-175b A100", "gpt3-175b+a100_sxm_bf16.csv", 83.64, 1e-3};
inline constexpr GivenProfile kBloomOnA40{"bloom A40", "bloom+a40_bf16.csv", 70.38, 1e-4};
inline constexpr std::array kGivenProfiles{&kGpt3OnA100, &kBloomOnA40};
inline constexpr int kGivenStages = 8;

[[nodiscard]] bool given_data_present();
/// False, after having said so loudly on stderr, when the given data is absent: for the start of a study that needs it.
[[nodiscard]] bool require_given_data(std::string_view study);

/// A profiled pipeline on 1F1B.
class Pipeline {
 public:
  /// One rank per stage of the profile.
  Pipeline(profile::StageProfile profile, double blocking_power_w, int microbatches);
  Pipeline(const GivenProfile& given, int microbatches)
      : Pipeline(given.read(), given.blocking_power_w, microbatches) {}

  [[nodiscard]] const schedule::Schedule& schedule() const { return schedule_; }
  [[nodiscard]] const schedule::PipelineDag& dag() const { return dag_; }
  [[nodiscard]] const profile::StageProfile& profile() const { return profile_; }
  [[nodiscard]] const std::vector<double>& blocking_power_w() const { return blocking_power_w_; }
  /// Refers to this pipeline.
  [[nodiscard]] planner::PlanningProblem problem() const { return {&schedule_, &dag_, &profile_, blocking_power_w_}; }

 private:
  profile::StageProfile profile_;
  std::vector<double> blocking_power_w_;
  schedule::Schedule schedule_;
  schedule::PipelineDag dag_;
};

/// What the solver works on, all the way from a profile in memory: schedule, graph and costs on 1F1B.
[[nodiscard]] planner::ProblemInstance instance_of(const profile::StageProfile& profile, double blocking_power_w,
                                                   int microbatches);

/// A pipeline in which no two stages are alike: every (stage, kind) has the times and the energies of the base's first
/// stage (of its last, the last one), each scaled by a factor of its own from 0.95 to 1.05. The same on every machine.
/// The base is GPT-3's given profile, whose blocking power goes with it, or Lowgear's example profile where that is
/// absent.
[[nodiscard]] profile::StageProfile unequal_stages(int stages);

}  // namespace lowgear::bench
