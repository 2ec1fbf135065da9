#include "app/operations/runs/policy_experiment_run.h"

#include <fmt/format.h>

#include <utility>

#include "app/cli/arguments/job_input.h"
#include "app/cli/terminal/memory.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "planning/workflow/planning_memory.h"

namespace lowgear::operations {
namespace {

namespace fs = std::filesystem;

estimator::TrainingJob read_job(const experiment::PolicyJob& job, const fs::path& folder) {
  cli::JobArguments arguments{.file = (folder / job.job).string(), .settings = {}};
  for (const std::string& setting : job.settings) {
    const std::size_t equals = setting.find('=');
    arguments.settings.push_back(
        {.origin = printable(setting), .path = setting.substr(0, equals), .value = setting.substr(equals + 1)});
  }
  try {
    return cli::load_job(arguments);
  } catch (const InputError& error) {
    throw InputError(fmt::format("job {}: {}", quote(job.name), error.what()));
  }
}

}  // namespace

PolicyExperimentInput read_policy_experiment(const fs::path& path) {
  PolicyExperimentInput input{.file = experiment::parse_policy_experiment(read_file(path), path.string()), .jobs = {}};
  for (const experiment::PolicyJob& job : input.file.jobs) input.jobs.push_back(read_job(job, path.parent_path()));
  return input;
}

std::vector<experiment::ReplayedJob> run_policy_experiment(const PolicyExperimentInput& input, Progress& progress) {
  std::vector<experiment::ReplayedJob> results;
  for (std::size_t i = 0; i < input.jobs.size(); ++i) {
    const estimator::TrainingJob& job = input.jobs[i];
    workflow::require_planning_memory(job.parallel.pp, static_cast<int>(job.microbatches()),
                                      job.parallel.virtual_stages, cli::available_memory_bytes());
    results.push_back(replay_policies(input.file, input.file.jobs[i].name, estimate_job(job, {}), &progress));
  }
  return results;
}

}  // namespace lowgear::operations
