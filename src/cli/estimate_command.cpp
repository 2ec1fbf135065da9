#include <memory>
#include <optional>
#include <utility>

#include "cli/command_line.h"
#include "cli/cost_sources.h"
#include "cli/estimate_page.h"
#include "cli/estimate_plan.h"
#include "cli/estimate_text.h"
#include "cli/job_input.h"
#include "cli/options.h"
#include "cli/peer_estimate_text.h"
#include "cli/progress_bar.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "core/file.h"
#include "estimator/emitted_profile.h"

namespace lowgear {
namespace {

struct EstimateArguments {
  JobArguments job;
  std::string samples;  ///< a folder
  bool peer_formula = false;
  bool plan = false;
  EstimatePlanArguments planning;
  std::string profile;  ///< to write, or empty
  std::string report;   ///< page to write, or empty
  std::string command;  ///< the command line, for the page
  bool json = false;
};

JobEstimate estimate(TrainingJob job, const std::string& samples) {
  const JobCosts costs(job, samples);
  JobEstimate result{.job = std::move(job), .memory = {}, .overflow = {}, .iteration = {}};
  result.memory = estimate_memory(result.job);
  result.overflow = explain_overflow(result.job, result.memory);
  result.iteration = estimate_iteration(result.job, costs.sources());
  for (std::string& note : costs.notes()) result.iteration.notes.push_back(std::move(note));
  return result;
}

ExitCode run_peer_estimate(const EstimateArguments& arguments, Console& console) {
  if (!arguments.job.settings.empty()) {
    throw InputError("--peer-formula takes its job from the file of --job as it is; leave " +
                     arguments.job.settings.front().origin + " out");
  }
  const PeerEstimate estimate = estimate_as_published(arguments.job.file, arguments.samples);
  if (arguments.json) {
    console.print_json(peer_estimate_json(estimate));
  } else {
    console.print(peer_estimate_text(estimate));
  }
  return ExitCode::ok;
}

void emit_profile(const EstimateArguments& arguments, const JobEstimate& estimate, Console& console) {
  if (arguments.profile.empty()) return;
  write_file_atomically(arguments.profile, write_stage_profile(emitted_profile(estimate.job.gpu, estimate.iteration)));
  console.note(emitted_profile_note(estimate.job, arguments.profile));
}

std::optional<PlannedEstimate> plan_if_asked(const EstimateArguments& arguments, const JobEstimate& estimate) {
  if (!arguments.plan && arguments.report.empty()) return std::nullopt;
  ProgressBar progress;
  return plan_estimate(estimate.job, estimate.iteration, arguments.planning, progress);
}

/// That a job does not fit is an answer, not a failure: it is said first, and the program ends with 0.
ExitCode run_estimate(const EstimateArguments& arguments, Console& console) {
  if (arguments.peer_formula) return run_peer_estimate(arguments, console);
  const JobEstimate result = estimate(load_job(arguments.job), arguments.samples);
  const std::optional<PlannedEstimate> planned = plan_if_asked(arguments, result);
  emit_profile(arguments, result, console);
  if (!arguments.report.empty()) {
    const EstimateReport page = estimate_page(result, *planned, arguments.planning.prices, arguments.command);
    write_file_atomically(arguments.report, render_estimate_report(page));
  }
  const int gpus = result.job.parallel.gpus();
  if (arguments.json) {
    Json json = estimate_json(result);
    if (planned) json["plan"] = planned_json(*planned, gpus, arguments.planning.prices);
    console.print_json(json);
  } else {
    console.print(estimate_text(result) + (planned ? planned_text(*planned, gpus, arguments.planning.prices) : ""));
  }
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_estimate(CLI::App& app) {
  auto arguments = std::make_shared<EstimateArguments>();
  add_job_options(app, arguments->job);
  app.add_option("--operators", arguments->samples,
                 "Folder of sampling files, as `lowgear sample` writes them: times come from them where they can")
      ->type_name("DIR");
  CLI::Option* peer = app.add_flag(
      "--peer-formula", arguments->peer_formula,
      "Estimate as the published estimator does, with its formula and regressors; the job is a file of its own");
  CLI::Option* plan = app.add_flag("--plan", arguments->plan,
                                   "Also plan clocks: what the job would take at full clocks "
                                   "and on its frontier");
  add_estimate_plan_options(app, arguments->planning, plan);
  app.add_option("--emit-profile", arguments->profile, "Write a stage profile over the GPU's clocks for lowgear plan")
      ->type_name("FILE")
      ->excludes(peer);
  app.add_option("--report", arguments->report,
                 "Write a page: where time, energy and memory go, and the frontier of a plan")
      ->type_name("FILE")
      ->excludes(peer);
  plan->excludes(peer);
  add_json_flag(app, arguments->json);
  return [arguments, &app](Console& console) {
    arguments->command = command_line(app);
    return run_estimate(*arguments, console);
  };
}

}  // namespace lowgear
