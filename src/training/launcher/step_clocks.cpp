#include "training/launcher/step_clocks.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "planning/api/plan_replays.h"
#include "planning/profile/profile_file.h"
#include "planning/steps/work_model.h"
#include "training/launcher/training_schedule.h"

namespace lowgear::launcher {

namespace {

void require_times(const schedule::Schedule& schedule, const steps::WorkModel& work, const std::string& source) {
  for (const std::vector<schedule::Action>& actions : schedule.ranks) {
    for (const schedule::Action& action : actions) {
      if (action.kind != schedule::ActionKind::compute || work.cells().contains({action.stage, action.op})) continue;
      throw_input_error({source, 0, 0}, fmt::format("has no times of {}s of stage {}", name(action.op), action.stage),
                        "profile this job");
    }
  }
}

}  // namespace

StepClocks read_step_clocks(const TrainConfig& config) {
  const StepClocksConfig& given = config.step_clocks.value();
  const profile::ProfileFile file = profile::read_profile_file(read_file(given.profile), given.profile.string());
  steps::StepPipeline pipeline{.schedule = training_schedule(config),
                               .profile = profile::at_fastest_settings(file.profile),
                               .blocking_power_w = {},
                               .work = steps::read_work_file(read_file(given.work), given.work.string(), file.profile),
                               .clocks_per = given.clocks_per};
  const SourceLocation where{given.profile.string(), 0, 0};
  if (file.profile.stages() != pipeline.schedule.stages) {
    throw_input_error(where,
                      fmt::format("has {} stages, and the job has {}", file.profile.stages(), pipeline.schedule.stages),
                      "profile this job");
  }
  if (file.columns.blocking_power_w.empty()) {
    throw_input_error(where, "does not state the power of waiting GPUs",
                      "record more iterations, or profile with --blocking-power");
  }
  require_times(pipeline.schedule, pipeline.work, given.work.string());
  pipeline.blocking_power_w.resize(pipeline.schedule.ranks.size());
  const std::vector<int> rank_of = rank_of_stage(pipeline.schedule);
  for (std::size_t stage = rank_of.size(); stage-- > 0;) {
    pipeline.blocking_power_w[static_cast<std::size_t>(rank_of[stage])] = file.columns.blocking_power_w[stage];
  }
  const double fit_error = pipeline.work.error();
  const bool asks_ahead = given.clocks_per == steps::ClocksPer::replica;
  return {std::make_unique<steps::NextStepPlanner>(std::move(pipeline)),
          asks_ahead ? file.switch_latency_s.value_or(api::kAssumedSwitchLatencyS) : 0, fit_error};
}

}  // namespace lowgear::launcher
