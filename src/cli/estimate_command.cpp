#include <memory>
#include <utility>

#include "cli/estimate_text.h"
#include "cli/job_input.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "estimator/link_costs.h"
#include "estimator/roofline_costs.h"

namespace lowgear {
namespace {

struct EstimateArguments {
  JobArguments job;
  bool json = false;
};

JobEstimate estimate(TrainingJob job) {
  const RooflineCosts operators(job.gpu);
  const LinkCosts collectives(job.cluster);
  JobEstimate result{.job = std::move(job), .memory = {}, .overflow = {}, .iteration = {}};
  result.memory = estimate_memory(result.job);
  result.overflow = explain_overflow(result.job, result.memory);
  result.iteration = estimate_iteration(result.job, {operators, collectives});
  return result;
}

/// That a job does not fit is an answer, not a failure: it is said first, and the program ends with 0.
ExitCode run_estimate(const EstimateArguments& arguments, Console& console) {
  const JobEstimate result = estimate(load_job(arguments.job));
  if (arguments.json) {
    console.print_json(estimate_json(result));
  } else {
    console.print(estimate_text(result));
  }
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_estimate(CLI::App& app) {
  auto arguments = std::make_shared<EstimateArguments>();
  add_job_options(app, arguments->job);
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_estimate(*arguments, console); };
}

}  // namespace lowgear
