#include "client/steps/step_planning.h"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/switch_latency.h"
#include "planning/steps/work_model.h"

namespace lowgear::client {

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

/// The two files, read.
struct StepTexts {
  profile::ProfileFile profile;
  steps::WorkModel work;
};

void require_work_file(const StepFiles& files) {
  std::error_code unknown;
  if (std::filesystem::exists(files.work, unknown) || unknown) return;
  throw_input_error({files.profile.string(), 0, 0},
                    fmt::format("has no times by length, as there is no {}", files.work.string()),
                    "record a job that tells its lengths (lowgear.tell_lengths, lowgear run --record), and make the "
                    "profile of that recording (lowgear profile)");
}

StepTexts read_step_files(const StepFiles& files) {
  StepTexts texts{.profile = profile::read_profile_file(read_file(files.profile), files.profile.string()), .work = {}};
  require_work_file(files);
  texts.work = steps::read_work_file(read_file(files.work), files.work.string(), texts.profile.profile);
  if (texts.profile.columns.blocking_power_w.empty()) {
    throw_input_error({files.profile.string(), 0, 0}, "does not state the power of waiting GPUs",
                      "record more iterations, or profile with --blocking-power");
  }
  return texts;
}

}  // namespace

void check_step_files(const StepFiles& files) { (void)read_step_files(files); }

StepPlanning read_step_planning(const StepFiles& files, schedule::Schedule schedule) {
  StepTexts texts = read_step_files(files);
  const profile::ProfileFile& file = texts.profile;
  steps::StepPipeline pipeline{.schedule = std::move(schedule),
                               .profile = profile::at_fastest_settings(file.profile),
                               .blocking_power_w = {},
                               .work = std::move(texts.work),
                               .clocks_per = files.clocks_per};
  if (file.profile.stages() != pipeline.schedule.stages) {
    throw_input_error({files.profile.string(), 0, 0},
                      fmt::format("has {} stages, and the job has {}", file.profile.stages(), pipeline.schedule.stages),
                      "profile this job");
  }
  require_times(pipeline.schedule, pipeline.work, files.work.string());
  pipeline.blocking_power_w.resize(pipeline.schedule.ranks.size());
  const std::vector<int> rank_of = rank_of_stage(pipeline.schedule);
  for (std::size_t stage = rank_of.size(); stage-- > 0;) {
    pipeline.blocking_power_w[static_cast<std::size_t>(rank_of[stage])] = file.columns.blocking_power_w[stage];
  }
  StepPlanning planning;
  planning.schedule = pipeline.schedule.name;
  planning.fit_error = pipeline.work.error();
  if (files.clocks_per == steps::ClocksPer::replica) {
    planning.clock_lead_s = file.switch_latency_s.value_or(profile::kAssumedSwitchLatencyS);
  }
  planning.planner = std::make_unique<steps::NextStepPlanner>(std::move(pipeline));
  return planning;
}

}  // namespace lowgear::client
