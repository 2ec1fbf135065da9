#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "planning/schedule/schedule.h"
#include "planning/steps/next_step.h"

namespace lowgear::client {

/// What `lowgear profile` writes of a job's recording with lengths, and what a plan of a step chooses.
struct StepFiles {
  std::filesystem::path profile;  ///< stage profile with the column `blocking_power`
  std::filesystem::path work;     ///< times by length
  steps::ClocksPer clocks_per = steps::ClocksPer::unit;
};

/// What plans a job's steps.
struct StepPlanning {
  std::unique_ptr<steps::NextStepPlanner> planner;
  std::string schedule;     ///< its name
  double clock_lead_s = 0;  ///< how long before its unit a clock is requested
  double fit_error = 0;     ///< relative, of times by length
};

/// Throws InputError when a file cannot be read or is not of this schedule, or the profile does not state what GPUs
/// draw while they wait.
[[nodiscard]] StepPlanning read_step_planning(const StepFiles& files, schedule::Schedule schedule);

/// What can be said of the files before the job's schedule is known. Throws InputError likewise.
void check_step_files(const StepFiles& files);

}  // namespace lowgear::client
